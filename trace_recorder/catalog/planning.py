"""Which runs of a directory match a query as far as an index knows, and which have to be read for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from sqlite3 import DatabaseError
from typing import NamedTuple

from trace_recorder.catalog import index_file
from trace_recorder.catalog.conditions import Condition, condition_of
from trace_recorder.catalog.fact_tables import Kept, KnownFiles
from trace_recorder.catalog.file_states import State, states_of
from trace_recorder.catalog.query import Term
from trace_recorder.storage.run_files import runs_in_directory


class Planned(NamedTuple):
    """A run that may match a query."""

    path: Path
    is_known: bool = False
    """Whether an index knows that the run matches. Otherwise it has to be read for that."""
    kept: str = ""
    """What the index keeps of it."""


class Plan:
    """The runs in and below a directory that may match a query, in the order of `load_all`.

    Of each file the state is compared with that in the index, which is in the directory, or at `index`. Iterating
    raises OSError at the first run if the directory cannot be read.
    """

    def __init__(self, directory: Path, condition: Condition, index: Path | None = None, what: Kept = "row") -> None:
        self.others: Counter[Path] = Counter()
        """How many runs of each directory were passed over so far, because the index knows that they do not match."""
        self._directory = directory
        self._condition = condition
        self._index = index or index_file.index_path(directory)
        self._what: Kept = what

    def __iter__(self) -> Iterator[Planned]:
        known, kept = _known(self._directory, self._condition, self._index, self._what)
        if not known:  # then no file need be looked at
            yield from map(Planned, runs_in_directory(self._directory))
            return
        for name, files, state in states_of(self._directory):
            row = known.get(name)
            if row is None or row[2:] != state:
                yield Planned(files.path)
            elif row[1] in kept:
                yield Planned(files.path, is_known=True, kept=kept[row[1]])
            else:
                self.others[files.place] += 1


def known_runs(
    directory: Path, terms: Sequence[Term] = (), index: Path | None = None, what: Kept = "row"
) -> dict[bytes, tuple[State, str | None]]:
    """Return the state of the files of each run in an index, and the kept text (`what`) of each run that matches."""
    known, kept = _known(directory, condition_of(terms), index or index_file.index_path(directory), what)
    return {name: (row[2:], kept.get(row[1])) for name, row in known.items()}


def _known(
    directory: Path, condition: Condition, index: Path, what: Kept
) -> tuple[dict[bytes, KnownFiles], dict[int, str]]:
    """Return the runs of an index by their names, and what is kept of those that match, by their ids."""
    with index_file.reading(index, directory) as tables:
        if tables is None:
            return {}, {}
        try:
            kept = tables.kept(condition, what)
            rows = tables.files(with_host=index_file.is_of_this_host(tables))
            return {row[0]: row for row in rows}, kept
        except DatabaseError:  # it is damaged in spite of its time
            return {}, {}
