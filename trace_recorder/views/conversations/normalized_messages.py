"""Messages in a normalized form, in which an agent that sends a message back a little differently sends the same one.

A normalized message is one message, or several messages of an assistant one after another. Messages without content are
left out. Two are equal where they say the same: white space, thoughts that are not sent back, cache marks, what a
server's own tools left behind, and the ids of tool calls make no difference. The result of a tool is identified by the
call that it answers: by what was called, and at which place.

`values/message_equality.py` states this equality. A digest is computed once for each message of the run's table,
however many prompts repeat it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from trace_recorder.values.message_equality import NormalizedContent, normalized_content
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message

EMPTY_PREFIX = b"\0" * 16
"""The digest of no messages."""


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """The call that a tool's result answers: its message's content, and its index there.

    `message_index` is that of the message in the same prompt; None where an earlier prompt has it.
    """

    content: NormalizedContent
    call_index: int
    message_index: int | None


@dataclass(frozen=True, slots=True)
class NormalizedMessage:
    """The messages from `begin` to `end`. `answered_call` is the call of a tool's result, where it is known."""

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


@dataclass(slots=True)
class MessageNormalizer:
    """Normalizes the messages of a run, and keeps the content of each distinct one."""

    _contents: dict[MessageTable, dict[tuple[int, ...], NormalizedContent | None]] = field(default_factory=dict)
    _others: MessageTable = field(default_factory=MessageTable)

    def normalize(
        self, messages: Sequence[Message], before: NormalizedContent | None = None
    ) -> list[NormalizedMessage]:
        """Normalize the messages of a prompt. `before` is the answer that came before it and is not repeated in it."""
        calls: dict[str, AnsweredCall] = {}
        if before is not None:
            calls = {call.call_id: AnsweredCall(before, index, None) for index, call in enumerate(before.calls)}
        return self.normalize_from(messages, 0, 0, calls)

    def normalize_from(
        self, messages: Sequence[Message], start: int, count: int, calls: dict[str, AnsweredCall]
    ) -> list[NormalizedMessage]:
        """Normalize the messages of a prompt from one on; `count` is the number of normalized ones before it.

        `calls` are the calls made so far, by their ids; those of these messages are added.
        """
        found: list[NormalizedMessage] = []
        new = self._numbered(messages)[start:]
        for begin, end in _spans([*new]):
            content = self.content_of(new[begin:end])
            if content is None:
                continue
            answered = calls.get(new[begin].call_id or "") if content.role == "tool" else None
            for index, call in enumerate(content.calls):
                calls[call.call_id] = AnsweredCall(content, index, count + len(found))
            found.append(NormalizedMessage(start + begin, start + end, content, answered))
        return found

    def content_of(self, messages: Sequence[Message]) -> NormalizedContent | None:
        """Return the content of the messages that are one normalized message; None where they are empty."""
        given = self._numbered(messages)
        contents = self._contents.setdefault(given.table, {})
        key = (*given.numbers,)
        if key not in contents:
            contents[key] = normalized_content([*given])
        return contents[key]

    def _numbered(self, messages: Sequence[Message]) -> NumberedMessages:
        return messages if isinstance(messages, NumberedMessages) else self._others.prompt(messages)


def prefix_digests(messages: Sequence[NormalizedMessage], start: bytes = EMPTY_PREFIX) -> Iterator[bytes]:
    """Yield, after each message, a digest of all messages so far."""
    for one in messages:
        about = one.content.digest
        if one.answered_call is not None:
            about += one.answered_call.content.identity + b"%d" % one.answered_call.call_index
        start = blake2b(start + about, digest_size=16).digest()
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
