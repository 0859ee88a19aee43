"""The state of the files of runs: as they are now, and as they were when an index took them in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trace_recorder.catalog.fact_tables import FactTables
from trace_recorder.storage.run_files import NO_FILE, FileState, run_files

State = tuple[int, int, int, int]
"""The states of the document and the journal of a run."""


def states_of(directory: Path) -> Iterator[tuple[bytes, Path, State]]:
    """Yield the runs in and below a directory: the name of each in the index, its path, and the state of its files."""
    start = len(os.fsencode(directory / "_")) - 1
    for found in run_files(directory):
        yield os.fsencode(found.path)[start:], found.path, (*_state(found.entry), *_state(found.journal))


def _state(entry: os.DirEntry[str] | None) -> FileState:
    with suppress(OSError):
        if entry is not None:
            state = entry.stat()
            return state.st_mtime_ns, state.st_size
    return NO_FILE


def kept_files(tables: FactTables) -> Iterator[tuple[int, bytes, State, bool]]:
    """Yield the runs of an index: the id, the name, the state of the files, and whether the status is of a host."""
    for run, name, one, two, three, four, is_of_host in tables.connection.execute("SELECT * FROM files"):
        yield run, name, (one, two, three, four), bool(is_of_host)
