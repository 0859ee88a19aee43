"""Cuts a large plain body into parts that can be masked and written one by one while it is received.

A part of JSON ends outside of strings, and never between the name of a member and its value. So each part is masked as
the whole body would be: string by string, by the name of its member. A string that is longer than a part is cut where
no secret may have begun (`partial_secrets.py`), and outside escapes. Each part of such a string is masked as a value of
the same member. If a body turns out not to be JSON, the rest is cut and masked like one long string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import STRING

LARGEST = 32 * 1024
"""A part has at most this many bytes before masking."""

_BETWEEN = r"[\s\[\]{}:,0-9.+\-eEtrufalsnNIiy]*+"
"""Matches the text between two strings of JSON, such as `: ` or `, true, `."""
_WHOLE = re.compile(rf'(?>(?:{_BETWEEN}("[^"\\]*+(?:\\.[^"\\]*+)*+"))*)', re.DOTALL)
"""Matches a beginning of JSON up to the end of its last closed string. The group is that string."""
_TAIL = re.compile(_BETWEEN)
_REST = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""Matches the rest of a string, up to its closing quote or the end of the text."""
_BEHIND_NAME = re.compile(r"\s*+(?::\s*+)?")
_NAMED = re.compile(r'("(?:[^"\\]|\\.){0,200}")\s{0,20}:\s{0,20}\Z', re.DOTALL)
_LABEL = re.compile(r'"(?:name|key|variable)"\s{0,9}:\s{0,9}"[^"\\]{0,100}"\s{0,9},?\s{0,99}\Z', re.IGNORECASE)
"""Matches a label that names the value of the following member, such as `"key": "PASSWORD",` before `"value"`."""
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
"""Matches an escape that is incomplete at the end of a text."""


class Masks(Protocol):
    """The functions of a `Redaction` that mask a part."""

    def mask(self, text: str) -> tuple[str, int]:
        """Mask the strings of JSON text. Return the text, and how many secrets were in it."""

    def mask_line(self, text: str) -> tuple[str, int]:
        """Mask a text that is not JSON."""

    def unfinished(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a secret."""


@dataclass(frozen=True, slots=True)
class BodyPart:
    """A part of a plain body.

    `redacted` is how many secrets were masked in it, and `size` is its size in bytes before masking. If the part ends
    inside a member's string, `within` is the member's name as JSON text. If the part ends inside a string without a
    name, such as an element of a list, `within` is an empty name. If the part ends outside of strings, `within` is
    None. If `is_json` is False, the body is not JSON.
    """

    masked: bytes = b""
    redacted: int = 0
    size: int = 0
    within: str | None = None
    is_json: bool = True

    def next(self, masks: Masks, data: bytes, *, last: bool) -> BodyPart:
        """Return the next part.

        `data` begins where this part ended. If `last` is True, `data` is the rest of the body.
        """
        text = (data if last else data[: _whole_characters(data)]).decode("utf-8", "surrogateescape")
        if self.is_json:
            try:
                return _within(masks, text, self.within, last=last) if self.within else _outside(masks, text, last=last)
            except ours(ValueError):
                pass
        text = text if last else _finished(masks, text)
        return _part(text, *masks.mask_line(text), is_json=False)


def _part(text: str, masked: str, redacted: int, within: str | None = None, *, is_json: bool = True) -> BodyPart:
    written, raw = (part.encode("utf-8", "surrogateescape") for part in (masked, text))
    return BodyPart(written, redacted, len(raw), within, is_json)


def _outside(masks: Masks, text: str, *, last: bool) -> BodyPart:
    """Return a part that begins outside of strings. Raises ValueError if the text is not JSON."""
    whole = _WHOLE.match(text)
    tail = _TAIL.match(text, whole.end() if whole else 0)
    position = tail.end() if tail else 0
    if text[position : position + 1] not in {"", '"'}:
        raise ValueError("this is not JSON")
    if position < len(text) and (last or len(text) - position > LARGEST // 2):
        return _opening(masks, text, position, last=last)
    end = len(text) if last else _end_of_member(text, whole, position)
    if end == 0:  # if there is no better position to cut the text, it is cut anyway
        return _opening(masks, text, position, last=last) if position < len(text) else _part(text, *masks.mask(text))
    return _part(text[:end], *masks.mask(text[:end]))


def _end_of_member(text: str, whole: re.Match[str] | None, position: int) -> int:
    """Return the last position up to `position` at which a text can be cut. `position` is outside of strings.

    A text is not cut between a name or a label and its value.
    """
    behind = whole.end() if whole else 0
    if whole is not None and whole.start(1) >= 0 and _BEHIND_NAME.fullmatch(text, behind, position):
        end = whole.start(1)
    else:
        end = position if position < len(text) else text.rfind(",", behind) + 1 or behind
    label = _LABEL.search(text, max(0, end - 300), end)
    return label.start() if label else end


def _opening(masks: Masks, text: str, position: int, *, last: bool) -> BodyPart:
    """Return a part that ends inside a string. The string begins at `position`, and does not end in `text`."""
    named = _NAMED.search(text, max(0, position - 250), position)
    begin = text[: position + 1]
    rest = text[position + 1 :] if last else _finished(masks, text[position + 1 :])
    masked, redacted = masks.mask(f'{begin}{rest}"')
    return _part(begin + rest, masked[:-1], redacted, named[1] if named else '""')


def _within(masks: Masks, text: str, name: str, *, last: bool) -> BodyPart:
    """Return a part that begins inside the string of the member `name`.

    Raises ValueError if the string is not valid JSON.
    """
    rest = _REST.match(text)
    end = rest.end() if rest else 0
    closes = text[end : end + 1] == '"'
    value = text[:end] if closes or last else _finished(masks, text)
    masked, redacted = masks.mask(f'{name}:"{value}"')
    spelled_name = STRING.match(masked)
    masked = masked[spelled_name.end() + 2 : -1] if spelled_name else value
    return _part(text[: end + 1], masked + '"', redacted) if closes else _part(value, masked, redacted, name)


def _finished(masks: Masks, text: str) -> str:
    """Return as much of the beginning of an unfinished string as can be masked now."""
    finished = text[: len(text) - masks.unfinished(text)] or text
    escape = _ESCAPE.search(finished, max(0, len(finished) - 6))
    if escape is not None:
        backslashes = escape.start() + 1 - len(finished[: escape.start() + 1].rstrip("\\"))
        finished = finished[: escape.start()] if backslashes % 2 else finished
    return finished or text


def _whole_characters(data: bytes) -> int:
    """Return the last position in UTF-8 bytes that does not cut a character."""
    for back in range(1, min(4, len(data))):
        code = data[-back]
        if code >= 0xC0:
            return len(data) - back if back < 2 + (code >= 0xE0) + (code >= 0xF0) else len(data)
        if code < 0x80:
            break
    return len(data)
