"""The state of the files of runs: as they are now, and as they were when an index took them in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trace_recorder.storage.run_files import NO_FILE, RunFiles, run_files

State = tuple[int, int, int, int]
"""The states of the document and the journal of a run: when each changed, in nanoseconds, and its size in bytes."""


def states_of(directory: Path) -> Iterator[tuple[bytes, RunFiles, State]]:
    """Yield the runs in and below a directory: the name of each in the index, its files, and their state.

    The name is the path from the directory.
    """
    start = len(os.fsencode(directory / "_")) - 1
    place, prefix = None, b""
    for found in run_files(directory):
        if found.place is not place:
            place, prefix = found.place, os.fsencode(found.place / "_")[start:-1]
        document = journal = NO_FILE
        try:
            if found.entry is not None:
                stat = found.entry.stat()
                document = stat.st_mtime_ns, stat.st_size
            if found.journal is not None:
                stat = found.journal.stat()
                journal = stat.st_mtime_ns, stat.st_size
        except OSError:  # a file that is gone has no state, and is read to say why
            pass
        yield prefix + os.fsencode(found.name), found, (*document, *journal)
