"""Secrets that stand in a text in an encoding: in base64, or with the escapes of a URL.

A word is decoded where it is the encoding of a text, and looked at as that text is. Invariants: what is no encoding of
a text, such as an image, a hash or a signature, is not decoded; each word is looked at once, and of bounded length.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable
from urllib.parse import quote, unquote

from trace_recorder.storage.redaction.candidates import Look

LONGEST = 8192
"""Words of more characters are not decoded: they are files."""

_OF_TEXT = "[CDI-Za-f][ACDEFGHQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
"""Four letters of base64 that stand for three characters of ASCII; of random bytes one in fifteen does."""
_WORD = re.compile(rf"(?:{_OF_TEXT}){{6}}[A-Za-z0-9+/_-]{{0,{LONGEST}}}+={{0,2}}")
_SIGN = re.compile(rf"(?:{_OF_TEXT}){{6}}")
_ESCAPED = re.compile(rf"(?:[A-Za-z0-9._~+*-]|%[0-9A-Fa-f]{{2}}){{8,{LONGEST}}}+")
_IN_ESCAPED = bytes(
    ord("w") if chr(code) in string.ascii_letters + string.digits + "._~+*-%" else 32 for code in range(256)
)
_ESCAPE = re.compile(r"%[2-7][0-9A-Fa-f]")

Mask = Callable[[str], str]


def signs(look: Look) -> list[int]:
    """Where in a text something may be encoded."""
    plain = look.plain
    places = [found.start() for found in _ESCAPE.finditer(plain)] if "%" in plain else []
    if not look.runs:
        return places
    words = ((at, plain[at - 1 : at] == "\\") for at in look.runs)  # behind an escape it begins a letter later
    return [
        *places,
        *(at for at, is_behind in words if _SIGN.match(plain, at) or (is_behind and _SIGN.match(plain, at + 1))),
    ]


def mask_encoded(text: str, mask: Mask) -> str:
    """Mask the words of a text that hold, decoded, what `mask` masks."""
    return _in_base64(_in_urls(text, mask) if "%" in text else text, mask)


def _in_urls(text: str, mask: Mask) -> str:
    """Mask what is percent-encoded; no word is looked at that has no escape."""
    letters = text.encode("latin-1", "replace").translate(_IN_ESCAPED)
    parts: list[str] = []
    done, at = 0, text.find("%")
    while at >= 0:
        start, end = letters.rfind(b" ", done, at) + 1 or done, letters.find(b" ", at)
        end = len(text) if end < 0 else end
        parts += (text[done:start], _ESCAPED.sub(lambda found: _in_url(found[0], mask), text[start:end]))
        done, at = end, text.find("%", end)
    return "".join([*parts, text[done:]])


def _in_url(word: str, mask: Mask) -> str:
    if "%" not in word:
        return word
    said = unquote(word)
    masked = mask(said)
    return word if masked == said else quote(masked, safe="[]:")


def _in_base64(text: str, mask: Mask) -> str:
    parts: list[str] = []
    done = 0
    for at in Look(text).runs:
        found = _WORD.match(text, at) or (_WORD.match(text, at + 1) if text[at - 1 : at] == "\\" else None)
        said = None if found is None or found.start() < done else _text_of(found[0])
        if found is not None and said is not None and mask(said) != said:
            parts += (text[done : found.start()], "[REDACTED:encoded-secret]")
            done = found.end()
    return "".join([*parts, text[done:]]) if parts else text


def _text_of(word: str) -> str | None:
    """The text that is encoded; None where that is none, or is too long."""
    letters = word.rstrip("=").translate(_STANDARD)
    if len(letters) >= LONGEST:
        return None
    whole = letters + "A" * (-len(letters) % 4 if len(letters) % 4 != 1 else 3)
    try:
        said = base64.b64decode(whole)[: len(letters) * 6 // 8].decode()
    except ValueError:
        return None
    return said if all(letter.isprintable() or letter in "\r\n\t" for letter in said) else None


_STANDARD = str.maketrans("-_", "+/")
