"""Reads JSON text strictly, writes it, and splits its members and elements into texts without encoding them again.

The strict form of JSON can be read by every reader of JSON. It excludes NaN, half of a surrogate pair, a number beyond
the range of a float, and more than 200 levels of nesting. A body that is not strict JSON is recorded as plain text.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Container, Iterator
from itertools import accumulate
from typing import NoReturn

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

MAX_DEPTH = 200
"""JSON nested deeper than this many levels is refused. Python's own json fails at a little under 1,000 levels."""

MAX_DOCUMENT_DEPTH = MAX_DEPTH + 50
"""A document may be nested to this many levels. It may have JSON of `MAX_DEPTH` levels inside its own few levels."""


class NotJsonError(ValueError):
    """The text is not JSON in the strict form."""


try:
    from msgspec import MsgspecError
    from msgspec.json import Decoder

    _read_any: Callable[[bytes | str], Payload] = Decoder().decode
except ImportError:  # an agent's interpreter may have only the standard library: `parse` reads everything
    MsgspecError = ValueError  # type: ignore[assignment, misc]

    def _read_any(_: bytes | str) -> Payload:
        raise NotJsonError("msgspec cannot be imported")


def _refuse_constant(constant: str) -> NoReturn:
    raise NotJsonError(f"{constant} is not JSON")


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse_constant(text)
    return number


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite_number)
_SPACE = lazy_pattern(r"[ \t\n\r]*+")
_COMMA, _LIST_BEGIN = (lazy_pattern(rf"[ \t\n\r]*+{token}[ \t\n\r]*+") for token in (",", r"\["))
_EMPTY_LIST, _LIST_END = (lazy_pattern(rf"{begin}[ \t\n\r]*+\]") for begin in (r"\[", ""))
_NAME = r'[ \t\n\r]*+("[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")[ \t\n\r]*+:[ \t\n\r]*+'
_FIRST_MEMBER, _NEXT_MEMBER = (lazy_pattern(rf"[ \t\n\r]*+{token}{_NAME}") for token in (r"\{", ","))
"""Match the text before the value of an object's first member, such as `{"a":`, and of each other member."""
_EMPTY_OBJECT, _OBJECT_END = (lazy_pattern(rf"[ \t\n\r]*+{end}[ \t\n\r]*+") for end in (r"\{[ \t\n\r]*+\}", r"\}"))
STRING = lazy_pattern(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_OR_REST = lazy_pattern(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Matches a string, or an unclosed string up to the end of the text.

So the search for strings reads no character twice.
"""
_STEP = 32 * 1024
"""The depth of a text is found in steps of about this many characters, to need little memory."""
_NO_BRACKETS = bytes(code for code in range(256) if chr(code) not in "[]{}")
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
COLON = lazy_pattern(r"[ \t\n\r]*:")
_HEX = "[0-9a-fA-F]"
_ESCAPED_SURROGATE = lazy_pattern(r"\\u[dD]")
_SURROGATE = lazy_pattern(rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|(\\u[dD][89a-fA-F]{_HEX}{{2}})|\\.")


def make_json_writer(
    between: str, behind_name: str, *, allow_nan: bool = True, ensure_ascii: bool = False, sort_keys: bool = False
) -> Callable[[Payload], str]:
    """Return a function that encodes values as `json.dumps` does.

    `between` separates members and elements, and `behind_name` separates a name from its value. The function does not
    check for cycles. It keeps its encoder, because `json.dumps` creates an encoder for each call, which takes longer
    than encoding a small value.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(
            ensure_ascii=ensure_ascii,
            separators=(between, behind_name),
            allow_nan=allow_nan,
            sort_keys=sort_keys,
            check_circular=False,
        ).encode
    default, encode_string = json.JSONEncoder().default, json.encoder.encode_basestring
    if ensure_ascii:
        encode_string = json.encoder.encode_basestring_ascii
    encode = make(None, default, encode_string, None, behind_name, between, sort_keys, False, allow_nan)  # noqa: FBT003
    return lambda value: "".join(encode(value, 0))


write_json = make_json_writer(", ", ": ")
"""Return a value as JSON text, as `json.dumps` does with `ensure_ascii=False`, and more quickly."""


def parse(text: str, max_depth: int = MAX_DEPTH) -> Payload:
    """Read JSON strictly: no NaN, no lone surrogate, no nesting beyond `max_depth` levels. Raises NotJsonError.

    msgspec reads short texts first, as in `strict_text`. It reads a text with too few brackets to be nested too deeply.
    """
    if len(text) <= max_depth:
        try:
            return _read_any(text)
        except ours(MsgspecError, ValueError, RecursionError):
            pass
    if "\\" in text:  # most texts have none, and calls cost
        refuse_lone_surrogates(text)
    space = _SPACE.match(text)
    value, end = _value(text, space.end() if space else 0, max_depth)
    if not _SPACE.fullmatch(text, end):
        raise NotJsonError("more text after the JSON value")
    return value


def strict_text(data: bytes) -> str:
    """Return the text of a JSON value in UTF-8 that `parse` accepts. Raises NotJsonError for any other bytes.

    msgspec reads the value in a fifth of the time of `parse`, and accepts only what `parse` accepts, except that it has
    no limit of depth. `parse` decides about everything that msgspec refuses.
    """
    try:
        text = data.decode()
    except ours(UnicodeDecodeError) as error:
        raise NotJsonError(str(error)) from None
    try:
        value = _read_any(data)
    except ours(MsgspecError, ValueError, RecursionError):
        parse(text)
        return text
    if len(text) > 2 * MAX_DEPTH and not isinstance(value, str):
        # To count all opening brackets would take longer than to look for too many of them.
        has_few_brackets = all(_occurs_at_most(text, bracket, MAX_DEPTH // 2) for bracket in "[{")
        if not has_few_brackets:
            _check_depth_of(value, MAX_DEPTH)
    return text


def strict_string(data: bytes) -> str:
    """Return the text of a JSON string in UTF-8, with its quotes. Raises NotJsonError for any other bytes."""
    text = strict_text(data)
    if not text.startswith('"') or not text.endswith('"'):
        raise NotJsonError("not a string")
    return text


def _occurs_at_most(text: str, character: str, times: int) -> bool:
    position = -1
    for _ in range(times + 1):
        position = text.find(character, position + 1)
        if position < 0:
            return True
    return False


def replace_lone_surrogates(text: str) -> str:
    """Return JSON text in which U+FFFD replaces each lone half of a surrogate pair."""
    if not _may_have_surrogates(text):
        return text
    return _SURROGATE.sub(lambda match: "\\ufffd" if match[1] else match[0], text)


def refuse_lone_surrogates(text: str) -> None:
    """Raise NotJsonError if JSON text has a lone half of a surrogate pair."""
    if _may_have_surrogates(text) and any(match[1] for match in _SURROGATE.finditer(text)):
        raise NotJsonError("a surrogate has no partner")


def _may_have_surrogates(text: str) -> bool:
    return "\\" in text and _ESCAPED_SURROGATE.search(text) is not None  # the first test is a hundred times faster


def check_depth(text: str, max_depth: int, begin: int = 0, end: int = sys.maxsize) -> None:
    """Raise NotJsonError for nesting deeper than `max_depth`.

    A text with at most `max_depth` opening brackets is accepted at once. The time is linear in the length of any text.
    Unmatched brackets raise no error here, because the decoder refuses them.
    """
    end = min(end, len(text))
    if end - begin <= 2 * max_depth or text.count("[", begin, end) + text.count("{", begin, end) <= max_depth:
        return
    depth = 0
    for brackets in _brackets(text, begin, end):
        levels = list(accumulate(map(_LEVELS.__getitem__, brackets), initial=depth))
        if max(levels) > max_depth:
            raise NotJsonError(f"nested more than {max_depth} levels deep")
        depth = levels[-1]


def _brackets(text: str, start: int, end: int) -> Iterator[bytes]:
    """Yield the brackets that are not inside strings. The text is read in steps, and each step yields its brackets."""
    opening = ""
    while start < end:
        stop = min(start + _STEP, end)
        while stop < end and text[stop - 1] == "\\":  # do not cut an escape
            stop += 1
        bare = _STRING_OR_REST.sub("", f'{opening}{text[start:stop]}"\0')
        opening = '"' if bare.endswith("\0") else ""  # a quote at the end closes the string in which the step ends
        yield bare.encode("ascii", "replace").translate(None, _NO_BRACKETS)
        start = stop


def one_line(text: str) -> str:
    """Return JSON text on one line. JSON has line breaks only between tokens, so spaces can replace them."""
    return text.replace("\r", " ").replace("\n", " ")


class JsonMember(Struct):
    """A member of an object: its `name`, and the JSON texts of the name and of the value.

    If the value is a list with objects or lists in it, `elements` has the span of each element in the object's text.
    `begin` is where the name begins in that text, and `end` is where the value ends.
    """

    name: str
    name_text: str
    value: str
    elements: list[tuple[int, int]] | None
    begin: int
    end: int


def split_members(text: str, max_depth: int = MAX_DEPTH, lists: Container[str] | None = None) -> list[JsonMember]:
    """Split the text of a JSON object into its members.

    If the value of a member is a list of objects, find the spans of its elements too, or only for the members that
    `lists` names. Raises NotJsonError, also if a value is nested deeper than `max_depth`. The elements of such a list
    may be nested as deep.
    """
    members: list[JsonMember] = []
    position, next_member = 0, _FIRST_MEMBER
    while match := next_member.match(text, position):
        name, begin = match[1], match.end()
        elements = None
        if text.startswith("[", begin) and (lists is None or name[1:-1] in lists):
            elements, position = _elements(text, begin, max_depth)
        else:
            _, position = _value(text, begin, max_depth)
        plain_name = name[1:-1]
        if "\\" in name:
            plain_name = str(_value(name, 0)[0])
        members.append(JsonMember(plain_name, name, text[begin:position], elements, match.start(1), position))
        next_member = _NEXT_MEMBER
    end = _OBJECT_END if members else _EMPTY_OBJECT
    if not end.fullmatch(text, position):
        raise NotJsonError(f"a member of an object, or its end, is expected at character {position}")
    return members


def inner_members(member: JsonMember) -> list[JsonMember]:
    """Split the value of a member, which is an object, into its members. Their places are in the outer object's text.

    Raises NotJsonError.
    """
    offset = member.end - len(member.value)
    members = split_members(member.value)
    for inner in members:
        inner.begin += offset
        inner.end += offset
        if inner.elements is not None:
            inner.elements = [(start + offset, end + offset) for start, end in inner.elements]
    return members


def added_elements(text: str, *, is_beginning: bool = False) -> list[tuple[int, int]] | None:
    """Read a part of the elements of a list: whole elements, each after a comma.

    Return the spans of these elements, or None if the text has another form. If `is_beginning`, the first element
    begins the list, so that no comma is before it, and must be there.
    """
    spans: list[tuple[int, int]] = []
    position = 0
    before = _SPACE if is_beginning else _COMMA
    try:
        while match := before.match(text, position):
            _, position = _value(text, match.end())
            spans.append((match.end(), position))
            before = _COMMA
    except NotJsonError:
        return None
    if not _SPACE.fullmatch(text, position):
        return None
    return spans


def decode_json(data: bytes) -> str:
    """Decode the bytes of a JSON text.

    Raises NotJsonError if they are not UTF-8 or have a lone half of a surrogate pair.
    """
    try:
        text = data.decode()
    except ours(UnicodeDecodeError) as error:
        raise NotJsonError(str(error)) from None
    if "\\" in text:
        refuse_lone_surrogates(text)
    return text


def _elements(text: str, position: int, max_depth: int) -> tuple[list[tuple[int, int]] | None, int]:
    """Return the spans of a list's elements, and the end of the list.

    If no element is an object or a list, return None and the end.
    """
    spans: list[tuple[int, int]] = []
    objects = False
    if empty := _EMPTY_LIST.match(text, position):
        return None, empty.end()
    next_element = _LIST_BEGIN
    while match := next_element.match(text, position):
        value, position = _value(text, match.end(), max_depth)
        objects = objects or isinstance(value, dict | list)
        spans.append((match.end(), position))
        next_element = _COMMA
    end = _LIST_END.match(text, position)
    if end is None:
        raise NotJsonError(f"an element of a list, or its end, is expected at character {position}")
    if not objects:
        return None, end.end()
    return spans, end.end()


def _value(text: str, start: int, max_depth: int = MAX_DEPTH) -> tuple[Payload, int]:
    """Read one value. Raises NotJsonError."""
    try:
        value, end = _decoder.raw_decode(text, start)
    except ours(ValueError, RecursionError) as error:
        raise NotJsonError(str(error)) from None
    if end - start > 2 * max_depth and text.count("[", start, end) + text.count("{", start, end) > max_depth:
        _check_depth_of(value, max_depth)
    return value, end


def _check_depth_of(value: Payload, max_depth: int) -> None:
    """Do the same as `check_depth` for a value that was read. This takes less time than to read its text again."""
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        children: list[Payload] = []
        for container in containers:
            if isinstance(container, dict):
                children += container.values()
            else:
                children += container
        containers = [child for child in children if isinstance(child, dict | list)]
        if not containers:
            return
    raise NotJsonError(f"nested more than {max_depth} levels deep")
