"""Lists of numbers as ranges, for answers and exports that name the messages of every prompt of a run.

A prompt usually begins as the prompt before it. So only the numbers after that beginning are divided into ranges, and
the lists of two prompts share the ranges before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from operator import add, sub

from trace_recorder.values.prompt_comparison import Numbers, Ranges, equal_length, range_begins


class RangeDivider:
    """Divides lists of numbers into ranges, in their order: 3, 4, 5, 9 become [[3, 5], [9, 9]].

    `beyond` is added to the end of each range. No line of Python runs for a range, because edited histories have many.
    """

    def __init__(self, beyond: int = 0) -> None:
        self._beyond = beyond
        self._numbers: Numbers = array("q")
        self._ranges: Ranges = []
        self._begins: list[int] = []
        """The positions in the newest list at which its ranges begin."""

    def of(self, numbers: Numbers) -> Ranges:
        """Return the ranges of a list. Other lists share them: do not change a range.

        If one number of the newest list is replaced, the ranges behind it are shared too.
        """
        equal = equal_length(self._numbers, 0, numbers, 0)
        behind = equal_length(self._numbers, equal + 1, numbers, equal + 1)
        end = equal + 1 + behind  # up to here, at most the number at `equal` differs
        first, last = bisect_left(self._begins, equal), bisect_left(self._begins, end)
        resumed = min(last, bisect_left(self._begins, equal + 2))  # a range begins there if one begins there in both
        before, kept = self._begins[:first], self._begins[resumed:last]
        changed = _begins_from(numbers, equal, min(equal + 2, len(numbers)))
        added = _begins_from(numbers, max(end, equal + 2), len(numbers))
        # The range before a change may end elsewhere.
        same, kept_ranges = max(0, first - 1), self._ranges[resumed : max(resumed, last - 1)]
        begins = [*before, *changed, *kept, *added]
        middle = first + len(changed)
        rest = middle + len(kept_ranges)
        self._ranges = [
            *self._ranges[:same],
            *self._ranges_of(numbers, begins[same : middle + 1], middle - same),
            *kept_ranges,
            *self._ranges_of(numbers, begins[rest:], len(begins) - rest),
        ]
        self._begins, self._numbers = begins, numbers
        return [*self._ranges]

    def _ranges_of(self, numbers: Numbers, begins: Sequence[int], count: int) -> Iterator[list[int]]:
        """Return the first `count` of the ranges that begin at these positions, up to the end of the list."""
        ends = map(sub, chain(begins[1:], [len(numbers)]), repeat(1))
        lasts = map(add, map(numbers.__getitem__, ends), repeat(self._beyond))
        return islice(map(list, zip(map(numbers.__getitem__, begins), lasts, strict=False)), count)


def _begins_from(numbers: Numbers, start: int, stop: int) -> list[int]:
    """Return the positions from `start` to before `stop` at which a range begins."""
    if start >= stop:
        return []
    before = max(0, start - 1)  # the first number may continue the range of the number before
    begins = [*map(add, range_begins(numbers[before:stop]), repeat(before))]
    return begins[bisect_left(begins, start) :]
