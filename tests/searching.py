"""How much the tests try that compare random cases: a part in CI, which is the same each time, or all in a search."""

from __future__ import annotations

from hypothesis import settings

IS_SEARCH = settings().max_examples > 100


def seeds(of_ci: int, of_search: int) -> range:
    """Return the seeds of the random cases to try."""
    return range(of_search if IS_SEARCH else of_ci)
