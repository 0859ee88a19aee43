"""Writes the numbers of a list as ranges, relative to an earlier full list of the same name where that is shorter.

A part of the earlier list is found wherever it is now: elements may have been inserted, removed or replaced in front of
it. Invariant: the ranges that are written for one base are together at most as many as those of a full list, which then
becomes the next base. So n calls with n scattered numbers take some n^1.5 ranges in place of n^2.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property

from trace_recorder.storage.items.item_lists import Item, ItemList
from trace_recorder.values.messages import Payload

MAX_FULL_RANGES = 12
"""A list of more ranges than this is written relative to an earlier full one."""


class Base:
    """A list that the record `seq` has in full; `written` counts the ranges that were written relative to it."""

    def __init__(self, seq: int, numbers: array[int]) -> None:
        self.seq = seq
        self.numbers = numbers
        self.written = 0

    @cached_property
    def _positions(self) -> dict[int, int]:
        """Where each number is; the first place, if the number occurs several times."""
        return {number: at for at, number in reversed(list(enumerate(self.numbers)))}

    def ranges_of(self, numbers: array[int]) -> list[Payload]:
        """Return ranges of positions in this list, and ranges of the numbers between."""
        ranges: list[Payload] = []
        others = ItemList()
        at = place = 0
        while at < len(numbers):
            place = self._place_of(numbers[at], place)
            same = _common_length(numbers, at, self.numbers, place)
            if same > 1:
                ranges += [*others.ranges, {"base": [place, place + same - 1]}]
                others = ItemList()
            else:  # a single number is shorter than its position
                same = 1
                others.add(Item(numbers[at]))
            at, place = at + same, place + same
        return [*ranges, *others.ranges]

    def _place_of(self, number: int, expected: int) -> int:
        """Return where a number is: preferably where the list continues. If it is not there, that is returned too."""
        if expected < len(self.numbers) and self.numbers[expected] == number:
            return expected
        return self._positions.get(number, expected)


def ranges_or_base(part: ItemList, base: Base | None) -> Payload:
    """Return the entry in `items` of a list of many ranges: its own ranges, or ranges relative to a base."""
    if base is None:
        return part.ranges
    ranges = base.ranges_of(part.numbers)
    base.written += len(ranges)
    if len(ranges) >= len(part.ranges) or base.written > max(len(part.ranges), MAX_FULL_RANGES):
        return part.ranges
    return {"base": base.seq, "ranges": ranges}


def _common_length(one: Sequence[int], at: int, other: Sequence[int], place: int) -> int:
    """Return how many numbers are the same from two positions on; long pieces are compared at once."""
    length, step, longest = 0, 1, min(len(one) - at, len(other) - place)
    while step and length < longest:
        end = min(length + step, longest)
        if one[at + length : at + end] == other[place + length : place + end]:
            length, step = end, 2 * step
        else:
            longest, step = end - 1, (end - length) // 2
    return length
