"""Takes large strings, such as images in base64, out of JSON without parsing it.

Each large string is replaced by a mark with the hash of the string, so that the remaining text is small, and equal
texts stay equal. A string is taken out only if every parser of JSON accepts it. Any other string stays in the text, and
the parser of the text decides whether the string is valid. The work needs no lock, and is done in short steps, between
which other threads run.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import NotJsonError, refuse_lone_surrogates

MIN_STRING_CHARACTERS = 8192
"""A string with at least this many characters is large."""
_MARK = f"@large:{os.urandom(8).hex()}:"
"""The beginning of each mark. The digits in it are random, so that no request has a mark by chance."""
_MARKED = re.compile(rf'"{_MARK}[0-9a-f]{{30}}"')
_COLON = re.compile(rb"[ \t\n\r]*:")
_VALID = re.compile(r'[^"\\\x00-\x1f]*+(?>(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*)')
"""Matches the characters and escapes that are allowed in a string."""
_STEP = 64
"""`_literals` lets other threads run after this many strings."""


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

    text: bytes
    strings: Mapping[str, LargeString]


def digest(name: str, data: bytes | memoryview) -> bytes:
    """Return 120 bits that identify an item. As `bytes` they take 48 bytes of memory; 128 bits would take 64."""
    return blake2b(data, digest_size=15, person=name.encode()).digest()


def reduce_json(data: bytes, start: int = 0, end: int | None = None) -> Reduced | None:
    """Take the large strings out of a part of JSON text.

    The part begins outside of strings. Return None if the part has a mark already.
    """
    end = len(data) if end is None else end
    if data.find(_MARK.encode(), start, end) >= 0:
        return None
    parts: list[bytes] = []
    strings: dict[str, LargeString] = {}
    done = start
    for begin, stop in _literals(data, start, end):
        if stop - begin < MIN_STRING_CHARACTERS or _COLON.match(data, stop):
            continue
        literal = _valid_string(data, begin, stop)
        if literal is not None and len(literal) >= MIN_STRING_CHARACTERS:
            yield_to_others()
            key = digest("s", memoryview(data)[begin:stop])
            mark = f'"{_MARK}{key.hex()}"'
            strings[mark] = LargeString(literal, key)
            parts += (data[done:begin], mark.encode())
            done = stop
    return Reduced(b"".join([*parts, data[done:end]]), strings)


def marks_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the marks in JSON text, and texts that look like a mark."""
    return _MARKED.finditer(text) if _MARK in text else iter(())


def restore(text: str, strings: Mapping[str, LargeString]) -> str:
    """Return a text with these strings in place of their marks."""
    if _MARK not in text:
        return text
    return _MARKED.sub(lambda mark: strings[mark[0]].literal if mark[0] in strings else mark[0], text)


def _literals(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each string in JSON text, quotes included."""
    find, count = data.find, 0
    begin = find(b'"', start, end)
    while begin >= 0:
        close = find(b'"', begin + 1, end)
        while close >= 0 and data[close - 1] == 0x5C and _is_escaped(data, close):
            close = find(b'"', close + 1, end)
            count += 1
            if count % _STEP == 0:
                yield_to_others()
        if close < 0:
            return
        yield begin, close + 1
        begin = find(b'"', close + 1, end)
        count += 1
        if count % _STEP == 0:
            yield_to_others()


def _is_escaped(data: bytes, position: int) -> bool:
    """Return whether the quote at a position is escaped: an odd number of backslashes is before it."""
    start = position
    while data[start - 1] == 0x5C:
        start -= 1
    return (position - start) % 2 == 1


def _valid_string(data: bytes, begin: int, end: int) -> str | None:
    """Return the text of a string with its quotes, or None if a parser of JSON might refuse it."""
    try:
        literal = _decoded(data, begin, end)
        refuse_lone_surrogates(literal)
    except ours(UnicodeDecodeError, NotJsonError):
        return None
    position, last = 1, len(literal) - 1
    while position < last:
        match = _VALID.match(literal, position, min(position + MAX_UNINTERRUPTED_CHARS, last))
        if match is None or match.end() == position:
            return None
        position = match.end()
        yield_to_others()
    return literal


def _decoded(data: bytes, begin: int, end: int) -> str:
    """Decode UTF-8 in short steps, between which other threads run. Raises UnicodeDecodeError."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    parts: list[str] = []
    for at in range(begin, end, MAX_UNINTERRUPTED_CHARS):
        stop = min(at + MAX_UNINTERRUPTED_CHARS, end)
        parts.append(decoder.decode(data[at:stop], final=stop == end))
        yield_to_others()
    return "".join(parts)
