"""The difference between two prompts, as lists of message numbers: what is to be removed and inserted, and where.

The lists share most of their numbers. Stretches that are equal are compared as arrays, and single changes between them
are tried first, so that a request with a new clock or a shortened result costs little. What is left is aligned by the
longest sequence of numbers that both have in the same order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count, pairwise, repeat
from operator import ne, sub
from typing import NamedTuple, TypeAlias, TypeVar

MAX_SMALL_CHANGE = 8
"""The longest change that is looked for number by number."""

Numbers: TypeAlias = "array[int]"
Ranges = list[list[int]]
Sliced = TypeVar("Sliced", "array[int]", str)


class Change(NamedTuple):
    """At a position of the old list, so many numbers are removed, and these inserted."""

    position: int
    removed: int
    inserted: Numbers


def changes_between(old: Numbers, new: Numbers) -> list[Change]:
    """Return the changes that make the new list of the old one, in the order of their positions."""
    found: list[Change] = []
    at_old = at_new = 0
    while True:
        same = equal_length(old, at_old, new, at_new)
        at_old, at_new = at_old + same, at_new + same
        if at_old == len(old) or at_new == len(new):
            break
        step = _small_change(old, at_old, new, at_new)
        if step is None:
            found += _aligned(old, at_old, new, at_new)
            return _joined(found)
        found.append(Change(at_old, step[0], new[at_new : at_new + step[1]]))
        at_old, at_new = at_old + step[0], at_new + step[1]
    if at_old < len(old) or at_new < len(new):
        found.append(Change(at_old, len(old) - at_old, new[at_new:]))
    return _joined(found)


def equal_length(old: Sliced, at_old: int, new: Sliced, at_new: int) -> int:
    """Return the length for which two lists of numbers, or two texts, are equal from two positions on."""

    def is_equal(start: int, size: int) -> bool:
        one, other = at_old + start, at_new + start
        return old[one : one + size] == new[other : other + size]

    left = min(len(old) - at_old, len(new) - at_new)
    done, size = 0, 16
    while done < left and is_equal(done, size):
        done, size = done + size, size * 2
    while done < left and (size := size // 2):
        if is_equal(done, size):
            done += size
    return min(done, left)


def _small_change(old: Numbers, at_old: int, new: Numbers, at_new: int) -> tuple[int, int] | None:
    """Return how many numbers to skip in each list so that they go on alike; None where that is not near."""
    for removed, inserted in _SMALL_CHANGES:
        one, other = at_old + removed, at_new + inserted
        if one < len(old) and other < len(new) and old[one : one + 2] == new[other : other + 2]:
            return removed, inserted
    return None


_SMALL_CHANGES = sorted(
    ((removed, inserted) for removed in range(MAX_SMALL_CHANGE + 1) for inserted in range(MAX_SMALL_CHANGE + 1)),
    key=lambda change: (sum(change), abs(change[0] - change[1])),
)[1:]
"""How many numbers are removed and inserted: the least first, and first as many removed as inserted."""


def _aligned(old: Numbers, at_old: int, new: Numbers, at_new: int) -> Iterator[Change]:
    """Yield the changes from two positions on, by the longest common sequence of numbers that occur once."""
    one, other = at_old, at_new
    for kept_old, kept_new in [*_common(old, at_old, new, at_new), (len(old), len(new))]:
        if kept_old > one or kept_new > other:
            yield Change(one, kept_old - one, new[other:kept_new])
        one, other = kept_old + 1, kept_new + 1


def _common(old: Numbers, at_old: int, new: Numbers, at_new: int) -> list[tuple[int, int]]:
    """Return the positions of numbers that stay, increasing in both lists. Of repeated numbers, one is considered."""
    positions = {number: place for place, number in enumerate(old[at_old:], at_old)}
    ends: list[int] = []
    last: list[int] = []
    pairs: list[tuple[int, int, int]] = []  # a position in each list, and the index of the pair before
    for at, number in enumerate(new[at_new:], at_new):
        place = positions.get(number)
        if place is None:
            continue
        length = bisect_left(ends, place)
        if length == len(ends):
            ends.append(place)
            last.append(-1)
        pairs.append((place, at, last[length - 1] if length else -1))
        ends[length], last[length] = place, len(pairs) - 1
    found: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        place, position, at = pairs[at]
        found.append((place, position))
    return found[::-1]


def _joined(found: Iterable[Change]) -> list[Change]:
    """Join changes that follow each other without a number between them."""
    joined: list[Change] = []
    for change in found:
        if joined and joined[-1].position + joined[-1].removed == change.position:
            before = joined.pop()
            change = Change(before.position, before.removed + change.removed, before.inserted + change.inserted)  # noqa: PLW2901 - it takes its place
        joined.append(change)
    return joined


def applied(numbers: Numbers, changes: Iterable[Change]) -> Numbers:
    """Return a list with changes applied to it."""
    made = numbers[:]
    for change in reversed([*changes]):
        made[change.position : change.position + change.removed] = change.inserted
    return made


def ranges_of(numbers: Sequence[int]) -> Ranges:
    """Return numbers as inclusive ranges, in their order. Python's own loop only goes over the ranges."""
    steps = map(sub, numbers[1:], numbers)
    begins = [*compress(count(1), map(ne, steps, repeat(1)))]
    return [[numbers[begin], numbers[end - 1]] for begin, end in pairwise([0, *begins, len(numbers)]) if end]
