"""Lists of numbers as ranges, for answers and exports that name the messages of every prompt of a run.

A prompt usually begins as the prompt before it. So only the numbers after that beginning are divided into ranges, and
the work for a prompt does not grow with the length of the conversation.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import pairwise

from trace_recorder.values.prompt_comparison import Numbers, Ranges, equal_length, range_begins


class RangeDivider:
    """Divides lists of numbers into inclusive ranges, in their order: 3, 4, 5, 9 become [[3, 5], [9, 9]]."""

    def __init__(self) -> None:
        self._numbers: Numbers = array("q")
        self._begins: list[int] = []
        """The positions in the newest list at which its ranges begin."""

    def of(self, numbers: Numbers) -> Ranges:
        """Return the ranges of a list."""
        equal = equal_length(self._numbers, 0, numbers, 0)
        del self._begins[bisect_left(self._begins, equal) :]
        start = max(0, equal - 1)  # the first other number may continue the range of the last equal number
        begins = (start + place for place in range_begins(numbers[start:]))
        self._begins.extend(begin for begin in begins if begin >= equal)
        self._numbers = numbers
        return [[numbers[begin], numbers[end - 1]] for begin, end in pairwise([*self._begins, len(numbers)])]
