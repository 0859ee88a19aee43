"""Finds the runs that match a query: loaded runs (`Matcher`), runs in files (`load_all`), or changing runs (`Search`).

`Matcher` decides whether one loaded run matches. It puts the values of the run into tables in memory, and runs the same
SQL there as on an index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trace_recorder.catalog.planning import Plan, Planned
from trace_recorder.catalog.query import Term, condition_of, parse_query
from trace_recorder.catalog.run_values import values_of
from trace_recorder.catalog.searched_values import COUNTED, Counted
from trace_recorder.catalog.value_tables import FactTables, FilesState
from trace_recorder.formats.any_file import Runs
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.local_copies import copied_ahead
from trace_recorder.storage.run_files import runs_in_directory
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory


class Matcher:
    """Decides whether a run matches all terms of a query, for one run after another."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self._condition = condition_of(terms)
        self._tables: FactTables | None = None
        self.needs_calls = self._condition.needs_calls
        """Whether the calls of a run are needed.

        If False, the beginning and the end of the run's document are enough.
        """

    def __call__(self, run: Trajectory) -> bool:
        """Return whether a run matches all terms. Only the parts of the run that the terms need are read."""
        if self._tables is None:
            self._tables = FactTables.in_memory(self)
        values = values_of(run, with_texts=self._condition.needs_texts)
        try:
            self._tables.add(values)
            return next(self._tables.matching(self._condition), None) is not None
        finally:
            self._tables.clear()


def load_all(path: str | Path, *, where: str | None = None, strict: bool = True) -> Runs:
    """Return an iterator over the runs in and below a directory or an address. One run is in memory at a time.

    The runs of each directory come in the order of their names, before the runs of its subdirectories. If a file has
    several runs, such as a log or a database of another tool, all of them are returned (docs/import.md). A file that
    cannot be read does not stop the iteration. At the end, UnreadableRunsError names all such files. If `strict` is
    False, no such error is raised, and the iterator's `failures` has the files. `where` is a query (docs/many-runs.md):
    only matching runs are returned. If the directory has an index, only runs that match, or that changed after they
    were indexed, are read. Raises OSError if the directory cannot be read, and QueryError if the query is wrong.

    Examples:
        >>> [run.task for run in load_all("trajectories", where="task:again calls>0")]
        ['count the files again']
    """
    path = Path(path)
    url = remote_address(path)
    has_no_index = url is not None or path.is_file()
    paths = iter([path])
    if url is not None:
        from trace_recorder.storage.remote_files import remote_runs  # noqa: PLC0415 - few paths are addresses

        paths = copied_ahead(remote_runs(url))
    elif not has_no_index:
        paths = runs_in_directory(path)  # this raises OSError, even if a plan finds the runs
    if where is None:
        return Runs(paths, strict, _path=path)
    selection = _Selection(where)
    planned: Iterable[Planned] = (Planned(str(run)) for run in paths)
    if not has_no_index:
        planned = Plan(path, condition_of(selection.terms))
    return Runs(selection.candidates(planned), strict, selection, _path=path)


class _Selection:
    """Selects the runs that match a query.

    If a run matches according to the index, its values are not compared again.
    """

    def __init__(self, query: str) -> None:
        self.terms = parse_query(query)
        self._matches = Matcher(self.terms)
        self._is_known = False

    def candidates(self, planned: Iterable[Planned]) -> Iterator[Path]:
        """Yield the files that may have a matching run."""
        for run in planned:
            self._is_known = run.is_known
            yield run.path

    def __call__(self, run: Trajectory) -> bool:
        return self._is_known or self._matches(run)


RunState = tuple[FilesState, Payload]
"""The state of a run's files, and the status of the run. The status may change without a change of the files."""
KnownRuns = Mapping[str, tuple[FilesState, Counted | None]]
"""The runs of an index by name: the state of the files, and the counted values.

A run that does not match has None.
"""


class Search:
    """A search over runs that change.

    It has the matching runs, and how many of them have each status, model, tool and reward.

    The caller calls `follow` again and again with the current runs and the states of their files. If an index has a run
    with the same state, the run is not read. The caller reads each other run with `counted_in`, and passes the result
    to `take`. So the search can stop after any run and continue later. A file that cannot be read or that has several
    runs does not match.

    The caller chooses the names of the runs. `known` has the runs of an index. Only one thread at a time may use a
    search.
    """

    def __init__(self, terms: tuple[Term, ...], known: KnownRuns) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.waiting: dict[str, RunState] = {}
        """The runs that have to be read."""
        self.matches: dict[str, Counted] = {}
        """The counted values of each run that matches, by the name of the run."""
        self._known = known
        self._matches = Matcher(terms)
        self._searched: dict[str, RunState] = {}

    def follow(self, states: Mapping[str, RunState]) -> bool:
        """Take the current runs.

        Afterwards, `waiting` has the runs that must be read. Return whether `matches` changed.
        """
        is_changed = False
        for name in self._searched.keys() - states.keys():
            is_changed |= self._set(name, None)
            del self._searched[name]
        self.waiting = {}
        for name, state in states.items():
            if self._searched.get(name) == state:
                continue
            known = self._known.get(name)
            if known is not None and known[0] == state[0]:
                self._searched[name] = state
                is_changed |= self._set(name, known[1])
            else:
                self.waiting[name] = state
        return is_changed

    def counted_in(self, path: Path) -> Counted | None:
        """Read a run, and return its counted values. Return None if the run does not match."""
        runs = [*Runs(iter([path]), strict=False, select=self._matches)]
        if len(runs) != 1:
            return None
        return values_of(runs[0], with_texts=False).counted

    def take(self, name: str, counted: Counted | None) -> bool:
        """Take the counted values of a run that was read, or None if the run does not match.

        Return whether `matches` changed.
        """
        self._searched[name] = self.waiting.pop(name)
        return self._set(name, counted)

    def counts_json(self) -> dict[str, Payload]:
        """Return the counts of each kind as pairs of a value and its count, the most frequent value first."""
        counts = [(key, runs) for key, runs in self.counts.items() if runs]
        ordered = sorted(counts, key=lambda item: (-item[1], item[0]))
        return {kind: [[name, runs] for (of, name), runs in ordered if of == kind] for kind in COUNTED}

    def _set(self, name: str, counted: Counted | None) -> bool:
        before = self.matches.pop(name, None)
        if before is not None:
            self.counts.subtract(before)
        if counted is not None:
            self.matches[name] = counted
            self.counts.update(counted)
        return before != counted
