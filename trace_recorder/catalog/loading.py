"""Loading many runs: all of a directory, or those that match a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from trace_recorder.catalog.conditions import condition_of
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.planning import Plan, Planned
from trace_recorder.catalog.query import parse_query
from trace_recorder.imports.many_runs import Runs
from trace_recorder.storage.run_files import runs_in_directory
from trace_recorder.values.trajectory import Trajectory


def load_all(path: str | Path, *, where: str | None = None, strict: bool = True) -> Runs:
    """Return an iterator over the runs in a directory and those below it; one run is in memory at a time.

    The runs of each directory come in the order of their names, then those of the directories in it.
    Of a file, such as a log or a database of another tool, it has all runs (docs/import.md). A file that is no run does
    not stop the others. At the end, UnreadableRunsError names all such files; with `strict=False` they are in the
    iterator's `failures` alone. `where` is a query (docs/many-runs.md): only runs that match it are returned. If the
    directory has an index, runs that did not change since and do not match are not read.
    Raises OSError if the directory cannot be read, and QueryError.
    """
    path = Path(path)
    paths = iter([path]) if path.is_file() else runs_in_directory(path)
    if where is None:
        return Runs(paths, strict, _path=path)
    selection = _Selection(where)
    planned = map(Planned, paths) if path.is_file() else Plan(path, condition_of(selection.terms))
    return Runs(selection.candidates(planned), strict, selection, _path=path)


class _Selection:
    """Which runs match a query. A run that the index knows to match is not asked again."""

    def __init__(self, query: str) -> None:
        self.terms = parse_query(query)
        self._matches = Matcher(self.terms)
        self._is_known = False

    def candidates(self, planned: Iterable[Planned]) -> Iterator[Path]:
        """Yield the files that may have a run that matches."""
        for one in planned:
            self._is_known = one.is_known
            yield one.path

    def __call__(self, run: Trajectory) -> bool:
        return self._is_known or self._matches(run)
