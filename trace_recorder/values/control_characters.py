"""Escapes the characters of recorded texts that a terminal interprets, or that a reader cannot see."""

from __future__ import annotations

import re

from trace_recorder.lazy_patterns import lazy_pattern

_CONTROL_CHARACTERS = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
"""The last two ranges are tags and selectors without a shape. A text can hide another text in them."""
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F)])
"""The ASCII characters that are not among them."""


def escape_control_characters(text: str) -> str:
    """Escape characters that a terminal interprets or hides, as Python does; line breaks and tabs remain."""
    if (text.isascii() and text.isprintable()) or not has_control_characters(text):  # most texts, and much faster
        return text
    return _CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def escape_json_text(text: str) -> str:
    """Escape control characters in JSON text as JSON does. In JSON text, only strings have such characters."""
    if not has_control_characters(text):
        return text
    return _CONTROL_CHARACTERS.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")  # JSON escapes two bytes at a time
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


def has_control_characters(text: str) -> bool:
    """Return whether a text has a character that `escape_control_characters` escapes.

    Bytes are deleted much faster than a pattern reads characters, and most texts have few others.
    """
    others = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)
    return _CONTROL_CHARACTERS.search(others.decode("utf-8", "surrogatepass")) is not None
