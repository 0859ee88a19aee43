"""What is said in a prompt, in a form that does not change where an agent sends it back a little differently.

An utterance is one message, or what an assistant says in several messages one after the other; silence is none. Two
are the same where they say the same: white space, thoughts that are not sent back, marks for a cache, and what a
server's own tools left behind make no difference, nor do the ids of tool calls. A tool's result is known by the call
that it answers: by what was asked for, and at which place.

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
"""The state of a conversation in which nothing was said."""
_THOUGHT = re.compile(r"\s*<(think|thinking|thought)>.*?</\1>|^.*?</think>", re.DOTALL)
"""Thoughts in the words of an answer, which agents leave out of the history. A template may begin them itself."""
_DEEPEST = 8


@dataclass(frozen=True, slots=True, eq=False)
class NormalizedContent:
    """What an utterance says. `name` is what it is known by: of an assistant that calls tools, the calls alone."""

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
    """Which call a tool's result answers: the one at a `place` in an utterance, which is `by` in the same prompt."""

    content: NormalizedContent
    call_index: int
    message_index: int | None


@dataclass(frozen=True, slots=True)
class NormalizedMessage:
    """The messages from `begin` to `end`; of a tool's result, which call it `answers`, where that is known."""

    begin: int
    end: int
    content: NormalizedContent
    answered_call: AnsweredCall | None = None

    @property
    def key(self) -> Hashable:
        """By what it is told from what else was said."""
        if self.answered_call is None:
            return self.content.identity
        return self.content.digest, self.answered_call.content.identity, self.answered_call.call_index


@dataclass(slots=True)
class MessageNormalizer:
    """The distinct messages of a run, and what they say."""

    contents: dict[Hashable, NormalizedContent | None] = field(default_factory=dict)

    def normalize(self, messages: Sequence[Message], asked: NormalizedContent | None = None) -> list[NormalizedMessage]:
        """Give the utterances of a prompt. `asked` is the answer that came before it, which it does not repeat."""
        calls: dict[str, AnsweredCall] = {}
        if asked is not None:
            calls = {call.call_id: AnsweredCall(asked, place, None) for place, call in enumerate(asked.calls)}
        found: list[NormalizedMessage] = []
        for begin, end in _spans(messages):
            words = self.content_of(messages[begin:end])
            if words is None:
                continue
            answers = calls.get(messages[begin].call_id or "") if words.role == "tool" else None
            for place, call in enumerate(words.calls):
                calls[call.call_id] = AnsweredCall(words, place, len(found))
            found.append(NormalizedMessage(begin, end, words, answers))
        return found

    def content_of(self, messages: Sequence[Message]) -> NormalizedContent | None:
        """Give what the messages of one utterance say; None of silence."""
        key = _key(messages[0]) if len(messages) == 1 else tuple(map(_key, messages))
        try:
            return self.contents[key]
        except KeyError:
            words = self.contents[key] = _normalized(messages)
            return words


def prefix_digests(said: Sequence[NormalizedMessage], start: bytes = EMPTY_PREFIX) -> Iterator[bytes]:
    """Give, after each utterance, a digest of all that was said so far."""
    for one in said:
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
    parts = [part for message in messages for part in parts_of(message)]
    text = "".join(part.text for part in parts if isinstance(part, Text))
    calls = tuple(call for message in messages for call in message.tool_calls)
    if role == "assistant":
        parts, text = [], _THOUGHT.sub("", text, count=1)
    text = "".join(text.split())
    if role == "assistant" and not (text or calls):
        return None
    asked = json.dumps([[call.name, call.arguments] for call in calls], sort_keys=True)
    others = [_part_text(part) for part in parts if not isinstance(part, Text)]
    digest = _digest(role, asked, text, *others)
    return NormalizedContent(role, digest, _digest(role, asked) if calls else digest, calls)


def _digest(*texts: str) -> bytes:
    digest = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def _part_text(part: Part) -> str:
    if isinstance(part, Image):
        return part.address
    return part.text if isinstance(part, Text) else json.dumps(part.raw, sort_keys=True)


def _key(message: Message) -> Hashable:
    """What tells a message from others: all of it that is looked at, as a value that can be looked up fast."""
    content = message.content
    calls = tuple((call.call_id, call.name, _frozen(call.arguments, 0)) for call in message.tool_calls)
    beside = _frozen(message.extra["images"], 0) if "images" in message.extra else None
    return message.role, content if isinstance(content, str) else _frozen(content, 0), calls, beside


def _frozen(value: Payload, depth: int) -> Hashable:
    if isinstance(value, str) or value is None:
        return value
    if depth == _DEEPEST or not isinstance(value, list | Mapping):
        return type(value), json.dumps(value, sort_keys=True)
    if isinstance(value, list):
        return tuple(_frozen(element, depth + 1) for element in value)
    return dict, *((name, _frozen(member, depth + 1)) for name, member in value.items())
