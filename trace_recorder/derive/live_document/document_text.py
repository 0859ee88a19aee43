"""The parts of a document as JSON in UTF-8. A message that many calls repeat is encoded once.

Calls and steps are given in their order, one after another. With deltas, only the messages that a call adds to an
earlier one are encoded, and no text is kept. Otherwise texts of messages are kept, which the document repeats.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from functools import partial

from trace_recorder.signal_handlers import ours
from trace_recorder.values.history_deltas import MessageDeltas
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.long_strings import make_json_bytes_writer
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.prompt_changes import Numbers
from trace_recorder.values.trajectory import AgentStep, History

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""How many bytes of messages are kept, which later calls repeat."""
_encode = make_json_writer(", ", ": ")
_encode_in_steps = make_json_bytes_writer(", ", ": ")
_encode_lines, _encode_lines_and_yield = (make_json_writer(",\n", ": ", yields=yields) for yields in (False, True))


class DocumentText:
    """Encodes the parts of one document.

    `has_long_strings` says whether a string may be so long that its encoding has to let other threads run, which makes
    each string take a call more.
    """

    def __init__(self, history: History, *, has_long_strings: bool) -> None:
        self._history = history
        self._has_long_strings = has_long_strings
        self._dump = partial(_dump, has_long_strings=has_long_strings)
        self._texts: dict[int, bytes] = {}
        self._kept_bytes = 0
        self._calls, self._steps = MessageDeltas(_numbers_of), MessageDeltas(_numbers_of)

    def interaction(self, one: LLMInteraction) -> bytes:
        """Encode an interaction."""
        if not one.source.has_request():
            return self._dump(one.to_document())
        messages = one.source.request().messages
        if self._history == "inline":
            return self._with_messages(
                one.to_document({"input_messages": None}), "input_messages", b"[", messages, b"]"
            )
        begin, new = self._delta(self._calls, one.interaction_id, messages)
        document = one.to_document({"input_messages_delta": None})
        return self._with_messages(document, "input_messages_delta", b"{" + begin, new, b"]}")

    def step(self, one: AgentStep, number: int) -> bytes:
        """Encode a step. `number` is its place among the steps."""
        messages = one.messages
        if messages is None:
            return self._dump(one.to_document())
        if self._history == "inline":
            return self._with_messages(
                one.to_document(messages={"llm_messages": None}), "llm_messages", b"[", messages, b"]"
            )
        name = f"messages_{number}"
        begin, new = self._delta(self._steps, name, messages)
        begin = b'{"id": ' + self._dump(name) + b", " + begin
        document = one.to_document(messages={"llm_messages_delta": None})
        return self._with_messages(document, "llm_messages_delta", begin, new, b"]}")

    def members(self, document: dict[str, Payload]) -> bytes:
        """Encode the members of the root, each on its own line, without the braces."""
        encode = _encode_lines_and_yield if self._has_long_strings else _encode_lines
        try:
            return encode(document)[1:-1].encode()
        except ours(UnicodeEncodeError):
            return to_json(document)[1:-1].encode()

    def _delta(self, deltas: MessageDeltas, name: str, messages: Sequence[Message]) -> tuple[bytes, Sequence[Message]]:
        """Return the members of a delta before its messages, and these messages."""
        since, kept, count = deltas.kept_of(name, messages)
        return self._dump({"since": since, "kept": kept})[1:-1] + b', "messages": [', messages[count:]

    def _with_messages(
        self, document: dict[str, Payload], name: str, begin: bytes, messages: Sequence[Message], end: bytes
    ) -> bytes:
        """Encode an object of which one member, in the middle, has these messages."""
        members = [*document.items()]
        at = [*document].index(name)
        before, behind = self._dump(dict(members[:at]))[:-1], self._dump(dict(members[at + 1 :]))[1:]
        texts = b", ".join(self._messages(messages))
        return b"".join([before, b', "%s": ' % name.encode(), begin, texts, end, b", ", behind])

    def _messages(self, messages: Sequence[Message]) -> Iterable[bytes]:
        if self._history == "delta" or not isinstance(messages, NumberedMessages):
            return [self._dump(message.to_document()) for message in messages]
        texts, numbers = self._texts, messages.numbers
        if self._kept_bytes > MAX_KEPT_BYTES:  # with history="inline" alone, a document may be so long
            texts.clear()
            self._kept_bytes = 0
        for number in numbers:
            if number not in texts:
                texts[number] = self._dump(messages.table.messages[number].to_document())
                self._kept_bytes += len(texts[number])
        return map(texts.__getitem__, numbers)


class MessageSizes:
    """The size of each message of a table, in bytes of the document's JSON. Each is encoded once, while it is new."""

    def __init__(self) -> None:
        self._sizes = array("q")

    def add_new(self, table: MessageTable, *, has_long_strings: bool) -> None:
        """Encode the messages that the table got since the last call."""
        for number in range(len(self._sizes), len(table.messages)):
            document = table.messages[number].to_document()
            self._sizes.append(len(_dump(document, has_long_strings=has_long_strings)))

    def size_of(self, prompt: NumberedMessages) -> int:
        """Return the size of the messages of a prompt."""
        return sum(map(self._sizes.__getitem__, prompt.numbers))


def _dump(value: Payload, *, has_long_strings: bool) -> bytes:
    """Encode JSON as UTF-8. A lone surrogate, which a stream that was cut off may end in, is described."""
    try:
        return _encode_in_steps(value) if has_long_strings else _encode(value).encode()
    except ours(UnicodeEncodeError):
        return _encode(json.loads(to_json(value))).encode()


def _numbers_of(messages: Sequence[Message]) -> Numbers | None:
    return messages.numbers if isinstance(messages, NumberedMessages) else None
