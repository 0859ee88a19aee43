"""How much the tests try that compare random cases: a part in CI, which is the same each time, or all in a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

IS_SEARCH = settings().max_examples > 100


def part_of(cases: Sequence[T], steps: int = 2, begin: int = 0) -> Sequence[T]:
    """Return each case of which there are `steps` in CI, from `begin` on, or all cases in a search."""
    if IS_SEARCH:
        return cases
    return cases[begin::steps]


def covering(cases: Sequence[T], kinds: Callable[[T], Collection[Hashable]], times: int = 1) -> Sequence[T]:
    """Return the first cases of each kind in CI, this many of them, or all cases in a search.

    A case has several kinds, and is left out if there are enough earlier cases of each of its kinds.
    """
    if IS_SEARCH:
        return cases
    seen: Counter[Hashable] = Counter()
    chosen = []
    for case in cases:
        found = {kind for kind in kinds(case) if seen[kind] < times}
        if found:
            seen.update(kinds(case))
            chosen.append(case)
    return chosen


def seeds(of_ci: int, of_search: int) -> range:
    """Return the seeds of the random cases to try."""
    return range(of_search if IS_SEARCH else of_ci)
