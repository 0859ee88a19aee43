"""Messages in a normalized form, which is equal if an agent sends a message back a little differently.

A normalized message is one message, or several consecutive messages of an assistant. Messages without content are left
out. Two are equal if they say the same. White space, thoughts that are not sent back, cache marks, leftovers of a
server's own tools, and the ids of tool calls are ignored. The result of a tool is identified by the call that it
answers: by the message that made the call, and by the place of the call in it.

`values/message_equality.py` states this equality. A digest is computed once for each message of the run's table,
however many prompts repeat it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from trace_recorder.values.message_equality import NormalizedContent, normalized_content
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """The call that a tool's result answers: the content of its message, and its index in the message.

    `message_index` is the index of the calling message in the prompt of the result, or None if the calling message is
    in an earlier prompt.
    """

    content: NormalizedContent
    call_index: int
    message_index: int | None


@dataclass(frozen=True, slots=True)
class NormalizedMessage:
    """The messages from `begin` to `end`. `answered_call` is the call of a tool's result, if it is known."""

    begin: int
    end: int
    content: NormalizedContent
    answered_call: AnsweredCall | None = None

    @property
    def key(self) -> Hashable:
        """Identifies the message within a run."""
        if self.answered_call is None:
            return self.content.identity
        return self.content.digest, self.answered_call.content.identity, self.answered_call.call_index

    def term(self, place: int) -> int:
        """Return the summand of the message at its place in the prompt. The sum of these identifies a prefix."""
        data = self.content.digest
        if self.answered_call is not None:
            data += self.answered_call.content.identity + b"%d" % self.answered_call.call_index
        return int.from_bytes(blake2b(b"%d:" % place + data, digest_size=16).digest(), "big")


class MessageNormalizer:
    """Normalizes the messages of a run, and keeps the content of each distinct one."""

    def __init__(self) -> None:
        self._contents: dict[MessageTable, dict[tuple[int, ...], NormalizedContent | None]] = {}
        self._others = MessageTable()
        self._called_ids: set[str] = set()

    def normalize(
        self, messages: Sequence[Message], before: NormalizedContent | None = None
    ) -> list[NormalizedMessage]:
        """Normalize the messages of a prompt.

        `before` is the answer before it, if the prompt does not repeat that answer.
        """
        return self.normalize_more(messages, 0, [], before)

    def normalize_more(
        self,
        messages: Sequence[Message],
        start: int,
        known: Sequence[NormalizedMessage],
        before: NormalizedContent | None = None,
    ) -> list[NormalizedMessage]:
        """Normalize the messages of a prompt from the position `start` on.

        `known` are the normalized messages before it.
        """
        normalized: list[NormalizedMessage] = []
        new = self.numbered(messages)[start:]
        for begin, end in _spans([*new]):
            content = self.content_of(new[begin:end])
            if content is None:
                continue
            answered, call_id = None, new[begin].call_id or ""
            if content.role == "tool" and call_id in self._called_ids:
                answered = _answered_call(call_id, known, normalized, before)
            normalized.append(NormalizedMessage(start + begin, start + end, content, answered))
        return normalized

    def content_of(self, messages: Sequence[Message]) -> NormalizedContent | None:
        """Return the content of the messages that form one normalized message, or None if they are empty."""
        numbered = self.numbered(messages)
        contents = self._contents.setdefault(numbered.table, {})
        key = (*numbered.numbers,)
        if key not in contents:
            content = contents[key] = normalized_content([*numbered])
            self._called_ids.update(call.call_id for call in (content.calls if content else ()))
        return contents[key]

    def numbered(self, messages: Sequence[Message]) -> NumberedMessages:
        """Return messages with their numbers in a table."""
        return messages if isinstance(messages, NumberedMessages) else self._others.prompt(messages)


def _answered_call(
    call_id: str,
    known: Sequence[NormalizedMessage],
    normalized: Sequence[NormalizedMessage],
    before: NormalizedContent | None,
) -> AnsweredCall | None:
    """Return the last call with an id before a result. Usually the result follows it at once."""
    for place in reversed(range(len(known) + len(normalized))):
        content = (known[place] if place < len(known) else normalized[place - len(known)]).content
        for index in reversed(range(len(content.calls))):
            if content.calls[index].call_id == call_id:
                return AnsweredCall(content, index, place)
    calls = () if before is None else before.calls
    index = max((index for index, call in enumerate(calls) if call.call_id == call_id), default=-1)
    return None if before is None or index < 0 else AnsweredCall(before, index, None)


def prefix_sums(messages: Sequence[NormalizedMessage], place: int = 0, start: int = 0) -> Iterator[int]:
    """Yield, after each message, a number that identifies all messages so far and their order.

    It is a sum with a term for each message and its place, so an edit of one message changes all later sums alike. The
    messages begin at a `place`, after those with the sum `start`.
    """
    for at, one in enumerate(messages, place):
        start += one.term(at)
        yield start


def _spans(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < len(messages):
        end = begin + 1
        if messages[begin].role == "assistant":
            while end < len(messages) and messages[end].role == "assistant":
                end += 1
        yield begin, end
        begin = end
