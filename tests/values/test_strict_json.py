"""msgspec and Python's own json accept the same bytes as strict JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.json_strategies import json_texts, json_values
from trace_recorder.values.json_text import MAX_DEPTH, NotJsonError, parse, strict_string, strict_text

PIECES = st.sampled_from(
    [
        *(
            '"',
            "\\",
            '\\"',
            "\\\\",
            "\\/",
            "\\u00e9",
            "\\ud83d",
            "\\ude00",
            "\\uD83D\\uDE00",
            "\\x",
            "\\u12",
            "é",
            "😀",
        ),
        *("{", "}", "[", "]", ":", ",", " ", "\n", "\r", "\t", "\f", "\x00", "\x1f", "\x7f", "\u2028", "\ufeff"),
        *("0", "-0", "1", "-", "+", ".", "e", "E", "1e5", "1E400", "-1e400", "1e-400", "01", "1.", ".5", "9" * 309),
        *("9" * 4300, "9" * 4301, "0.1234567890123456789", "true", "false", "null", "NaN", "Infinity", "-Infinity"),
    ]
)
LONG = " " * MAX_DEPTH
"""Python's json reads a text with so many characters more, because `parse` reads only short texts with msgspec."""
SAID = '{"choices":[{"message":{"content":"a \\"quoted\\" \\\\ line\\n \\ud83d\\ude00 é"},"n":[1,2.5e3,-0,null]}]}'


def is_accepted(data: bytes, check: Callable[[bytes], str]) -> bool:
    try:
        assert check(data) == data.decode()
    except NotJsonError:
        return False
    return True


def parsed(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotJsonError(str(error)) from None
    parse(text + LONG)
    return text


def parsed_string(data: bytes) -> str:
    text = parsed(data)
    if not isinstance(json.loads(text), str):
        raise NotJsonError("not a string")
    return text


def both(data: bytes, *, string: bool = False) -> set[bool]:
    """Return whether bytes are accepted with msgspec, and whether without."""
    checks = (strict_string, parsed_string) if string else (strict_text, parsed)
    return {is_accepted(data, check) for check in checks}


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_accepted_by_both_or_by_none(text: str) -> None:
    """A text made of the pieces of JSON, as a value and as the inside of a string."""
    assert len(both(text.encode())) == 1
    assert len(both(f'"{text}"'.encode())) == 1
    assert len(both(f'"{text}"'.encode(), string=True)) == 1
    assert len(both(f"[{text}]".encode())) == 1


@given(st.lists(PIECES, max_size=12).map("".join) | json_texts(json_values))
@example("NaN")
@example('["\\ud83d"]')
@example("[1E400, -0, 0.1]")
def test_short_texts_have_the_same_values(text: str) -> None:
    """A short text, which msgspec reads, has the value that Python's json reads in a longer text."""
    read = []
    for form in (text, text + LONG):
        try:
            read.append(repr(parse(form)))
        except NotJsonError:
            read.append("refused")
    assert read[0] == read[1]


@given(json_texts(json_values))
def test_all_spellings_of_json_are_accepted(text: str) -> None:
    """White space, escapes, and numbers in any form."""
    assert both(text.encode()) == {True}


@given(st.integers(0, len(SAID) - 1), PIECES, st.integers(0, 3))
@example(0, "\ufeff", 0)
def test_a_changed_body_is_accepted_by_both_or_by_none(at: int, piece: str, removed: int) -> None:
    """A real body in which some characters are replaced by a piece."""
    assert len(both((SAID[:at] + piece + SAID[at + removed :]).encode())) == 1


@pytest.mark.parametrize("data", [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'{"\xff":1}', b'"a\xe2\x82"', b"\xff"])
def test_bytes_that_are_not_utf8_are_refused(data: bytes) -> None:
    """Both refuse them in strings, names, and outside of strings."""
    assert both(data) == {False}
    assert both(data, string=True) == {False}


@pytest.mark.parametrize("depth", [0, 1, MAX_DEPTH // 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 900, 5000])
@pytest.mark.parametrize("kinds", ["[", "{", "[{"])
def test_the_limit_of_depth_is_the_same(depth: int, kinds: str) -> None:
    """Nesting beyond the limit is refused, with any number of brackets in strings beside it."""
    opening, closing = "", ""
    for level in range(depth):
        is_list = kinds[level % len(kinds)] == "["
        opening += "[" if is_list else '{"a":'
        closing = ("]" if is_list else "}") + closing
    for beside in ("", "[{" * 300):
        text = f"{opening}{json.dumps(beside)}{closing}"
        assert both(text.encode()) == {depth <= MAX_DEPTH}


@pytest.mark.parametrize("data", [b"1", b"null", b'["a"]', b"", b"a", b'"a" "b"', b'"a'])
def test_only_a_string_is_a_string(data: bytes) -> None:
    """`strict_string` refuses every other value, and more than one."""
    assert both(data, string=True) == {False}
