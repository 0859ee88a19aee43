"""Where two sequences differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher

MAX_PAIRS = 1_000_000
"""Changed middles of two sequences with more pairs of elements than this are not searched for common parts."""


def changed_ranges(before: Sequence[Hashable], after: Sequence[Hashable]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges in which two sequences differ: start and end in the first, start and end in the second.

    Common beginnings and ends are found in linear time.
    """
    begin = _common_length(before, after)
    end = _common_length(before[begin:][::-1], after[begin:][::-1])
    removed, added = before[begin : len(before) - end], after[begin : len(after) - end]
    if removed and added and len(removed) * len(added) <= MAX_PAIRS:
        matcher = SequenceMatcher(None, removed, added, autojunk=False)
        for kind, first, last, now, until in matcher.get_opcodes():
            if kind != "equal":
                yield begin + first, begin + last, begin + now, begin + until
    elif removed or added:
        yield begin, len(before) - end, begin, len(after) - end


def _common_length(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return how many elements at the beginning of two sequences are equal."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)
