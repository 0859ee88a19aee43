"""How much the tests try that compare random cases: a part in CI, which is the same each time, or all in a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

IS_SEARCH = settings().max_examples > 100


def part_of(cases: Sequence[T], steps: int = 2, begin: int = 0) -> Sequence[T]:
    """Return each case of which there are `steps` in CI, from `begin` on, or all cases in a search."""
    if IS_SEARCH:
        return cases
    return cases[begin::steps]


def seeds(of_ci: int, of_search: int) -> range:
    """Return the seeds of the random cases to try."""
    return range(of_search if IS_SEARCH else of_ci)
