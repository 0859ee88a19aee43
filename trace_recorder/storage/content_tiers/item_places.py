"""Which member of a request each item of a journal belongs to, because an item does not say so itself.

A request names its items by ranges of numbers, and requests of one conversation name nearly the same ranges. So the
ranges of a member are joined, and take little memory however many requests there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from trace_recorder.dialects.json_access import as_list
from trace_recorder.values.messages import Payload


class NumberRanges:
    """Disjoint ranges of numbers, in order."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Add the numbers from `first` to `last`, and join the ranges that overlap or touch."""
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._firsts, number) - 1
        return index >= 0 and number <= self._lasts[index]


class ItemPlaces:
    """The members to which items belong."""

    def __init__(self, items: Iterable[Payload] = ()) -> None:
        self._ranges: dict[str, NumberRanges] = {}
        for members in items:
            self.add(members)

    def add(self, items: Payload) -> None:
        """Add the member `items` of a record. What is not the number of an item is ignored."""
        if not isinstance(items, dict):
            return
        for name, part in items.items():
            ranges = self._ranges.setdefault(name, NumberRanges())
            if isinstance(part, int):
                ranges.add(part, part)
            elif isinstance(part, dict):
                _add_pairs(ranges, part.get("ranges"))
            else:
                _add_pairs(ranges, part)

    def member_of(self, number: Payload) -> str | None:
        """Return the name of the member that has an item, or None if no request names the item."""
        if isinstance(number, int):
            for name, ranges in self._ranges.items():
                if number in ranges:
                    return name
        return None


def _add_pairs(ranges: NumberRanges, pairs: Payload) -> None:
    for pair in as_list(pairs):
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        first, last = pair
        if isinstance(first, int) and isinstance(last, int) and first <= last:
            ranges.add(first, last)
