"""Makes keys of messages: equal messages have equal keys.

There are two equalities. All code that compares messages uses one of them.

- *The same JSON* (`json_key`): every member is the same. `shown_key` ignores the marks for a provider's cache, which
  move from call to call. The pages and commands for people compare messages by `shown_key`, and show which are new,
  changed or gone.
- *Says the same* (`says_key`): white space, thoughts that are not sent back, cache marks, ids of tool calls and the
  difference between "system" and "developer" make no difference. This equality decides which earlier call a call
  continues.

`message_table.py` gives a number to each key.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from hashlib import blake2b

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.content_parts import Image, Other, Part, Text, parts_of
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Message, Payload, ToolCall
from trace_recorder.values.structs import Struct

THOUGHT = lazy_pattern(r"\s*<(think|thinking|thought)>.*?</\1>|^.*?</think>", re.DOTALL)
"""Matches thoughts in the text of an answer, such as `<think>…</think>`.

Agents leave thoughts out of the history. The opening tag is missing if the chat template wrote it at the end of the
prompt.
"""
_ASCII_SPACES = bytes(code for code in range(128) if chr(code).isspace())
_CACHE_MARK = "cache_control"
_json = make_json_writer(", ", ": ", ensure_ascii=True, sort_keys=True)
"""Returns the JSON of a value, as text that does not depend on the order of members."""


# ── the same JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


def json_digest(value: Payload) -> bytes:
    """Return a digest of JSON. The order of members makes no difference."""
    return _digest(_json(value))


def json_key(message: Message) -> bytes:
    """Return a digest of a message's JSON."""
    return json_digest(message.to_document())


def shown_key(message: Message) -> bytes:
    """Return the digest of a message's JSON without cache marks (`without_cache_marks`)."""
    document: Payload = message.to_document()
    text = _json(document)
    if isinstance(message.content, list) or f'"{_CACHE_MARK}"' in text:
        text = _json(without_cache_marks(document))
    return _digest(text)


def without_cache_marks(value: Payload) -> Payload:
    """Return the value without cache marks, and without the forms that only a mark requires.

    A list of one text part becomes that text, and a member with an empty object is removed.
    """
    if isinstance(value, dict):
        members = ((name, without_cache_marks(member)) for name, member in value.items() if name != _CACHE_MARK)
        return {name: member for name, member in members if member != {}}
    if not isinstance(value, list):
        return value
    elements = [without_cache_marks(element) for element in value]
    if len(elements) == 1:
        [only] = elements
        if isinstance(only, dict) and only.keys() == {"type", "text"}:
            return only["text"]
    return elements


# ── says the same ────────────────────────────────────────────────────────────────────────────────────────────────────


class NormalizedContent(Struct, frozen=True, eq=False, gc=False):
    """A message's content in the form that the equality *says the same* compares.

    Consecutive messages of an assistant are treated as one message.

    Two messages say the same if their `digest` is equal. `identity` is the digest of the role and the tool calls, or
    equal to `digest` if there are no tool calls.
    """

    role: str
    digest: bytes
    identity: bytes
    calls: tuple[ToolCall, ...] = ()

    @property
    def call_keys(self) -> tuple[tuple[str, str], ...]:
        """The ids of the message's tool calls, and the names of their tools."""
        return tuple([(call.call_id, call.name) for call in self.calls])

    @property
    def keys(self) -> Iterator[Hashable]:
        """The keys by which an answer is found: its identity, and then its tool calls, if it has any."""
        yield self.identity
        if self.calls:
            yield self.call_keys


def normalized_content(messages: Sequence[Message]) -> NormalizedContent | None:
    """Return the normalized content of consecutive messages, or None for an empty answer."""
    first = messages[0]
    role, calls = first.role, first.tool_calls
    if role == "developer":
        role = "system"
    if len(messages) > 1:
        calls = tuple(call for message in messages for call in message.tool_calls)
    parts: list[Part] = []
    if len(messages) == 1 and isinstance(first.content, str) and not first.extra:  # most messages are one text
        text = first.content
    else:
        parts = [part for message in messages for part in parts_of(message)]
        text = "".join([part.text for part in parts if isinstance(part, Text)])
    others: list[str] = []
    if role == "assistant":
        if "</th" in text:  # every thought has this; without it, the pattern would be tried at each character
            text = THOUGHT.sub("", text, count=1)
    else:
        others = _normalized_others(parts)
    text = _without_spaces(text)
    if role == "assistant" and not (text or calls):
        return None
    called = "[]"
    if calls:
        called = _json([[call.name, call.arguments] for call in calls])
    digest = _digest(role, called, text, *others)
    identity = digest
    if calls:
        identity = _digest(role, called)
    return NormalizedContent(role, digest, identity, calls)


def _without_spaces(text: str) -> str:
    """Return a text without white space.

    Bytes are deleted several times as fast as a text is split, and most white space is ASCII.
    """
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII_SPACES).decode("utf-8", "surrogatepass")
    if rest.isascii():
        return rest
    return "".join(rest.split())


def _normalized_others(parts: Sequence[Part]) -> list[str]:
    """Return a text for each part that is not a text."""
    others = []
    for part in parts:
        if isinstance(part, Image):
            others.append(part.address)
        elif isinstance(part, Other):
            others.append(_json(part.raw))
    return others


def says_key(message: Message) -> bytes:
    """Return the key of a message for the equality *says the same*. It is empty for an empty answer."""
    content = normalized_content([message])
    if content is None:
        return b""
    return content.digest


def _digest(*texts: str) -> bytes:
    digest = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(data), data))
    return digest.digest()
