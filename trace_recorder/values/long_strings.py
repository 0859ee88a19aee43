"""Reads and writes JSON with strings of a megabyte or more, and lets other threads run in between.

The functions of `json` hold the interpreter's lock from their beginning to their end, so no other thread runs.
Therefore a background thread takes the long strings out of a text, reads or writes each of them piece by piece, and
puts them back. It reads or writes the rest of the text in one call. In any other thread, the functions do the same as
the functions of `json_text.py`. The result is the same in both cases.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, is_background, yield_to_others
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import NotJsonError, encode_string, make_json_encoder, make_json_writer, parse
from trace_recorder.values.messages import Payload

MIN_LONG_STRING = 1 << 20
"""A string of at least this many bytes is read or written in pieces.

Reading a shorter string takes at most about a millisecond.
"""
_PIECES = 16
"""A string is concatenated from its pieces in at most about this many steps.

Without this limit, an interpreter that copies both texts for `+=` would take quadratic time.
"""
_MARK = f"@long:{os.urandom(8).hex()}:"
"""The beginning of the mark that replaces a long string. It is random, so no other string begins with it."""
_MARKED = re.compile(rf'"{_MARK}([0-9]+)"')
_STRINGS = re.compile(rb'(?>(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+")*)', re.DOTALL)
"""Matches as many complete strings as possible, and the text before each of them."""
_INSIDE = re.compile(
    rb"[^\"\\]*+"
    rb"(?>(?:\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u(?![dD][89abAB])[0-9a-fA-F]{4}|[^u])[^\"\\]*+)*)"
)
"""Matches complete characters and escapes inside a string, up to the closing quote or to a forbidden character."""
_COLON = re.compile(rb"[ \t\n\r]*:")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_bytes(data: bytes, min_long: int = MIN_LONG_STRING) -> Payload:
    """Read JSON strictly, as `parse` does. Raises NotJsonError, or UnicodeDecodeError if the bytes are not UTF-8.

    In a background thread, strings of at least `min_long` bytes are read step by step.
    """
    if len(data) >= min_long and is_background():
        strings: list[str] = []
        try:
            rest = _take_long_strings_out(data, strings, min_long)
        except ours(ValueError):
            return parse(data.decode())  # raises an error that names the fault
        if strings:
            return _put_long_strings_back(parse(rest.decode()), strings)
    text = data.decode()
    yield_to_others()
    return parse(text)


def _take_long_strings_out(data: bytes, strings: list[str], min_long: int) -> bytes:
    """Replace the long strings of a JSON text by marks, and append the strings to a list.

    A long name of a member is not replaced. Raises ValueError if a string in the text is not valid JSON.
    """
    parts: list[bytes] = []
    done = 0
    for start, end in _long_literals(data, min_long):
        if not _COLON.match(data, end):
            parts += (data[done:start], b'"%s%d"' % (_MARK.encode(), len(strings)))
            strings.append(_concatenate(_decode_pieces(data, start + 1), (end - start) // _PIECES))
            done = end
    return b"".join([*parts, data[done:]])


def _long_literals(data: bytes, min_long: int) -> Iterator[tuple[int, int]]:
    """Yield the span of each long string, including its quotes."""
    position = 0
    while position < len(data):
        yield_to_others()
        match = _STRINGS.match(data, position, position + MAX_UNINTERRUPTED_CHARS)
        position = match.end() if match else position
        start = data.find(b'"', position, position + MAX_UNINTERRUPTED_CHARS)
        if start < 0:
            position += MAX_UNINTERRUPTED_CHARS
            continue
        position = start + 1
        for _, stop in _spans(data, position):
            position = stop
            yield_to_others()
        position += 1
        if position - start >= min_long:
            yield start, position


def _spans(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the pieces of a string, up to its closing quote. Raises ValueError if the quote is missing."""
    while data[start : start + 1] != b'"':
        match = _INSIDE.match(data, start, start + MAX_UNINTERRUPTED_CHARS)
        stop = match.end() if match else start
        while stop < len(data) and data[stop] & 0xC0 == 0x80:  # do not cut a character
            stop -= 1
        if stop == start:
            raise ValueError("a string does not end, or is not JSON")
        yield start, stop
        start = stop


def _decode_pieces(data: bytes, begin: int) -> Iterator[str]:
    """Yield the text of a string piece by piece. Raises ValueError for a character that strict readers refuse."""
    for start, stop in _spans(data, begin):
        yield_to_others()
        piece = str(json.loads(f'"{data[start:stop].decode()}"'))
        if not piece.isascii() and _SURROGATE.search(piece):
            raise NotJsonError("a surrogate has no partner")
        yield piece


def _concatenate(pieces: Iterable[str], at_once: int) -> str:
    """Join pieces. Each `+=` appends at least `at_once` characters.

    CPython extends a text in place if nothing else refers to it.
    """
    text = ""
    batch: list[str] = []
    waiting = 0
    for piece in pieces:
        batch.append(piece)
        waiting += len(piece)
        if waiting > at_once:
            text += "".join(batch)
            batch, waiting = [], 0
            yield_to_others()
    text += "".join(batch)
    return text


def _put_long_strings_back(value: Payload, strings: Sequence[str]) -> Payload:
    """Replace the marks in a value by the long strings, and return the value. Lists and dicts are changed in place."""
    marks = {f"{_MARK}{number}": text for number, text in enumerate(strings)}
    if isinstance(value, str):
        return marks.get(value, value)
    waiting = [value]
    while waiting:
        container = waiting.pop()
        members = container.items() if isinstance(container, dict) else enumerate(container)
        for place, member in list(members):
            if isinstance(member, str):
                if member.startswith(_MARK):
                    container[place] = marks.get(member, member)
            elif isinstance(member, dict | list):
                waiting.append(member)
        yield_to_others()
    return value


class _LongStrings(threading.local):
    """The long strings of the value that the current thread is writing.

    Each string is a list of pieces of JSON text.
    """

    def __init__(self) -> None:
        self.literals: list[list[bytes]] = []


_long_strings = _LongStrings()


def _string_or_mark(text: str) -> str:
    """Return a string as JSON text.

    If the string is long, append its JSON text to `_long_strings`, and return a mark.
    """
    if len(text) <= MAX_UNINTERRUPTED_CHARS:
        return json.encoder.encode_basestring(text)
    if len(text) < MIN_LONG_STRING:
        return encode_string(text)
    pieces = [b'"']
    for at in range(0, len(text), MAX_UNINTERRUPTED_CHARS):
        pieces.append(json.encoder.encode_basestring(text[at : at + MAX_UNINTERRUPTED_CHARS])[1:-1].encode())
        yield_to_others()
    pieces.append(b'"')
    _long_strings.literals.append(pieces)
    return f'"{_MARK}{len(_long_strings.literals) - 1}"'


def make_json_bytes_writer(between: str, behind_name: str) -> Callable[[Payload], bytes]:
    """Return a function that encodes a value as JSON in UTF-8. The text is the same as with `make_json_writer`.

    `between` separates members and elements, and `behind_name` separates a name from its value. The returned function
    raises UnicodeEncodeError for a lone half of a surrogate pair.
    """
    encode = make_json_encoder(between, behind_name, json.encoder.encode_basestring)
    encode_in_steps = make_json_encoder(between, behind_name, _string_or_mark)
    if encode is None or encode_in_steps is None:
        write = make_json_writer(between, behind_name)
        return lambda value: write(value).encode()

    def write_bytes(value: Payload) -> bytes:
        if not is_background():
            return "".join(encode(value, 0)).encode()
        try:
            text = "".join(encode_in_steps(value, 0))
        finally:  # the strings may be large, and must not stay if half of a surrogate pair raises an exception above
            long_strings, _long_strings.literals = _long_strings.literals, []
        if len(text) > MAX_UNINTERRUPTED_CHARS:
            yield_to_others()
        if not long_strings and len(text) < MIN_LONG_STRING:
            return text.encode()
        parts: list[bytes] = []
        for number, part in enumerate(_MARKED.split(text)):
            parts += long_strings[int(part)] if number % 2 else _encode_pieces(part)
        return b"".join(parts)  # `join` lets other threads run

    return write_bytes


def _encode_pieces(text: str) -> Iterator[bytes]:
    """Yield a text as UTF-8, step by step."""
    for at in range(0, len(text), MAX_UNINTERRUPTED_CHARS):
        yield text[at : at + MAX_UNINTERRUPTED_CHARS].encode()
        yield_to_others()
