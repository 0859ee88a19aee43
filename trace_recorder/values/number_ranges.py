"""Lists of numbers as ranges, for answers and exports that name the messages of every prompt of a run.

A prompt usually begins as the prompt before it. So only the numbers after that beginning are divided into ranges, and
the lists of two prompts share the ranges before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import pairwise

from trace_recorder.values.prompt_comparison import Numbers, Ranges, equal_length, range_begins


class RangeDivider:
    """Divides lists of numbers into ranges, in their order: 3, 4, 5, 9 become [[3, 5], [9, 9]].

    `beyond` is added to the end of each range.
    """

    def __init__(self, beyond: int = 0) -> None:
        self._beyond = beyond
        self._numbers: Numbers = array("q")
        self._ranges: Ranges = []
        self._begins: list[int] = []
        """The positions in the newest list at which its ranges begin."""

    def of(self, numbers: Numbers) -> Ranges:
        """Return the ranges of a list. Other lists share them: do not change a range."""
        equal = equal_length(self._numbers, 0, numbers, 0)
        count = bisect_left(self._begins, equal)
        del self._begins[count:]
        start = max(0, equal - 1)  # the first other number may continue the range of the last equal number
        begins = (start + place for place in range_begins(numbers[start:]))
        self._begins.extend(begin for begin in begins if begin >= equal)
        self._numbers = numbers
        same = max(0, count - 1)  # the range around the first other number may end elsewhere
        del self._ranges[same:]
        places = pairwise([*self._begins[same:], len(numbers)])
        self._ranges += [[numbers[begin], numbers[end - 1] + self._beyond] for begin, end in places]
        return [*self._ranges]
