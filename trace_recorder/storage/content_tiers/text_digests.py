"""Digests of texts: equal texts have equal digests, and no text can be guessed from its digest.

A digest is keyed with random bytes that are never written. Each share, and each run that is recorded, has its own key.
So a short text cannot be found by trying, and digests of two shares cannot be compared. White space at the ends of a
text, and the tags around thoughts, are kept, because agents remove both before they send an answer again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from hashlib import blake2b

from trace_recorder.dialects.json_access import json_value
from trace_recorder.values.message_equality import THOUGHT
from trace_recorder.values.messages import Payload

TEXT = "text"
"""The one member of an object that stands for an object of content."""
_LONG_CHARACTERS = 512
"""In the digest of a value, the digest of a longer string takes the place of the string.

So the digest is the same if the string is stored as an item of its own. Such strings have more characters than this.
"""
_MAX_LARGE_STRINGS = 16_384


def new_key() -> bytes:
    """Return a random key. Who has the key can try texts until one has a given digest."""
    return os.urandom(32)


class TextDigests:
    """The digests of one share, or of one run. `hidden` are identifiers that get digests, as if they were texts."""

    def __init__(self, key: bytes, hidden: Collection[str] = ()) -> None:
        self._key = key
        self._hidden = frozenset(hidden)
        self._large: dict[int, _LargeDigests] = {}

    def of_text(self, text: str) -> str:
        """Return the digest of a text. White space, and an empty text, are returned unchanged."""
        if "</th" in text:
            match = THOUGHT.search(text)
            if match is not None:
                return self._with_tags(text, match.start(), match.end())
        return self._of_plain_text(text)

    def of_identifier(self, text: str) -> str:
        """Return an identifier as it is, or the digest of a hidden one."""
        if text in self._hidden:
            return self.of_text(text)
        return text

    def _of_plain_text(self, text: str) -> str:
        stripped = text.strip()
        if not stripped:
            return text
        data = stripped.encode("utf-8", "surrogatepass")
        digest = f"[text:{blake2b(data, digest_size=8, key=self._key).hexdigest()}]"
        if len(stripped) == len(text):
            return digest
        begin = text.index(stripped[0])
        return f"{text[:begin]}{digest}{text[begin + len(stripped) :]}"

    def _with_tags(self, text: str, start: int, end: int) -> str:
        """Return the digests of a thought, and of the texts before and after it. The tags are kept."""
        thought = text[start:end]
        closing = thought.rindex("</")
        opening = 0
        if thought.lstrip().startswith("<th"):
            opening = thought.index(">") + 1
        inside = self._of_plain_text(thought[opening:closing])
        before, after = self._of_plain_text(text[:start]), self.of_text(text[end:])
        return f"{before}{thought[:opening]}{inside}{thought[closing:]}{after}"

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def of_value(self, value: Payload, strings: dict[str, int] | None = None) -> Payload:
        """Return one digest for any JSON. Empty values and null are returned unchanged.

        `strings` has the numbers of large strings by their placeholders in the value.
        """
        if isinstance(value, str):
            if strings and value in strings:
                return self._of_large(strings[value]).text
            return self.of_text(value)
        if value is None or value in ({}, []):
            return value
        return self._of_plain_text(json.dumps(self._shortened(value, strings or {}), sort_keys=True))

    def of_arguments(self, value: Payload, strings: dict[str, int] | None = None) -> Payload:
        """Return the digest of a tool's arguments, or of a schema, in the form that readers expect.

        An object becomes an object with one member, and the JSON text of an object becomes such a text.
        """
        if isinstance(value, str):
            if strings and value in strings:
                return self._of_large(strings[value]).arguments
            return self._of_arguments_text(value)
        digest = self.of_value(value, strings)
        if isinstance(value, dict) and value:
            return {TEXT: digest}
        if isinstance(value, list) and value:
            return [digest]
        return digest

    def _of_arguments_text(self, text: str) -> str:
        parsed = json_value(text) if text.lstrip().startswith("{") else None
        if not isinstance(parsed, dict):
            return self.of_text(text)
        return json.dumps(self.of_arguments(parsed))

    def _shortened(self, value: Payload, strings: dict[str, int]) -> Payload:
        if isinstance(value, str):
            if value in strings:
                return self._of_large(strings[value]).text
            if len(value) > _LONG_CHARACTERS:
                return self.of_text(value)
            return value
        if isinstance(value, dict):
            return {name: self._shortened(member, strings) for name, member in value.items()}
        if isinstance(value, list):
            return [self._shortened(element, strings) for element in value]
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    # ── large strings, which a journal stores as items ───────────────────────────────────────────────────────────────

    def remember_large(self, number: int, text: str) -> str:
        """Keep the digests of a large string by the number of its item. Return the digest of its text."""
        digests = _LargeDigests(self.of_text(text), self._of_arguments_text(text))
        self._large[number] = digests
        if len(self._large) > _MAX_LARGE_STRINGS:
            del self._large[next(iter(self._large))]
        return digests.text

    def _of_large(self, number: int) -> _LargeDigests:
        return self._large.get(number) or _LargeDigests(self.of_text(f"missing {number}"), "{}")


class _LargeDigests:
    """The digest of a large string as a text, and as the arguments of a tool."""

    __slots__ = ("arguments", "text")

    def __init__(self, text: str, arguments: str) -> None:
        self.text = text
        self.arguments = arguments
