"""Decides with the help of an index which runs of a directory match a query, and which runs have to be read.

A run has to be read if the state of its files differs from the state in the index.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from sqlite3 import DatabaseError
from typing import NamedTuple, TypeVar

from trace_recorder.catalog import index_file
from trace_recorder.catalog.query import Condition, Term, condition_of
from trace_recorder.catalog.searched_values import Counted, Single
from trace_recorder.catalog.selection import ALL_RUNS, OrderKey, Selection, order_key
from trace_recorder.catalog.value_tables import FactTables, FilesState, KeptPart, KeptParts, KnownRun
from trace_recorder.storage.run_files import NO_FILE, RunFiles, run_files

T = TypeVar("T")


class RunOnDisk(NamedTuple):
    """A run in a directory: its name in the index, its files, and the state of its files.

    The name is the path relative to the directory, as bytes.
    """

    name: bytes
    files: RunFiles
    state: FilesState


def runs_on_disk(directory: Path, *, recursive: bool = True) -> Iterator[RunOnDisk]:
    """Yield the runs in a directory. If `recursive` is True, also yield the runs below it."""
    start = len(os.fsencode(directory / "_")) - 1
    for run in run_files(directory, recursive=recursive):
        document = journal = NO_FILE
        try:
            if run.entry is not None:
                stat = run.entry.stat()
                document = stat.st_mtime_ns, stat.st_size
            if run.journal is not None:
                stat = run.journal.stat()
                journal = stat.st_mtime_ns, stat.st_size
        except OSError:  # the file is gone; the error is reported when the run is read
            pass
        yield RunOnDisk(os.fsencode(run.file)[start:], run, FilesState(*document, *journal))


class Planned(NamedTuple):
    """A run that may match a query. `file` is its path."""

    file: str
    known: Known | None = None
    """The run in an index, according to which it matches. If this is None, the run has to be read."""

    @property
    def path(self) -> Path:
        """The path of the run."""
        return Path(self.file)

    @property
    def is_known(self) -> bool:
        """Whether the run matches according to an index. Otherwise the run has to be read."""
        return self.known is not None


class Known(NamedTuple):
    """A run in an index: its name there, the state of its files, and the values that the caller of `plan` asked for."""

    plan: Plan
    name: bytes
    state: FilesState
    values: tuple[Single, ...]


class Plan:
    """The runs in and below a directory that may match a query, in the order of `load_all`.

    If the condition is None, these are all runs, and no index is read. If `recursive` is False, the runs below the
    directory are left out. The state of each run's files is compared with the state in the index. The index is in the
    directory, or at `index`. Each known run has the `values` with these names, which are some of `SINGLE`. The
    iteration raises OSError at its start if the directory cannot be read.

    If `selection` has a limit, `values` begin with its `key_values`. Then the known runs are the last ones, and those
    that cannot be among the first runs of the selection are left out.
    """

    def __init__(
        self,
        directory: Path,
        condition: Condition | None,
        index: Path | None = None,
        values: Sequence[str] = (),
        *,
        recursive: bool = True,
        selection: Selection = ALL_RUNS,
    ) -> None:
        self.others: Counter[Path] = Counter()
        """How many runs of each directory the iteration has left out so far, because they are not selected."""
        self.directory = directory
        self.index = index
        self._condition = condition
        self._values = values
        self._recursive = recursive
        self._selection = selection

    def __iter__(self) -> Iterator[Planned]:
        known, matching = self._known()
        if not known:  # there are no states to compare with
            yield from (Planned(run.file) for run in run_files(self.directory, recursive=self._recursive))
            return
        limited: list[Planned] = []
        places: Counter[Path] = Counter()
        has_links = False
        for name, files, state in runs_on_disk(self.directory, recursive=self._recursive):
            row = known.pop(name, None)
            if row is None or row.state != state:
                yield Planned(files.file)
            elif row.run not in matching:
                self.others[files.place] += 1
            elif self._selection.limit is None:
                yield Planned(files.file, Known(self, name, row.state, matching.pop(row.run)))
            else:
                limited.append(Planned(files.file, Known(self, name, row.state, matching.pop(row.run))))
                places[files.place] += 1
                has_links = has_links or files.has_linked_journal
        if not has_links:  # two paths may lead to one run, of which the caller drops one
            limited = self._selection.in_order(limited, _key_of)
            self.others += places - Counter(run.path.parent for run in limited)
        yield from limited

    def _known(self) -> tuple[dict[bytes, KnownRun], dict[int, tuple[Single, ...]]]:
        """Return the runs of the index by name, and the values of those that match, by the id of the run."""
        condition = self._condition
        if condition is None:
            return {}, {}
        return _read_index(self.directory, self.index, lambda tables: tables.values(condition, self._values))


def _key_of(run: Planned) -> OrderKey:
    values: tuple[Single, ...] = ()
    if run.known is not None:
        values = run.known.values
    return order_key(values, run.file)


_RUNS_AT_ONCE = 1000
"""The parts of this many runs are read together. They are in memory together."""


def with_parts(runs: Iterable[Planned], parts: Sequence[KeptPart]) -> Iterator[tuple[Planned, KeptParts | None]]:
    """Yield each run with these parts from its index, or with None if the run has to be read.

    An index may be updated after the runs were planned, so a run's parts are taken only if they belong to the planned
    state of its files. Between two groups of runs, the index is closed: a caller may be slow, and an indexer must not
    wait for it.
    """
    remaining = iter(runs)
    while group := [*islice(remaining, _RUNS_AT_ONCE)]:
        kept: dict[tuple[Plan, bytes], KeptParts] = {}
        states = {(run.known.plan, run.known.name): run.known.state for run in group if run.known and parts}
        for plan in {plan for plan, _ in states}:
            names = {name: state for (of, name), state in states.items() if of is plan}
            for name, texts in known_values(plan.directory, plan.index, names, parts).items():
                kept[plan, name] = dict(zip(parts, map(str, texts), strict=True))
        for run in group:
            if run.known is None:
                yield run, None
            else:
                yield run, kept.get((run.known.plan, run.known.name))


def known_values(
    directory: Path, index: Path | None, states: Mapping[bytes, FilesState], wanted: Sequence[str]
) -> dict[bytes, list[Single]]:
    """Return these values and parts of the runs that an index has in these states, by the names of the runs."""
    with index_file.reading(index or index_file.index_path(directory), directory) as tables:
        if tables is None:
            return {}
        try:
            found = tables.of_names([*states], wanted)
            return {run.name: values for run, values in found if states[run.name] == run.state}
        except DatabaseError:  # SQLite found damage, although the file's modification time is right
            return {}


def known_states(directory: Path, index: Path | None = None) -> dict[bytes, FilesState]:
    """Return the states of the files of the runs in an index, by the names of the runs."""
    known, _ = _read_index(directory, index, lambda _: {})
    return {name: run.state for name, run in known.items()}


def known_runs(
    directory: Path, terms: Sequence[Term] = (), index: Path | None = None, part: KeptPart = "row"
) -> dict[bytes, tuple[FilesState, str | None]]:
    """Return the runs of an index by name: the state of a run's files, and the stored part `part` of the run as JSON.

    The part is None if the run does not match `terms`.
    """
    condition = condition_of(terms)
    known, kept = _read_index(directory, index, lambda tables: tables.kept(condition, [part]))
    return {name: (row.state, kept.get(row.run, {}).get(part)) for name, row in known.items()}


def known_counted(
    directory: Path, terms: Sequence[Term] = (), index: Path | None = None
) -> dict[bytes, tuple[FilesState, Counted | None]]:
    """Return the runs of an index by name: the state of a run's files, and the values by which a search counts it.

    The values are None if the run does not match `terms`.
    """
    condition = condition_of(terms)
    known, counted = _read_index(directory, index, lambda tables: tables.counted(condition))
    return {name: (row.state, counted.get(row.run)) for name, row in known.items()}


def _read_index(
    directory: Path, index: Path | None, read: Callable[[FactTables], dict[int, T]]
) -> tuple[dict[bytes, KnownRun], dict[int, T]]:
    """Return the runs of an index by name, and what `read` returns, by the id of the run.

    Without an index, both are empty.
    """
    with index_file.reading(index or index_file.index_path(directory), directory) as tables:
        if tables is None:
            return {}, {}
        try:
            found = read(tables)
            rows = tables.files(with_host=index_file.is_of_this_host(tables))
            return {row.name: row for row in rows}, found
        except (DatabaseError, zlib.error, ValueError):  # as above
            return {}, {}
