"""Deletes runs: their rows in tables, their entries in indexes, then their files.

The order makes a kill at any moment harmless. What is derived goes first, so a run that is gone has left no text in the
tables and the index. Of the files, the journal goes last, because it is the truth: until then, the run can be read as a
whole, and `recover` writes its document again. Repeating the command completes the work.

While the files go, this process holds the lock of the run's writer. So nobody adds records to a run that goes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from functools import lru_cache, partial
from pathlib import Path

from trace_recorder.catalog.index import RunIndex
from trace_recorder.errors import RecorderStateError
from trace_recorder.guard import try_call
from trace_recorder.retention.stored_runs import StoredRun
from trace_recorder.storage.file_system import hold_lock, sync_directory
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.run_files import journal_name, real_journal
from trace_recorder.tables.rewritten_rows import RowsChange, RunInTables, rewrite_rows, without_rows


def remove_runs(
    runs: Sequence[StoredRun], indexes: Sequence[RunIndex], tables: Collection[Path]
) -> dict[Path, Exception]:
    """Delete runs, and return why files could not be deleted or written.

    Raises OSError and MissingExtraError if the tables or the indexes cannot be written. Then no run is deleted.
    """
    in_tables = {RunInTables(run.trajectory_id, journal_name(run.path.name)) for run in runs}
    rewrite_rows(tables, RowsChange(lambda run, _: run in in_tables, without_rows))
    real_directory = lru_cache(maxsize=1000)(os.path.realpath)
    journals = {real_journal(run.path, real_directory) for run in runs}
    for index in indexes:
        index.forget(journals)
    failures: dict[Path, Exception] = {}
    for run in runs:
        try_call(_remove_files, partial(failures.__setitem__, run.path), run)
    for place in {run.path.parent for run in runs}:
        with suppress(OSError):  # the files are gone; only a loss of power could bring them back
            sync_directory(place)
    for index in indexes:  # an indexer may have read a run before its files were gone
        try_call(index.forget, partial(failures.__setitem__, index.path))
    return failures


def _remove_files(run: StoredRun) -> None:
    """Delete the files of a run, the journal last. Raises OSError, and RecorderStateError if the run has changed."""
    journal = journal_path_for(run.path)
    with hold_lock(journal) if journal.exists() else nullcontext(True) as is_free:
        if not is_free:
            raise RecorderStateError(f"{run.path} stays, because another process writes it.")
        if not run.is_unchanged():
            raise RecorderStateError(f"{run.path} stays, because it has changed since it was selected. Try again.")
        for file in (*run.temporary, *run.files):
            file.path.unlink(missing_ok=True)
