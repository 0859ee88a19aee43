"""The parts of a document as JSON in UTF-8. A message that many calls repeat is encoded once.

Calls and steps are given in their order, one after another. Texts of messages are kept up to a limit, for the calls
and the steps that have the message too. A part is a list of texts, so that no long text is copied to be joined.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.derive.interactions import unreadable_gaps
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.atomic_write import Buffer
from trace_recorder.values.history_deltas import MessageDeltas
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.long_strings import make_json_bytes_writer
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.metrics import Tally
from trace_recorder.values.prompt_relation import Numbers
from trace_recorder.values.trajectory import AgentStep, Gap, History

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""How many bytes of messages are kept, which later calls and steps repeat."""
_write = make_json_writer(",", ":")
_encode_in_steps = make_json_bytes_writer(",", ":")
_encode_lines, _encode_lines_and_yield = (make_json_writer(",\n", ": ", yields=yields) for yields in (False, True))
try:
    from msgspec.json import Encoder

    _encode: Callable[[Payload], bytes] = Encoder().encode
except ImportError:  # in another interpreter, which has the standard library alone
    _encode = make_json_bytes_writer(",", ":")


def _encode_described(value: Payload) -> bytes:
    """Encode JSON in which a half of a surrogate pair is described. A stream that was cut off may end in one."""
    return _write(json.loads(to_json(value))).encode()


class MessageTexts:
    """The texts of the messages of a run, and how long they are. Each is encoded once, up to `max_kept_bytes` in all.

    `has_long_strings` says whether a string may be so long that its encoding has to let other threads run.
    """

    def __init__(self, *, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self.has_long_strings = False
        self._max_kept_bytes = max_kept_bytes
        self._kept: dict[int, bytes] = {}
        self._kept_bytes = 0
        self._sizes = array("q")

    def encode(self, value: Payload) -> bytes:
        """Encode a value."""
        try:
            return _encode_in_steps(value) if self.has_long_strings else _encode(value)
        except ours(UnicodeEncodeError):
            return _encode_described(value)

    def measure_new(self, table: MessageTable) -> None:
        """Encode the messages that the table got since the last call."""
        for number in range(len(self._sizes), len(table.messages)):
            text = self.encode(table.messages[number].to_document())
            self._sizes.append(len(text))
            self._keep(number, text)

    def size_of(self, numbers: Iterable[int]) -> int:
        """Return the size of the messages of these numbers, which were measured."""
        return sum(map(self._sizes.__getitem__, numbers))

    def texts_of(self, messages: Sequence[Message]) -> Iterable[bytes]:
        """Return the text of each message."""
        if not isinstance(messages, NumberedMessages):
            return [self.encode(message.to_document()) for message in messages]
        kept, texts = self._kept, []
        for number in messages.numbers:
            text = kept.get(number)
            if text is None:
                text = self.encode(messages.table.messages[number].to_document())
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
    """Encodes the calls and steps of one document, with the texts of its messages.

    `counts` are the metrics of those that were encoded, and `gaps` those that cannot be read.
    """

    def __init__(self, history: History, texts: MessageTexts) -> None:
        self._history = history
        self._texts = texts
        self._encode = _encode_in_steps if texts.has_long_strings else _encode
        self.counts, self.gaps = Tally(), list[Gap]()
        self._number_of_steps = 0
        self._calls, self._steps = MessageDeltas(_numbers_of), MessageDeltas(_numbers_of)

    def interaction(self, one: LLMInteraction) -> list[Buffer]:
        """Encode an interaction."""
        self.counts.add_interaction(one)
        source = one.source
        if not source.has_request():
            parts: list[Buffer] = [self._texts.encode(one.to_document())]
            self.gaps += unreadable_gaps([one])
            return parts
        reading = source.request()
        messages = reading.messages
        if self._history == "inline":
            document = one.to_document({"input_messages": None}, reading=reading)
            parts = self._with_messages(document, "input_messages", None, messages)
        else:
            since, new = self._delta(self._calls, one.interaction_id, messages)
            document = one.to_document({"input_messages_delta": None}, reading=reading)
            parts = self._with_messages(document, "input_messages_delta", since, new)
        if isinstance(source, CallRecords) and source.is_damaged:
            self.gaps += unreadable_gaps([one])
        return parts

    def step(self, one: AgentStep) -> list[Buffer]:
        """Encode a step."""
        self.counts.add_step(one)
        identity = f"messages_{self._number_of_steps}"
        self._number_of_steps += 1
        messages = one.messages
        if messages is None:
            return [self._texts.encode(one.to_document())]
        if self._history == "inline":
            document = one.to_document(messages={"llm_messages": None})
            return self._with_messages(document, "llm_messages", None, messages)
        since, new = self._delta(self._steps, identity, messages)
        document = one.to_document(messages={"llm_messages_delta": None})
        return self._with_messages(document, "llm_messages_delta", {"id": identity, **since}, new)

    def members(self, document: dict[str, Payload]) -> bytes:
        """Encode the members of the root, each on its own line, without the braces."""
        encode = _encode_lines_and_yield if self._texts.has_long_strings else _encode_lines
        try:
            return encode(document)[1:-1].encode()
        except ours(UnicodeEncodeError):
            return to_json(document)[1:-1].encode()

    def _delta(
        self, deltas: MessageDeltas, identity: str, messages: Sequence[Message]
    ) -> tuple[dict[str, Payload], Sequence[Message]]:
        """Return the members of a delta before its messages, and these messages."""
        since, kept, count = deltas.kept_of(identity, messages)
        return {"since": since, "kept": kept}, messages[count:]

    def _with_messages(
        self, document: dict[str, Payload], name: str, since: dict[str, Payload] | None, messages: Sequence[Message]
    ) -> list[Buffer]:
        """Encode an object of which one member, in the middle, has these messages, or a delta with them."""
        members = [*document.items()]
        place = [*document].index(name)
        texts = b",".join(self._texts.texts_of(messages))
        for encode in (self._encode, _encode_described):
            try:
                before, behind = encode(dict(members[:place]))[:-1], memoryview(encode(dict(members[place + 1 :])))[1:]
                begin = b"[" if since is None else encode(since)[:-1] + b',"messages":['
            except ours(UnicodeEncodeError):
                continue
            break
        return [before, b',"%s":' % name.encode(), begin, texts, b"]," if since is None else b"]},", behind]


def _numbers_of(messages: Sequence[Message]) -> Numbers | None:
    return messages.numbers if isinstance(messages, NumberedMessages) else None
