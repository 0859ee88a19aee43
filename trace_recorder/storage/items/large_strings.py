"""Takes large strings, such as images in base64, out of JSON without parsing it.

Each large string is replaced by a mark with the hash of the string, so that the remaining text is small, and equal
texts stay equal. A string is taken out only if every parser of JSON accepts it. Any other string stays in the text, and
the parser of the text decides whether the string is valid. The work needs no lock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from json.decoder import scanstring  # type: ignore[attr-defined]  # its stubs lack it

from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import COLON

MIN_STRING_CHARACTERS = 8192
"""A string with at least this many characters is large."""
_MARK = f"@large:{os.urandom(8).hex()}:"
"""The beginning of each mark. The digits in it are random, so that no request has a mark by chance."""
_MARKED = re.compile(rf'"{_MARK}[0-9a-f]{{30}}"')


@dataclass(frozen=True, slots=True)
class LargeString:
    """A large string: its JSON text with quotes, and the key of its item."""

    literal: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Reduced:
    """JSON text with marks in place of its large strings.

    `strings` has these strings by their marks. A mark includes its quotes.
    """

    text: str
    strings: Mapping[str, LargeString]


def digest(name: str, data: bytes) -> bytes:
    """Return 120 bits that identify an item. As `bytes` they take 48 bytes of memory; 128 bits would take 64."""
    return blake2b(data, digest_size=15, person=name.encode()).digest()


def reduce_json(text: str) -> Reduced:
    """Take the large strings out of a part of JSON text. The part begins outside of strings."""
    parts: list[str] = []
    strings: dict[str, LargeString] = {}
    done = 0
    for begin, end in _strings_in(text):
        if end - begin < MIN_STRING_CHARACTERS or COLON.match(text, end):
            continue
        literal = text[begin:end]
        key = digest("s", literal.encode())
        mark = f'"{_MARK}{key.hex()}"'
        strings[mark] = LargeString(literal, key)
        parts += (text[done:begin], mark)
        done = end
    return Reduced("".join([*parts, text[done:]]), strings)


def _strings_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each string in JSON text, quotes included, up to the first string that a parser refuses."""
    begin = text.find('"')
    while begin >= 0:
        try:
            _, end = scanstring(text, begin + 1)
        except ours(ValueError):
            return
        yield begin, end
        begin = text.find('"', end)


def marks_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the marks in JSON text, and texts that look like a mark."""
    return _MARKED.finditer(text) if _MARK in text else iter(())


def restore(text: str, strings: Mapping[str, LargeString]) -> str:
    """Return a text with these strings in place of their marks."""
    if _MARK not in text:
        return text
    return _MARKED.sub(lambda mark: strings[mark[0]].literal if mark[0] in strings else mark[0], text)
