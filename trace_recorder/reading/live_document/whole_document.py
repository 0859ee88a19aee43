"""Writes a document from its journal: fold, render, temporary file, rename.

No data is kept in memory for the next write.

Calls and steps are written one after another into the file, and each item is read from its position in the journal. So
the memory of a write does not grow with the texts of messages and responses. The JSON text of a message is kept for
calls that repeat the message, up to a limit for all texts. The document covers all complete records that the journal
had when the write read it, and states how many.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, count, islice
from pathlib import Path

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.interactions import unreadable_gaps
from trace_recorder.reading.live_document.document_thread import DEFAULT_LIMITS, DocumentLimits
from trace_recorder.signal_handlers import ours
from trace_recorder.storage import journal_reader
from trace_recorder.storage.atomic_write import Buffer, SpooledBytes, replace_file
from trace_recorder.storage.items.table import JournalFile
from trace_recorder.values.document_members import renderer_of
from trace_recorder.values.history_deltas import MessageDeltas
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.metrics import Tally
from trace_recorder.values.prompt_comparison import Numbers
from trace_recorder.values.trajectory import AgentStep, Gap, History, Status

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""At most about this many bytes of encoded messages are kept. Other messages are encoded again.

Later calls and steps repeat messages, and encoding a message again takes time.
"""
_write = make_json_writer(",", ":")
_encode_lines = make_json_writer(",\n", ": ")
try:
    from msgspec.json import Encoder

    _encode: Callable[[Payload], bytes] = Encoder().encode
except ImportError:  # an agent's interpreter may have only the standard library

    def _encode(value: Payload) -> bytes:
        return _write(value).encode()


def _encode_described(value: Payload) -> bytes:
    """Encode JSON.

    A string with a lone half of a surrogate pair, such as at the end of a broken stream, becomes a description.
    """
    return _write(json.loads(to_json(value))).encode()


class EncodedTexts:
    """Encodes the messages of a run.

    It keeps the sizes of all messages, and at most about `max_kept_bytes` of their texts. So most messages are encoded
    only once.
    """

    def __init__(self, *, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._kept: dict[int, bytes] = {}
        self._kept_bytes = 0
        self._sizes = array("q")
        self._render = renderer_of(Message)

    def encode(self, value: Payload) -> bytes:
        """Encode a value."""
        try:
            return _encode(value)
        except ours(UnicodeEncodeError):
            return _encode_described(value)

    def measure_new(self, table: MessageTable) -> None:
        """Encode the messages that were added to the table since the last call of this method, and keep their sizes."""
        for number in range(len(self._sizes), len(table.messages)):
            text = self.encode(self._render(table.messages[number]))
            self._sizes.append(len(text))
            self._keep(number, text)

    def size_of(self, numbers: Iterable[int]) -> int:
        """Return the size in bytes of the messages with the numbers `numbers`.

        `measure_new` must have measured them.
        """
        return sum(map(self._sizes.__getitem__, numbers))

    def texts_of(self, messages: Sequence[Message]) -> Iterable[bytes]:
        """Return the JSON text of each message."""
        if not isinstance(messages, NumberedMessages):
            return [*map(self.encode, map(self._render, messages))]
        kept, texts = self._kept, []
        for number in messages.numbers:
            text = kept.get(number)
            if text is None:
                text = self.encode(self._render(messages.table.messages[number]))
                self._keep(number, text)
            texts.append(text)
        return texts

    def _keep(self, number: int, text: bytes) -> None:
        if self._kept_bytes > self._max_kept_bytes:
            self._kept.clear()
            self._kept_bytes = 0
        self._kept[number] = text
        self._kept_bytes += len(text)


class DocumentText:
    """Encodes the calls and steps of one document. The texts of messages come from an `EncodedTexts`.

    `counts` has the metrics of the encoded calls and steps. `gaps` has a gap for each request or stream that cannot be
    read.
    """

    def __init__(self, history: History, texts: EncodedTexts) -> None:
        self._history = history
        self._texts = texts
        self.counts, self.gaps = Tally(), list[Gap]()
        self._number_of_steps = 0
        self._calls, self._steps = MessageDeltas(_numbers_of), MessageDeltas(_numbers_of)

    def interaction(self, interaction: LLMInteraction, response: Payload) -> list[Buffer]:
        """Encode an interaction. `response` is its rendered response."""
        self.counts.add_interaction(interaction)
        source = interaction.source
        if not source.has_request():
            self.gaps += unreadable_gaps([interaction])
            return [self._texts.encode(interaction.to_document(response=response))]
        reading = source.request()
        messages = reading.messages
        if self._history == "inline":
            document = interaction.to_document({"input_messages": None}, reading, response)
            parts = self._with_messages(document, "input_messages", None, messages)
        else:
            since, new = self._delta(self._calls, interaction.interaction_id, messages)
            document = interaction.to_document({"input_messages_delta": None}, reading, response)
            parts = self._with_messages(document, "input_messages_delta", since, new)
        if isinstance(source, CallFacts) and source.newest.is_damaged:
            self.gaps += unreadable_gaps([interaction])
        return parts

    def step(self, step: AgentStep, response: Payload) -> list[Buffer]:
        """Encode a step. `response` is its rendered response, or None if the response was not rendered before."""
        self.counts.add_step(step)
        identity = f"messages_{self._number_of_steps}"
        self._number_of_steps += 1
        messages = step.messages
        if messages is None:
            return [self._texts.encode(step.to_document(response))]
        if self._history == "inline":
            document = step.to_document(response, messages={"llm_messages": None})
            return self._with_messages(document, "llm_messages", None, messages)
        since, new = self._delta(self._steps, identity, messages)
        document = step.to_document(response, messages={"llm_messages_delta": None})
        return self._with_messages(document, "llm_messages_delta", {"id": identity, **since}, new)

    def members(self, document: dict[str, Payload]) -> bytes:
        """Encode members of the document's root, each on its own line, without the braces around them."""
        try:
            return _encode_lines(document)[1:-1].encode()
        except ours(UnicodeEncodeError):
            return to_json(document)[1:-1].encode()

    def _delta(
        self, deltas: MessageDeltas, identity: str, messages: Sequence[Message]
    ) -> tuple[dict[str, Payload], Sequence[Message]]:
        """Return the members of a delta that come before `messages`, and the messages of the delta."""
        repetition = deltas.repetition(identity, messages)
        return repetition.members(), repetition.others(messages)

    def _with_messages(
        self, document: dict[str, Payload], name: str, since: dict[str, Payload] | None, messages: Sequence[Message]
    ) -> list[Buffer]:
        """Encode the JSON object of an interaction or a step.

        The member `name` is null in `document`. In the encoded text, its value is the list of messages. If `since` is
        not None, the value is a delta: the members in `since`, and the list.
        """
        texts = b",".join(self._texts.texts_of(messages))
        begin, end = b"[", b"]"
        for encode in (_encode, _encode_described):
            try:
                text = encode(document)
                if since is not None:
                    begin, end = encode(since)[:-1] + b',"messages":[', b"]}"
            except ours(UnicodeEncodeError):
                continue
            break
        # The members before this one are texts and numbers, so no object in them has a member of this name.
        place = text.index(b'"%s":null' % name.encode()) + len(name) + 3
        return [text[:place], begin, texts, end, memoryview(text)[place + len("null") :]]


def _numbers_of(messages: Sequence[Message]) -> Numbers | None:
    if isinstance(messages, NumberedMessages):
        return messages.numbers
    return None


_PARTS_BETWEEN_PAUSES = 4
"""The writer lets other threads run after each group of this many calls and steps, and after each long one."""
_PROMPTS_BETWEEN_PAUSES = 256
"""The writer lets other threads run each time after it added up the lengths of this many prompts."""


class PoorerDocumentError(OSError):
    """The old document is not replaced, because it has values that the journal lacks.

    The message of the exception names these values.
    """


class WholeDocument:
    """Writes the document of one journal, as the journal's file is now.

    The argument `history` is "inline", "delta" or "auto". If it is "auto", the document has deltas if all prompts
    together are larger than `inline_bytes`. The attribute `history` is the chosen form. `records` is how many records
    the document covers. `look` is called between two calls of the run. If `look` raises an exception, the write ends,
    and the old document stays.
    """

    def __init__(
        self,
        journal: Path,
        history: str,
        *,
        status: Status = "running",
        limits: DocumentLimits = DEFAULT_LIMITS,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._limits = limits
        self._status = status
        self._look = look
        self._texts = EncodedTexts()
        self.journal_bytes = 0
        """How many bytes of the journal were read, in complete lines."""
        self._measures = history == "auto"
        self._journal = JournalFile(journal)
        try:
            self._fold = self._read()
            self.history: History = "delta" if history == "delta" or self._has_long_prompts() else "inline"
        except BaseException:
            self._journal.close()
            raise
        self.records = self._fold.run.records
        self.damage = self._fold.run.damage
        """How many damaged lines the journal has, plus how many ranges of missing lines."""

    def write(self, path: Path, *, sync: bool = False) -> None:
        """Write the document to `path`. Call this method only once, because it closes the journal.

        If OSError is raised, the existing document is unchanged.
        """
        with closing(self._journal), closing(SpooledBytes(path.parent)) as steps:
            replace_file(path, self._content(steps), sync=sync)

    def write_unless_poorer(self, path: Path, aside: Path, *, sync: bool = False, replaced: Iterable[str] = ()) -> None:
        """Write the document to `path`, unless the old document there has values that the new one lacks.

        The members `replaced` are not compared. `aside` is a temporary file. Raises PoorerDocumentError if the new
        document lacks a value, and OSError if a file cannot be written.
        """
        from trace_recorder.reading.document_agreement import describe_losses  # noqa: PLC0415 - a recorder rarely needs it

        with closing(self._journal):
            old = document_json(path)
            try:
                self.write(aside, sync=sync)
                lost = describe_losses(
                    {name: value for name, value in old.items() if name not in {*replaced}}, document_json(aside)
                )
                if lost is not None:
                    raise PoorerDocumentError(lost)
                aside.replace(path)
            finally:
                aside.unlink(missing_ok=True)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> Fold:
        """Read the complete lines of the journal block by block, and add them to a fold.

        Each block begins at the start of a line.
        """
        fold = Fold(self._journal, max_kept_bytes=self._limits.kept_bytes)
        offset, size = 0, MAX_UNINTERRUPTED_CHARS
        while data := self._journal.read(size, offset):
            whole = data.rfind(b"\n") + 1
            fold.add(journal_reader.read_records(data[:whole], base=offset))
            if self._measures:
                self._texts.measure_new(fold.table)
            offset += whole
            if len(data) < size:
                break
            size = MAX_UNINTERRUPTED_CHARS if whole else size * 2
            self._pause()
        self.journal_bytes = offset
        return fold

    def _has_long_prompts(self) -> bool:
        """Return whether the complete messages of all calls and steps are together larger than `inline_bytes`."""
        if not self._measures:
            return False
        readings = (call.incremental for call in self._fold.calls.values())
        of_calls = (islice(reading.numbers, reading.count) for reading in readings if reading is not None)
        of_steps = (step.stated.messages for step in self._fold.steps)
        numbered = (prompt.numbers for prompt in of_steps if isinstance(prompt, NumberedMessages))
        size = 0
        for number, numbers in enumerate(chain(of_calls, numbered)):
            if number % _PROMPTS_BETWEEN_PAUSES == 0:
                self._pause()
            size += self._texts.size_of(numbers)
            if size > self._limits.inline_bytes:
                return True
        return False

    def _pause(self) -> None:
        """Let other threads run, and call `look`, which may end the write by an exception."""
        yield_to_others()
        self._look()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _content(self, steps: SpooledBytes) -> Iterator[Buffer]:
        """Yield the text of the document. `steps` keeps the texts of the steps until all calls are written."""
        fold, text = self._fold, DocumentText(self.history, self._texts)
        outline = fold.run.outline(self._status, fold.first_made())
        yield b"{\n" + text.members(outline.head()) + b',\n"llm_interactions": ['
        yield from self._calls(text, steps)
        yield b'],\n"agent_steps": ['
        for part in steps.content():
            self._pause()
            yield part
        metrics = text.counts.metrics(fold.run.redactions)
        outline = fold.run.outline(self._status, None, metrics=metrics, gaps=text.gaps)
        yield from (b"],\n", text.members(outline.tail(self.history)), b"\n}\n")

    def _calls(self, text: DocumentText, steps: SpooledBytes) -> Iterator[Buffer]:
        """Yield the encoded calls, and append the encoded steps to `steps`.

        So each call is read only once for its entry and its step. Other threads may run between two calls or steps.
        """
        calls: list[Buffer] = []
        comma = step_comma = b"\n"
        numbers = count(1)  # `enumerate` would keep each call in memory until the next call is read
        for interaction, step in self._fold.interactions_and_steps():
            response: Payload = None
            if interaction is not None:
                response = interaction.response.to_document()
                calls += (comma, *text.interaction(interaction, response))
                comma = b",\n"
            size = sum(map(len, calls))
            if next(numbers) % _PARTS_BETWEEN_PAUSES == 0 or size > MAX_UNINTERRUPTED_CHARS:
                self._pause()
                if size > MAX_UNINTERRUPTED_CHARS:
                    yield from calls
                else:
                    yield b"".join(calls)
                calls.clear()
            if step is not None:
                if step.llm_response is None:
                    response = None
                steps.append((step_comma, *text.step(step, response)))
                step_comma = b",\n"
            del interaction, step, response  # these may be large, and must be freed before the next call is read
        yield from calls


def document_json(document: Path) -> dict[str, Payload]:
    """Return the JSON object of a document. Return {} if the file is missing or cannot be read."""
    try:
        value: Payload = json.loads(document.read_bytes())
    except ours(OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return value
