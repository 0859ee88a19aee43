"""Load many runs: all runs of a directory, or the runs that match a query.

`Matcher` decides whether one loaded run matches. It puts the facts of the run into tables in memory, and runs the same
SQL as an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from trace_recorder.catalog.conditions import condition_of
from trace_recorder.catalog.fact_tables import FactTables
from trace_recorder.catalog.facts import facts_of
from trace_recorder.catalog.planning import Plan, Planned
from trace_recorder.catalog.query import Term, parse_query
from trace_recorder.imports.loader import Runs
from trace_recorder.storage.run_files import runs_in_directory
from trace_recorder.values.trajectory import Trajectory


class Matcher:
    """Compares runs with the terms of a query, one after another."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self._condition = condition_of(terms)
        self._tables: FactTables | None = None
        self.needs_calls = self._condition.needs_calls
        """Whether the calls of a run are needed. If not, a run read from the ends of its document is enough."""

    def __call__(self, run: Trajectory) -> bool:
        """Return whether a run matches all terms. Only the needed parts of the run are read."""
        if self._tables is None:
            self._tables = FactTables.in_memory()
        facts = facts_of(run, with_texts=self._condition.needs_texts)
        try:
            self._tables.add(facts)
            return next(self._tables.matching(self._condition), None) is not None
        finally:
            self._tables.clear()


def load_all(path: str | Path, *, where: str | None = None, strict: bool = True) -> Runs:
    """Return an iterator over the runs in and below a directory. One run is in memory at a time.

    The runs of each directory come in the order of their names, then those of the directories in it. If a file has
    several runs, such as a log or a database of another tool, all are returned (docs/import.md). A file that is not a
    run does not stop the others. At the end, UnreadableRunsError names all such files; with `strict=False` they are in
    the iterator's `failures` alone. `where` is a query (docs/many-runs.md): only runs that match it are returned. If
    the directory has an index, only runs that match or that changed after they were indexed are read. Raises OSError if
    the directory cannot be read, and QueryError.
    """
    path = Path(path)
    paths = iter([path]) if path.is_file() else runs_in_directory(path)
    if where is None:
        return Runs(paths, strict, _path=path)
    selection = _Selection(where)
    planned = map(Planned, paths) if path.is_file() else Plan(path, condition_of(selection.terms))
    return Runs(selection.candidates(planned), strict, selection, _path=path)


class _Selection:
    """Selects the runs that match a query. A run that matches by the index is not compared again."""

    def __init__(self, query: str) -> None:
        self.terms = parse_query(query)
        self._matches = Matcher(self.terms)
        self._is_known = False

    def candidates(self, planned: Iterable[Planned]) -> Iterator[Path]:
        """Yield the files that may have a matching run."""
        for one in planned:
            self._is_known = one.is_known
            yield one.path

    def __call__(self, run: Trajectory) -> bool:
        return self._is_known or self._matches(run)
