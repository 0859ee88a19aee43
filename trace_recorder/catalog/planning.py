"""Decides with the help of an index which runs of a directory match a query, and which runs have to be read.

A run has to be read if the state of its files differs from the state in the index.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from sqlite3 import DatabaseError
from types import MappingProxyType
from typing import NamedTuple

from trace_recorder.catalog import index_file
from trace_recorder.catalog.query import Condition, Term, condition_of
from trace_recorder.catalog.value_tables import FilesState, KeptPart, KeptParts, KnownRun
from trace_recorder.storage.run_files import NO_FILE, RunFiles, run_files, runs_in_directory


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
    place, prefix = None, b""
    for run in run_files(directory, recursive=recursive):
        if run.place is not place:
            place, prefix = run.place, os.fsencode(run.place / "_")[start:-1]
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
        yield RunOnDisk(prefix + os.fsencode(run.name), run, FilesState(*document, *journal))


class Planned(NamedTuple):
    """A run that may match a query."""

    path: Path
    is_known: bool = False
    """Whether the run matches according to the index. Otherwise the run has to be read."""
    kept: KeptParts = MappingProxyType({})
    """The stored parts of the run that the caller asked for."""


class Plan:
    """The runs in and below a directory that may match a query, in the order of `load_all`.

    If `recursive` is False, the runs below the directory are left out. The state of each run's files is compared with
    the state in the index. The index is in the directory, or at `index`. The iteration raises OSError at
    its start if the directory cannot be read.
    """

    def __init__(
        self,
        directory: Path,
        condition: Condition,
        index: Path | None = None,
        parts: Sequence[KeptPart] = (),
        *,
        recursive: bool = True,
    ) -> None:
        self.others: Counter[Path] = Counter()
        """How many runs of each directory the iteration has left out so far, because they do not match the query."""
        self._directory = directory
        self._condition = condition
        self._index = index or index_file.index_path(directory)
        self._parts = parts
        self._recursive = recursive

    def __iter__(self) -> Iterator[Planned]:
        known, kept = _known(self._directory, self._condition, self._index, self._parts)
        if not known:  # without an index, there are no states to compare with
            yield from map(Planned, runs_in_directory(self._directory, recursive=self._recursive))
            return
        for name, files, state in runs_on_disk(self._directory, recursive=self._recursive):
            row = known.get(name)
            if row is None or row.state != state:
                yield Planned(files.path)
            elif row.run in kept:
                yield Planned(files.path, is_known=True, kept=kept[row.run])
            else:
                self.others[files.place] += 1


def known_runs(
    directory: Path, terms: Sequence[Term] = (), index: Path | None = None, part: KeptPart = "row"
) -> dict[bytes, tuple[FilesState, str | None]]:
    """Return the runs of an index by name: the state of a run's files, and the stored part `part` of the run as JSON.

    The part is None if the run does not match `terms`.
    """
    known, kept = _known(directory, condition_of(terms), index or index_file.index_path(directory), [part])
    return {name: (row.state, kept.get(row.run, {}).get(part)) for name, row in known.items()}


def _known(
    directory: Path, condition: Condition, index: Path, parts: Sequence[KeptPart]
) -> tuple[dict[bytes, KnownRun], dict[int, KeptParts]]:
    """Return the runs of an index by name, and the stored parts of each matching run by the id of the run."""
    with index_file.reading(index, directory) as tables:
        if tables is None:
            return {}, {}
        try:
            kept = tables.kept(condition, parts)
            rows = tables.files(with_host=index_file.is_of_this_host(tables))
            return {row.name: row for row in rows}, kept
        except (
            DatabaseError,
            zlib.error,
            ValueError,
        ):  # there is damage, although the file's modification time is right
            return {}, {}
