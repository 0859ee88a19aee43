"""Takes large strings, such as images in base64, out of JSON without parsing it.

Each large string is replaced by a mark with the hash of the string, so that the remaining text is small, and equal
texts stay equal. A string is taken out only if every parser of JSON accepts it. Any other string stays in the text, and
the parser of the text decides whether the string is valid. The work needs no lock.

The strings are found in the bytes of the JSON. So a large string is decoded once, and its bytes are hashed and written
as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from json.decoder import scanstring  # type: ignore[attr-defined]  # its stubs lack it

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import NotJsonError, strict_string
from trace_recorder.values.structs import Struct

MIN_STRING_CHARACTERS = 8192
"""A string with at least this many characters is large."""
_MARK = f"@large:{os.urandom(8).hex()}:"
"""The beginning of each mark. The digits in it are random, so that no request has a mark by chance."""
_MARKED = lazy_pattern(rf'"{_MARK}[0-9a-f]{{30}}"')
_COLON = lazy_pattern(rb"[ \t\n\r]*:")


class LargeString(Struct, frozen=True):
    """A large string: its JSON text with quotes, the same text in UTF-8, and the key of its item."""

    literal: str
    data: bytes
    key: bytes


class Reduced(Struct, frozen=True):
    """JSON text with marks in place of its large strings.

    `strings` has these strings by their marks. A mark includes its quotes.
    """

    text: str
    strings: Mapping[str, LargeString]


def digest(name: bytes, data: bytes) -> bytes:
    """Return 120 bits that identify an item. As `bytes` they take 48 bytes of memory; 128 bits would take 64.

    SHA-256, because most processors have instructions for it: 0.5 ms for each MB.
    """
    hashed = sha256(name)
    hashed.update(data)
    return hashed.digest()[:15]


def reduce_json(data: bytes) -> Reduced:
    """Take the large strings out of a part of JSON in UTF-8. The part begins outside of strings.

    Raises NotJsonError if the rest of the part is not UTF-8.
    """
    parts: list[bytes] = []
    strings: dict[str, LargeString] = {}
    done = 0
    for begin, end in _strings_in(data):
        if end - begin < MIN_STRING_CHARACTERS or _COLON.match(data, end):
            continue
        encoded = data[begin:end]
        try:
            literal = strict_string(encoded)
        except NotJsonError:
            break
        if len(literal) < MIN_STRING_CHARACTERS:
            continue
        key = digest(b"s", encoded)
        mark = f'"{_MARK}{key.hex()}"'
        strings[mark] = LargeString(literal, encoded, key)
        parts += (data[done:begin], mark.encode())
        done = end
    try:
        return Reduced(b"".join([*parts, data[done:]]).decode(), strings)
    except ours(UnicodeDecodeError) as error:
        raise NotJsonError(str(error)) from None


def _strings_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the span of each string in JSON, quotes included, up to the first string with an invalid escape."""
    text = ""
    begin = data.find(b'"')
    while begin >= 0:
        end = data.find(b'"', begin + 1) + 1
        if end == 0:
            return
        if data.find(b"\\", begin, end) >= 0:  # the quote may be escaped
            text = text or data.decode("latin-1")  # one character for each byte, so that positions are the same
            try:
                _, end = scanstring(text, begin + 1)
            except ours(ValueError):
                return
        yield begin, end
        begin = data.find(b'"', end)


def marks_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the marks in JSON text, and texts that look like a mark."""
    if _MARK not in text:
        return iter(())
    return _MARKED.finditer(text)


def restore(text: str, strings: Mapping[str, LargeString]) -> str:
    """Return a text with these strings in place of their marks."""
    if _MARK not in text:
        return text
    return _MARKED.sub(lambda mark: strings[mark[0]].literal if mark[0] in strings else mark[0], text)
