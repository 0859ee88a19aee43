"""Messages in a normalized form, in which an agent that sends a message back a little differently sends the same one.

A normalized message is one message, or several messages of an assistant one after another. Messages without content are
left out. Two are equal where they say the same: white space, thoughts that are not sent back, cache marks, what a
server's own tools left behind, and the ids of tool calls make no difference. The result of a tool is identified by the
call that it answers: by what was called, and at which place.

This is the equality that decides which call continues which. `cli/new_messages.py` has a stricter one of its own, by
the whole message, since people who read a run want to see each message that was changed in any way.

A digest is computed once for each distinct message, however many prompts repeat it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from trace_recorder.values.messages import Message, Payload, ToolCall
from trace_recorder.views.content.parts import Image, Part, Text, parts_of

EMPTY_PREFIX = b"\0" * 16
"""The digest of no messages."""
_THOUGHT = re.compile(r"\s*<(think|thinking|thought)>.*?</\1>|^.*?</think>", re.DOTALL)
"""Thoughts in the text of an answer, which agents leave out of the history. A template may begin them itself."""
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True, eq=False)
class NormalizedContent:
    """The content of a normalized message. `identity` is its digest, or that of its tool calls alone, if any."""

    role: str
    digest: bytes
    identity: bytes
    calls: tuple[ToolCall, ...] = ()

    @property
    def call_keys(self) -> Hashable:
        """The ids of its calls and the names of their tools."""
        return tuple((call.call_id, call.name) for call in self.calls)


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

    contents: dict[Hashable, NormalizedContent | None] = field(default_factory=dict)
    _by_message: dict[int, tuple[Message, NormalizedContent | None]] = field(default_factory=dict)

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
        new = list(messages[start:])
        for begin, end in _spans(new):
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
        if len(messages) > 1:
            return self._content(tuple(map(_key, messages)), messages)
        message = messages[0]
        known = self._by_message.get(id(message))
        if known is None:
            known = self._by_message[id(message)] = message, self._content(_key(message), messages)
        return known[1]

    def _content(self, key: Hashable, messages: Sequence[Message]) -> NormalizedContent | None:
        try:
            return self.contents[key]
        except KeyError:
            content = self.contents[key] = _normalized(messages)
            return content


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


def _normalized(messages: Sequence[Message]) -> NormalizedContent | None:
    role = "system" if messages[0].role == "developer" else messages[0].role
    calls = tuple(call for message in messages for call in message.tool_calls)
    parts = [part for message in messages for part in parts_of(message)]
    text = _normalized_text(parts, role)
    if role == "assistant" and not (text or calls):
        return None
    called = json.dumps([[call.name, call.arguments] for call in calls], sort_keys=True)
    others = [] if role == "assistant" else _other_texts(parts)
    digest = _digest(role, called, text, *others)
    return NormalizedContent(role, digest, _digest(role, called) if calls else digest, calls)


def _normalized_text(parts: Sequence[Part], role: str) -> str:
    """Join the texts of parts, without white space, and without the thoughts of an assistant."""
    text = "".join(part.text for part in parts if isinstance(part, Text))
    if role == "assistant":
        text = _THOUGHT.sub("", text, count=1)
    return "".join(text.split())


def _digest(*texts: str) -> bytes:
    digest = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def _other_texts(parts: Sequence[Part]) -> list[str]:
    """Write the parts that are no text."""
    others = [part for part in parts if not isinstance(part, Text)]
    return [part.address if isinstance(part, Image) else json.dumps(part.raw, sort_keys=True) for part in others]


def _key(message: Message) -> Hashable:
    """Return the members of a message that its normalized form is made of, as a hashable value."""
    content = message.content
    calls = tuple((call.call_id, call.name, _frozen(call.arguments, 0)) for call in message.tool_calls)
    beside = _frozen(message.extra["images"], 0) if "images" in message.extra else None
    return message.role, content if isinstance(content, str) else _frozen(content, 0), calls, beside


def _frozen(value: Payload, depth: int) -> Hashable:
    if isinstance(value, str) or value is None:
        return value
    if depth == _MAX_DEPTH or not isinstance(value, list | Mapping):
        return type(value), json.dumps(value, sort_keys=True)
    if isinstance(value, list):
        return tuple(_frozen(element, depth + 1) for element in value)
    return dict, *((name, _frozen(member, depth + 1)) for name, member in value.items())
