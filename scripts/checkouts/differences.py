"""Differences between outputs of two checkouts, in groups of equal reasons, for `compare-checkouts`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from math import isnan
from typing import Any

Payload = Any

MAX_OF_OUTPUT = 20
"""At most this many differences of one output are reported."""
MAX_CHARACTERS = 200
"""At most this many characters of a value are shown."""
_ABSENT = object()
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference: where it is in the output, what kind it is, and both values."""

    where: str
    what: str
    old: str
    new: str


@dataclass(slots=True)
class Group:
    """Differences with the same reason. `path` and `first` are the first of them."""

    path: str
    first: Difference
    count: int = 0
    runs: set[str] = field(default_factory=set)


class Report:
    """All differences. Equal reasons are in one group."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str, str], Group] = {}

    def compare(self, path: str, output: str, old: bytes | None, new: bytes | None) -> None:
        """Add the differences between two outputs of a run. An output that was not made is None."""
        if old == new:
            return
        for difference in differences(old, new):
            key = _without_numbers(output), _without_numbers(difference.where), difference.what
            group = self.groups.setdefault(key, Group(path, difference))
            group.count += 1
            group.runs.add(path)

    def lines(self) -> Iterator[str]:
        """Yield the groups as text, the largest first."""
        for (output, where, _), group in sorted(self.groups.items(), key=lambda item: -item[1].count):
            yield f"{group.count} x {output}: {where or 'everything'}: {group.first.what} (in {len(group.runs)} runs)"
            yield f"    first: {group.path} at {group.first.where or 'its root'}"
            yield f"    old: {group.first.old}"
            yield f"    new: {group.first.new}"


def _without_numbers(text: str) -> str:
    return _NUMBERS.sub("*", text)


def differences(old: bytes | None, new: bytes | None) -> list[Difference]:
    """Return the differences between two outputs that are not equal, and at most `MAX_OF_OUTPUT` of them.

    JSON is compared by members, and lines of JSON too. Of any other text, the first line that differs is reported.
    """
    if old is None or new is None:
        what = "only the new checkout makes it" if old is None else "only the old checkout makes it"
        return [Difference("", what, _shown(old), _shown(new))]
    return [*islice(_of_texts(old, new), MAX_OF_OUTPUT)] or [_first_byte(old, new)]


def _of_texts(old: bytes, new: bytes) -> Iterator[Difference]:
    values = _parsed(old), _parsed(new)
    if _ABSENT not in values:
        yield from _of_values(*values, "")
        return
    pairs = zip_longest(old.splitlines(), new.splitlines())
    for number, (before, after) in enumerate(pairs, start=1):
        if before == after:
            continue
        if before is None or after is None:
            yield Difference(f"line {number}", "a line more or less", _shown(before), _shown(after))
            return
        lines = _parsed(before), _parsed(after)
        if _ABSENT in lines:  # of a plain text, the first difference says enough
            yield Difference(f"line {number}", "another line", _shown(before), _shown(after))
            return
        of_line = [*_of_values(*lines, "")] or [_first_byte(before, after)]
        yield from (Difference(f"line {number}: {one.where}", one.what, one.old, one.new) for one in of_line)


def _parsed(data: bytes) -> Payload:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _ABSENT


def _of_values(old: Payload, new: Payload, pointer: str) -> Iterator[Difference]:
    """Yield the differences between two values of JSON. `pointer` is the JSON pointer of the values."""
    if type(old) is not type(new):
        what = f"{_type(old)} → {_type(new)}"
        yield Difference(pointer, what, _shown(old), _shown(new))
    elif isinstance(old, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            inner = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _of_members(old.get(name, _ABSENT), new.get(name, _ABSENT), inner)
        if [*old] != [*new] and {*old} == {*new}:
            yield Difference(pointer, "another order of members", _shown([*old]), _shown([*new]))
    elif isinstance(old, list):
        if len(old) != len(new):
            yield Difference(pointer, "another number of elements", f"{len(old)} elements", f"{len(new)} elements")
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from _of_values(before, after, f"{pointer}/{index}")
    elif old != new and not _are_nan(old, new):
        yield Difference(pointer, "another value", _shown(old), _shown(new))


def _are_nan(*values: Payload) -> bool:
    return all(isinstance(value, float) and isnan(value) for value in values)


def _of_members(old: Payload, new: Payload, pointer: str) -> Iterator[Difference]:
    if old is _ABSENT:
        yield Difference(pointer, "a new member", "absent", _shown(new))
    elif new is _ABSENT:
        yield Difference(pointer, "a missing member", _shown(old), "absent")
    else:
        yield from _of_values(old, new, pointer)


def _type(value: Payload) -> str:
    names = {
        type(None): "null",
        bool: "bool",
        int: "number",
        float: "number",
        str: "text",
        list: "list",
        dict: "object",
    }
    name = names[type(value)]
    return f"{name} ({type(value).__name__})" if name == "number" else name


def _first_byte(old: bytes, new: bytes) -> Difference:
    at = next(
        (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    begin = max(0, at - 20)
    return Difference(f"byte {at}", "the same JSON in other bytes", _shown(old[begin:]), _shown(new[begin:]))


def _shown(value: Payload) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        text = value[:MAX_CHARACTERS].decode("utf-8", "backslashreplace")
    else:
        text = json.dumps(value, ensure_ascii=False)
    return ascii(text[:MAX_CHARACTERS])[1:-1] + ("…" if len(text) > MAX_CHARACTERS else "")
