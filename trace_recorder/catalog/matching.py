"""Whether one run matches a query: its facts are put into tables in memory, and asked there as an index is."""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.catalog.conditions import condition_of
from trace_recorder.catalog.fact_tables import FactTables
from trace_recorder.catalog.facts import facts_of
from trace_recorder.catalog.query import Term
from trace_recorder.values.trajectory import Trajectory


class Matcher:
    """Compares runs with the terms of a query, one after another."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self._condition = condition_of(terms)
        self._tables: FactTables | None = None
        self.needs_calls = self._condition.needs_calls
        """Whether the calls of a run are read; otherwise it may be one without them, as in the ends of a document."""

    def __call__(self, run: Trajectory) -> bool:
        """Whether a run matches all terms. The run is read as far as that needs."""
        if self._tables is None:
            self._tables = FactTables.in_memory()
        facts = facts_of(run, with_texts=self._condition.needs_texts)
        try:
            self._tables.add(facts)
            return next(self._tables.matching(self._condition), None) is not None
        finally:
            self._tables.clear()
