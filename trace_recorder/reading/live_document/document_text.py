"""The JSON text of the calls and steps of a document.

The text of each message is encoded once, and kept up to a limit for all messages, because later calls and steps repeat
it. This module is imported with the first call or step of a run.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat

from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.interactions import unreadable_gaps
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.atomic_write import Buffer
from trace_recorder.values.document_members import renderer_of
from trace_recorder.values.history_deltas import MessageDeltas
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.metrics import Tally
from trace_recorder.values.prompt_comparison import Numbers
from trace_recorder.values.trajectory import AgentStep, Gap, History

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""At most about this many bytes of encoded messages are kept. Other messages are encoded again.

Later calls and steps repeat messages, and encoding a message again takes time.
"""
_write = make_json_writer(",", ":")
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
        self._replaced = 0
        """How many of the messages that were replaced in the table are encoded again."""
        self._render = renderer_of(Message)

    def encode(self, value: Payload) -> bytes:
        """Encode a value."""
        try:
            return _encode(value)
        except ours(UnicodeEncodeError):
            return _encode_described(value)

    def measure_new(self, table: MessageTable) -> None:
        """Encode the messages that are new in the table since the last call of this method, and keep their sizes.

        A message that was replaced since then is encoded again.
        """
        known, replaced = len(self._sizes), table.replaced[self._replaced :]
        self._replaced = len(table.replaced)
        self._sizes.extend(repeat(0, len(table.messages) - known))
        for number in chain(filter(known.__gt__, replaced), range(known, len(table.messages))):
            text = self.encode(self._render(table.messages[number]))
            self._sizes[number] = len(text)
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
        kept, texts = self._kept, list[bytes]()
        try:
            return [*map(kept.__getitem__, messages.numbers)]  # in C, because usually all of them are kept
        except ours(KeyError):
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
