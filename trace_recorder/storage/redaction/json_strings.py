"""Finds the strings of JSON text: their positions, their decoded texts, and the member of each.

The JSON is not parsed, so it may be cut off. A span of a string includes its quotes. Other modules decide what is a
secret.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import NamedTuple

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import COLON

ESCAPED_LETTER = lazy_pattern(r"\\(?:u00(?:0[9aAdD]|[2-7][0-9A-Fa-f])|/)")
"""Matches an escape in JSON text of an ASCII character that needs no escape, or that may separate words."""
_LABELS = frozenset({"name", "key", "Name", "Key", "variable"})
_VALUES = frozenset({"value", "Value"})

TEXT_END = "\f"
BETWEEN = TEXT_END + "\r<\1\n"
"""The separator of texts that are searched together.

No secret, and no name with its value, extends over a separator. For the search, a text ends before the separator,
and a line begins after it. A separator cannot overlap itself, so that `split` finds each of them.
"""


_REST_OF_STRING = lazy_pattern(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


def string_end(text: str, position: int) -> int:
    """Return the position of the closing quote of a string, or the length of the text if the string does not end.

    `position` is inside the string, after the opening quote.
    """
    quote = text.find('"', position)
    if quote > position and text[quote - 1] == "\\":
        rest = _REST_OF_STRING.match(text, position + _is_escaped(text, position))
        if rest is not None:
            quote = rest.end()
    if quote < 0:
        return len(text)
    return quote


def _is_escaped(text: str, position: int) -> bool:
    """Return whether an odd number of backslashes is before this position."""
    first = position
    while first > 0 and text[first - 1] == "\\":
        first -= 1
    return (position - first) % 2 == 1


def decode_string(text: str, start: int, end: int) -> str:
    """Return the decoded text of a string of JSON. `start` and `end` are its span, quotes included."""
    inner = text[start + 1 : end - 1]
    if "\\" not in inner:
        return inner
    return str(json.loads(f'"{inner}"'))


_DECODER = json.JSONDecoder(strict=False)


def decoded_around(text: str, position: int, before: int, behind: int) -> tuple[str, int]:
    """Return the decoded text around a position within a string of JSON text, and this position in the decoded text.

    At most the given numbers of characters before the position and behind it are decoded, and only those of the string.
    Raises ValueError if the string is not valid.
    """
    first = max(0, position - before)
    window = text[first : position + behind]
    begin = position - first
    quote = window.rfind('"', 0, begin)
    while quote > 0 and _is_escaped(window, quote):
        quote = window.rfind('"', 0, quote)
    head, rest = window[quote + 1 : begin], window[begin : string_end(window, begin)]
    if "\\" in head:
        head, _ = _DECODER.raw_decode(f'"{head}"')
    if "\\" in rest:
        cut = rest.rfind("\\", len(rest) - 6)  # the end of the window may cut an escape
        if cut >= 0 and begin + len(rest) == len(window):
            rest = rest[:cut].rstrip("\\")
        rest, _ = _DECODER.raw_decode(f'"{rest}"')
    return head + rest, len(head)


_BEFORE_SECRET, _BEHIND_SECRET = 16 * 1024, 40 * 1024
"""A position of `possible_secrets` is for the rest of its block too, and may be in the middle of a secret."""
_EXAMINED = 24 * 1024
"""So many characters before a place in a string decide whether the string may be cut there."""
_MOST_TRIES = 8


def parts_around(
    text: str, start: int, end: int, positions: list[int], unfinished: Callable[[str], int]
) -> Iterator[tuple[int, int]]:
    """Yield the spans of the parts of a string of JSON that must be searched, because they have possible secrets.

    `start` and `end` are the span of the string. A part begins and ends after the end of a line, outside of every
    secret according to `unfinished`, or where the string does. Like the span of a string, the span of a part has one
    more character at each end.
    """
    done, last = start + 1, end - 1
    for first_secret, last_secret in _groups(positions[bisect_left(positions, start) : bisect_left(positions, end)]):
        if last_secret + _BEHIND_SECRET <= done:
            continue
        begin = _cut_before(text, max(done, first_secret - _BEFORE_SECRET), done, unfinished)
        done = _cut_behind(text, max(done, last_secret + _BEHIND_SECRET), begin, last, unfinished)
        yield begin - 1, done + 1


def _groups(positions: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each group of positions that are close to each other."""
    first = last = -1
    for position in positions:
        if first >= 0 and position - last > _BEFORE_SECRET + _BEHIND_SECRET:
            yield first, last
            first = -1
        if first < 0:
            first = position
        last = position
    if first >= 0:
        yield first, last


def _cut_before(text: str, position: int, first: int, unfinished: Callable[[str], int]) -> int:
    """Return a position at or before a position of a string at which the string may be cut, or `first`."""
    line_end = text.rfind(_LINE_END, first, position)
    for _ in range(_MOST_TRIES):
        if line_end < 0:
            break
        if _may_be_cut(text, line_end, first, unfinished):
            return line_end + len(_LINE_END)
        line_end = text.rfind(_LINE_END, first, line_end)
    return first


def _cut_behind(text: str, position: int, first: int, last: int, unfinished: Callable[[str], int]) -> int:
    """Return a position behind a position of a string at which the string may be cut, or `last`."""
    line_end = text.find(_LINE_END, position, last)
    for _ in range(_MOST_TRIES):
        if line_end < 0:
            break
        if _may_be_cut(text, line_end, first, unfinished):
            return line_end + len(_LINE_END)
        line_end = text.find(_LINE_END, line_end + 1, last)
    return last


_LINE_END = "\\n"
_MOST_BACKSLASHES = 100


def _may_be_cut(text: str, line_end: int, first: int, unfinished: Callable[[str], int]) -> bool:
    """Return whether a string of JSON text may be cut after the escape at `line_end`, outside of every secret."""
    window = text[max(first, line_end - _MOST_BACKSLASHES) : line_end]
    backslashes = len(window) - len(window.rstrip("\\"))
    if backslashes % 2 == 1 or backslashes == _MOST_BACKSLASHES:
        return False
    position = line_end + len(_LINE_END)
    try:
        before, _ = decoded_around(text, position, min(_EXAMINED, position - first), 0)
    except ours(ValueError):
        return False
    return unfinished(before) == 0


_TOKEN = lazy_pattern(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\],]', re.DOTALL)


def pointers_of(text: str, starts: Iterable[int]) -> dict[int, str]:
    """Return the JSON pointers of the strings that begin at these positions, or contain them.

    `text` is JSON, or the members of an object without its braces.
    """
    pointers: dict[int, str] = {}
    keys: list[str | int] = [] if text.lstrip()[:1] in {"{", "["} else [""]  # where we are in each open object and list
    wanted = sorted(starts, reverse=True)
    for token in _TOKEN.finditer(text):
        sign = token[0][0]
        if sign == '"':
            while wanted and wanted[-1] < token.end():
                pointers[wanted.pop()] = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)
            if keys and isinstance(keys[-1], str) and COLON.match(text, token.end()):
                keys[-1] = decode_string(text, *token.span())
        elif sign in "{[":
            keys.append("" if sign == "{" else 0)
        elif sign in "}]" and keys:
            keys.pop()
        elif sign == "," and keys and isinstance(keys[-1], int):
            keys[-1] += 1
        if not wanted:
            break
    return pointers


def encode_string(text: str) -> str:
    """Return a text as a string of JSON, with its quotes."""
    if _is_encodable(text):
        return encode_basestring(text)
    return encode_basestring_ascii(text)


def repair_surrogates(masked: str, text: str) -> str:
    """Return a masked text that can be encoded as UTF-8 if the text before masking could be.

    If masking has cut a surrogate pair in two, replace the half by a question mark.
    """
    if _is_encodable(masked) or not _is_encodable(text):
        return masked
    return masked.encode("utf-8", "replace").decode()


def _is_encodable(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8.

    A text that was cut off may end in half of a surrogate pair, which cannot.
    """
    return text.isascii() or not _SURROGATE.search(text)


_SURROGATE = lazy_pattern("[\ud800-\udfff]")


def strings_at(text: str, positions: list[int] | None) -> Iterator[tuple[int, int, str, bool]]:
    """Yield the strings of JSON text in which a secret may be. `positions` are the possible positions of secrets.

    A string is yielded if it, or the name to which it belongs, contains one of these positions. If `positions` is None,
    all strings are yielded. Each string comes with its start, its end, the name to which it belongs, and whether it is
    a member's name itself. A value belongs to the name of its member, with two exceptions. The value of a member
    "value" belongs to the text of the member "name" before it in the same object, as in lists of variables. An
    element of a list after a command's option belongs to the option. Strings that are far from these positions are not
    examined.
    """
    quotes = text
    if '\\"' in text:  # blank out the escaped quotes, because `find` is faster than a pattern
        quotes = text.replace("\\\\", "\0\0").replace('\\"', "\0\0")
    name, label, option, follows, done = "", _NO_LABEL, "", False, 0
    start = _next_string(quotes, 0, positions)
    while start >= 0:
        end = quotes.find('"', start + 1) + 1
        if not end:
            return
        is_seen = positions is None or _is_one_in(positions, start, end)
        if COLON.match(text, end):
            name, option, follows = decode_string(text, start, end), "", is_seen
            if is_seen:
                yield start, end, "", True
        else:
            is_value = bool(name) and _is_value(text, start)
            if option and text[done:start].strip() != ",":
                option = ""
            owner = _owner(name, label, option, start, is_value=is_value)
            if is_seen or follows or option or owner == label.name != "":
                yield start, end, owner, False
            option = _option_at(text, start, end) if is_seen else ""
            done = end
            if is_seen and is_value and name in _LABELS:
                label = _Label(decode_string(text, start, end), text, end)
            elif name in _VALUES:
                label = _NO_LABEL
            follows = False
        start = quotes.find('"', end) if follows or option or label.name else _next_string(quotes, end, positions)


def _is_one_in(positions: list[int], start: int, end: int) -> bool:
    """Return whether one of these positions, which are in order, is in a part of a text."""
    index = bisect_left(positions, start)
    return index < len(positions) and positions[index] < end


def _next_string(quotes: str, end: int, positions: list[int] | None) -> int:
    """Return the beginning of the next string that must be examined after the one with this end, or -1.

    This is the string before the string with the next position, because that may be the name of its member.
    """
    if positions is None:
        return quotes.find('"', end)
    index = bisect_left(positions, end)
    if index == len(positions):
        return -1
    position = positions[index]
    if quotes.count('"', end, position) % 2:
        start = quotes.rfind('"', end, position)
    else:
        start = quotes.find('"', position)
    before = quotes.rfind('"', end, max(end, start))
    if before < 0:
        return start
    return quotes.rfind('"', end, before)


def _option_at(text: str, start: int, end: int) -> str:
    """Return the command's option that a string is, or "" if it is none."""
    if not text.startswith('"--', start):
        return ""
    return decode_string(text, start, end)


class _Label(NamedTuple):
    """The name that a member "name" of an object states. The member's string ends at the position `end` of a text."""

    name: str
    text: str
    end: int

    def is_in_object(self, position: int) -> bool:
        """Return whether the object of the label is still open at a later position outside of strings."""
        depth = 0
        for token in _TOKEN.finditer(self.text, self.end, position):
            depth += (token[0] == "{") - (token[0] == "}")
            if depth < 0:
                return False
        return True


_NO_LABEL = _Label("", "", 0)


def _owner(name: str, label: _Label, option: str, start: int, *, is_value: bool) -> str:
    """Return the name to which the string at this position belongs."""
    if label.name and is_value and name in _VALUES and label.is_in_object(start):
        return label.name
    if is_value:
        return name
    return option


def _is_value(text: str, start: int) -> bool:
    """Return whether the string that starts here is the value of a member: a colon is before it."""
    while text[start - 1] in " \t\n\r":
        start -= 1
    return text[start - 1] == ":"
