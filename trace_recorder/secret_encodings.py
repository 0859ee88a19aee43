"""Secrets that stand in a text in an encoding: in base64, or with the escapes of a URL.

A word is decoded where it is the encoding of a text, and looked at as that text is. Invariants: what is no encoding of
a text, such as an image, a hash or a signature, is not decoded; each word is looked at once, and of bounded length.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote

LONGEST = 8192
"""Words of more characters are not decoded: they are files."""
SHORTEST = 24
"""Words in base64 of fewer letters are not."""

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_RUN = bytes(ord("w") if code in _LETTERS else ord(" ") for code in range(256))
_OF_TEXT = "[CDI-Za-f][ACDEFGHQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
"""Four letters of base64 that stand for three characters of ASCII; of random bytes one in fifteen does."""
_WORD = re.compile(rf"(?:{_OF_TEXT}){{6}}[A-Za-z0-9+/_-]{{0,{LONGEST}}}+={{0,2}}")
_SIGN = re.compile(rf"(?:{_OF_TEXT}){{6}}".encode())
_ESCAPED = re.compile(rf"(?:[A-Za-z0-9._~+*-]|%[0-9A-Fa-f]{{2}}){{8,{LONGEST}}}+")
_ESCAPE = re.compile(rb"%[2-7][0-9A-Fa-f]")

Mask = Callable[[str], str]


def runs(data: bytes, shortest: int = SHORTEST) -> Iterator[int]:
    """Where long runs of the letters of base64 begin."""
    letters = data.translate(_RUN)
    long, at = b"w" * shortest, 0
    while (at := letters.find(long, at)) >= 0:
        yield at
        at = letters.find(b" ", at)
        if at < 0:
            return


def signs(data: bytes) -> list[int]:
    """Where in a text, one byte a character, something may be encoded."""
    places = [found.start() for found in _ESCAPE.finditer(data)] if b"%" in data else []
    words = ((at, data[at - 1 : at] == b"\\") for at in runs(data))  # behind an escape it begins a letter later
    return [
        *places,
        *(at for at, is_behind in words if _SIGN.match(data, at) or (is_behind and _SIGN.match(data, at + 1))),
    ]


def mask_encoded(text: str, mask: Mask) -> str:
    """Mask the words of a text that hold, decoded, what `mask` masks."""
    if "%" in text:
        text = _ESCAPED.sub(lambda found: _in_url(found[0], mask), text)
    return _in_base64(text, mask)


def _in_url(word: str, mask: Mask) -> str:
    if "%" not in word:
        return word
    said = unquote(word)
    masked = mask(said)
    return word if masked == said else quote(masked, safe="[]:")


def _in_base64(text: str, mask: Mask) -> str:
    parts: list[str] = []
    done = 0
    for at in runs(text.encode("latin-1", "replace")):
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
