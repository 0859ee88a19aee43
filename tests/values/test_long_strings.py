"""JSON with strings of many MB is read and written in short slices in background threads, with the same result as in
one piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, current_yield
from trace_recorder.values.json_text import NotJsonError, make_json_writer, parse
from trace_recorder.values.long_strings import MIN_LONG_STRING, make_json_bytes_writer, parse_bytes
from trace_recorder.values.messages import Payload

WRITE = make_json_bytes_writer(", ", ": ")
WRITE_AT_ONCE = make_json_writer(", ", ": ")
MIN_LONG = 1000
UNITS = st.lists(
    st.sampled_from(['"', "\\", "\n", "a", "é", "\u2018", "😀", "[", "}", ":", "\u007f", "ab c"])
    | st.characters(codec="utf-8"),
    min_size=1,
    max_size=6,
).map("".join)
LONG = st.builds(
    lambda before, unit: before + unit * (2 * MAX_UNINTERRUPTED_CHARS // len(unit)), st.text("ab\\", max_size=12), UNITS
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | LONG,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | LONG, inner, max_size=4),
    max_leaves=8,
)


@contextmanager
def background() -> Iterator[list[int]]:
    """Count the pauses of this thread, which is treated as a background thread."""
    yields: list[int] = []
    token = current_yield.set(lambda: yields.append(1))
    try:
        yield yields
    finally:
        current_yield.reset(token)


@given(VALUES, st.booleans())
def test_json_is_read_the_same_in_slices(value: Payload, ascii_only: bool) -> None:
    """JSON with long strings of any characters, at any depth, is read the same, wherever the slices end."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    with background():
        read = parse_bytes(text.encode(), MIN_LONG)

    assert (read, read) == (parse(text), value)


@given(VALUES)
def test_json_is_written_the_same_in_slices(value: Payload) -> None:
    """JSON with long strings is written as the same bytes in slices."""
    with background():
        written = WRITE([value, "x" * MIN_LONG_STRING, value])

    assert written == WRITE_AT_ONCE([value, "x" * MIN_LONG_STRING, value]).encode()


LINE = 'He said "é"\n'
TEXT = json.dumps({"content": LINE * (4 * MIN_LONG_STRING // len(LINE)), "a": [1, "b"]}).encode()


def test_a_long_string_is_read_and_written_in_short_slices() -> None:
    """Reading and writing a long string pause after each 32 KB, so that other threads can run."""
    with background() as reading:
        value = parse_bytes(TEXT)
    with background() as writing:
        written = WRITE(value)

    steps = len(LINE * (4 * MIN_LONG_STRING // len(LINE))) // MAX_UNINTERRUPTED_CHARS
    assert (value, json.loads(written)) == (json.loads(TEXT), value)
    assert (len(reading) > steps, len(writing) >= steps) == (True, True)


LONG_TEXT = b"x" * (2 * MAX_UNINTERRUPTED_CHARS)


@pytest.mark.parametrize(
    "text",
    [
        b'["%s' % LONG_TEXT,
        b'["%s\n"]' % LONG_TEXT,
        b'["%s\\q"]' % LONG_TEXT,
        b'["%s\\ud83d%s"]' % (LONG_TEXT, LONG_TEXT),
        b'["%s\\ude00%s"]' % (LONG_TEXT, LONG_TEXT),
        b'["%s", NaN]' % LONG_TEXT,
        b'["%s"] x' % LONG_TEXT,
        b'["%s" "%s"]' % (LONG_TEXT, LONG_TEXT),
        b'["%s"]%s' % (LONG_TEXT, b"]" * 9),
        b"%s" % LONG_TEXT,
    ],
)
def test_invalid_json_is_refused(text: bytes) -> None:
    """A string without an end, a control character, a lone surrogate, and invalid JSON around a long string are
    refused.
    """
    with background(), pytest.raises(NotJsonError):
        parse_bytes(text, MIN_LONG)


@pytest.mark.parametrize("text", [b'["%s\xff"]' % LONG_TEXT, b'["%s%s"]' % (LONG_TEXT, b"\x80" * 40_000)])
def test_bytes_that_are_not_utf_8_raise_their_own_error(text: bytes) -> None:
    """Bytes that are not UTF-8 raise an error of their own, so that the caller can write them in base64."""
    with background(), pytest.raises(UnicodeDecodeError):
        parse_bytes(text, MIN_LONG)


def test_half_of_a_surrogate_pair_is_not_written() -> None:
    """A string with a lone surrogate is refused, so that the caller can describe it."""
    with background(), pytest.raises(UnicodeEncodeError):
        WRITE(["x" * MIN_LONG_STRING + "\ud83d"])
