"""Which runs of a directory match a query as far as an index knows, and which have to be read for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import DatabaseError

from trace_recorder.catalog import index_file
from trace_recorder.catalog.conditions import condition_of
from trace_recorder.catalog.fact_tables import Kept
from trace_recorder.catalog.file_states import State, kept_files, states_of
from trace_recorder.catalog.query import Term
from trace_recorder.storage.run_files import runs_in_directory


@dataclass(frozen=True, slots=True)
class Planned:
    """A run: whether it matches, or None if it must be read for that; and what the index keeps of one that does."""

    path: Path
    matches: bool | None = None
    kept: str | None = None


def plan(
    directory: Path, terms: Sequence[Term] = (), index: Path | None = None, what: Kept = "row"
) -> Iterator[Planned]:
    """Yield the runs in and below a directory, in the order of `load_all`, with what an index keeps of them.

    Of each file the state is compared with that in the index: in the directory, or at `index`. Raises OSError at the
    first run if the directory cannot be read.
    """
    known = known_runs(directory, terms, index, what)
    if not known:  # then no file need be looked at
        yield from map(Planned, runs_in_directory(directory))
        return
    for name, path, state in states_of(directory):
        kept = known.get(name)
        if kept is None or kept[0] != state:
            yield Planned(path)
        else:
            yield Planned(path, kept[1] is not None, kept[1])


def known_runs(
    directory: Path, terms: Sequence[Term] = (), index: Path | None = None, what: Kept = "row"
) -> dict[bytes, tuple[State, str | None]]:
    """Return the runs of an index by their names: the state of the files, and what is kept of those that match."""
    with index_file.reading(index or index_file.index_path(directory), directory) as tables:
        if tables is None:
            return {}
        try:
            kept = tables.kept(condition_of(terms), what)
            is_of_this_host = index_file.is_of_this_host(tables)
            return {
                name: (state, kept.get(run))
                for run, name, state, is_of_host in kept_files(tables)
                if is_of_this_host or not is_of_host
            }
        except DatabaseError:  # it is damaged in spite of its time
            return {}
