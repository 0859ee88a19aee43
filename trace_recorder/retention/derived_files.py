"""Brings the files that are made from runs up to date after a redaction: indexes of directories, and Parquet tables.

An index is updated: it reads the changed runs again, and SQLite overwrites what it deletes. In a table, only the rows
of the redacted runs change: a new file is written beside the old one, row group by row group, and takes its name. Other
runs that have a removed text are found, and not changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trace_recorder.catalog.index import RunIndex
from trace_recorder.catalog.index_file import index_path
from trace_recorder.catalog.texts import texts_of
from trace_recorder.facts import StartFact
from trace_recorder.formats.any_file import load_each
from trace_recorder.guard import ignore_failures
from trace_recorder.reading.document_ends import document_ends
from trace_recorder.retention import leftovers
from trace_recorder.retention.leftovers import Leftover
from trace_recorder.retention.removed_texts import RemovedTexts
from trace_recorder.storage.atomic_write import create_filled
from trace_recorder.storage.file_system import close_ignoring_errors, directory_lock, sync_directory, sync_file
from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.paths import document_path_for, journal_path_for, temporary_files
from trace_recorder.storage.run_files import runs_in_directory
from trace_recorder.storage.text_edits import TextPlace, apply_edits
from trace_recorder.tables.columns import TABLES
from trace_recorder.tables.frames import load_pyarrow
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:
    import pyarrow

_ID_COLUMNS = ("trajectory_id", "source_id")
_FILE_COLUMNS = ("file", "source_uri")
_TABLE_FILE = re.compile(r".*\.parquet|\.part-.*\.tmp")
"""Matches the names of Parquet files, and of those that an interrupted export left."""
TABLE = "table"
"""The kind of a text in a table. Its path is the name of its column."""


class DerivedFiles:
    """The indexes and tables of redacted runs, and the other runs beside them.

    `directories` are those that the user named. Indexes are in the directories of the runs, in those above, or at
    `index`. Tables are in the directories of the runs and those that the user named, or in `tables`, or below.
    """

    def __init__(
        self,
        runs: Sequence[Path],
        removed: RemovedTexts,
        *,
        directories: Iterable[Path] = (),
        index: Path | None = None,
        tables: Iterable[Path] = (),
    ) -> None:
        self._removed = removed
        self._searched = removed.without_functions()
        self._directories = sorted({*(run.resolve().parent for run in runs), *map(Path.resolve, directories)})
        self._runs = {journal_path_for(run.resolve()) for run in runs}
        self._redacted = _redacted_runs(runs)
        above = {each for directory in self._directories for each in (directory, *directory.parents)}
        self._indexes = [RunIndex(each) for each in sorted(above) if index_path(each).is_file()]
        if index is not None:
            self._indexes += [RunIndex(directory, index) for directory in self._directories[:1]]
        self._tables = table_files([*self._directories, *tables])

    def update(self) -> Iterator[str]:
        """Update the indexes, and change the tables. Yield a sentence for each written file. Raises OSError."""
        for index in self._indexes:
            index.update()
            yield f"{index.path}: updated"
        for path in self._tables:
            cells = redact_table(path, self._removed, self._redacted)
            if cells:
                yield f"{path}: {cells} cells changed"

    def leftovers(self, others: Collection[Path]) -> Iterator[Leftover]:
        """Yield the indexes and tables that still have a text. `others` are other runs that have it. Raises OSError.

        An index may have the text of another run, so it is searched only if there is no such run, and if the text is
        not a part of a word of the format, which every index has.
        """
        in_words = any(text.text in word for text in self._searched.texts for word in format_words())
        if not others and not in_words:
            for index in self._indexes:
                yield from leftovers.in_bytes(index.path, self._searched)
        for path in self._tables:
            if path.is_file() and has_removed_text(path, self._searched, self._redacted):
                yield Leftover(path, "rows of these runs")

    def others(self) -> Iterator[Path]:
        """Yield the other runs in the directories, and the temporary files, that have one of the texts.

        Functions are not asked.
        """
        if not (self._searched.texts or self._searched.patterns):
            return
        for directory in self._directories:
            for path in runs_in_directory(directory):
                if journal_path_for(path.resolve()) not in self._runs and self._has_text(path):
                    yield path
            for path in temporary_files(directory):
                with ignore_failures:  # its process may remove it meanwhile
                    if any(leftovers.in_bytes(path, self._searched)):
                        yield path

    def _has_text(self, run: Path) -> bool:
        """Return whether a run has one of the texts, or a match of a pattern. A file that cannot be read has none."""
        with ignore_failures:
            files = [path for path in dict.fromkeys((run, journal_path_for(run))) if path.is_file()]
            if any(_has_text_in_file(path, self._searched) for path in files):
                return True
            if self._searched.patterns:
                texts = (text for each in load_each(run) for *_, text in texts_of(each))
                return any(self._searched.edits(text, TextPlace("", ())) for text in texts)
        return False


def _has_text_in_file(path: Path, removed: RemovedTexts) -> bool:
    if not any(leftovers.in_bytes(path, removed)):
        return False
    if path.suffix == ".jsonl":
        return any(leftovers.in_journal(path, removed))
    return any(leftovers.in_document(path, removed))


def _ids_of(run: Path) -> set[str]:
    """Return the id of a run, from the first line of its journal, or from its document. Raises OSError."""
    journal = journal_path_for(run)
    if journal.is_file():
        with journal.open("rb") as file:
            first = next(read_records(file.readline()), None)
        if isinstance(first, Record) and isinstance(first.fact, StartFact):
            return {first.fact.trajectory_id}
        return set()
    identity = (document_ends(run) or {}).get("trajectory_id")
    return {identity} if isinstance(identity, str) else set()


def _redacted_runs(runs: Iterable[Path]) -> RedactedRuns:
    """Return the ids and the paths of runs, by which the rows of tables name them."""
    ids: set[str] = set()
    paths: set[str] = set()
    for run in runs:
        ids |= _ids_of(run)
        for path in (run, journal_path_for(run), document_path_for(run)):
            paths |= {str(path), os.path.abspath(path)}  # noqa: PTH100 - `resolve` would follow links
    return RedactedRuns(ids, paths)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class RedactedRuns(NamedTuple):
    """The runs whose rows are changed: their ids, and the absolute paths of their files."""

    ids: Collection[str]
    paths: Collection[str]


def table_files(directories: Iterable[Path]) -> list[Path]:
    """Return the Parquet files of tables in these directories and below them, also those of interrupted exports."""
    files_of_tables: set[Path] = set()
    for directory in directories:
        for place, names, files in os.walk(directory):
            names[:] = [name for name in names if not name.startswith(".")]
            if Path(place).name in TABLES:
                files_of_tables |= {Path(place, name) for name in files if name.endswith(".parquet")}
                files_of_tables |= {
                    Path(place, name) for name in files if name.startswith(".part-") and name.endswith(".tmp")
                }
    return sorted(files_of_tables)


def redact_table(path: Path, removed: RemovedTexts, runs: RedactedRuns) -> int:
    """Remove texts from the rows of runs in a Parquet file. Return how many cells were changed.

    Raises MissingExtraError if pyarrow is not installed, BlockingIOError if an export writes the table, and OSError.
    """
    load_pyarrow()
    with ExitStack() as locks:
        if locks.enter_context(directory_lock(path.parent)) is False:
            raise BlockingIOError(f"{path}: another process writes into its directory")
        if path.name.endswith(".tmp"):  # of an interrupted export, which begins this part again
            path.unlink(missing_ok=True)
            return 0
        if not any(cells for _, cells in _redacted_groups(path, removed, runs)):
            return 0
        cells = 0

        def fill(fd: int) -> None:
            nonlocal cells
            cells = _write_groups(fd, path, removed, runs)

        temporary = path.with_name(f".{path.name}.redacted.tmp")
        temporary.unlink(missing_ok=True)
        fd, _ = create_filled(temporary, fill, lambda filled: filled.replace(path))
        close_ignoring_errors(fd)
        sync_directory(path.parent)
        return cells


def _write_groups(fd: int, path: Path, removed: RemovedTexts, runs: RedactedRuns) -> int:
    """Write the changed row groups of a Parquet file to an open file. Return how many cells were changed."""
    parquet = import_module("pyarrow.parquet")
    schema, total = parquet.ParquetFile(path).schema_arrow, 0
    with os.fdopen(os.dup(fd), "wb") as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for table, cells in _redacted_groups(path, removed, runs):
            writer.write_table(table)
            total += cells
    sync_file(fd)
    return total


def _redacted_groups(path: Path, removed: RemovedTexts, runs: RedactedRuns) -> Iterator[tuple[pyarrow.Table, int]]:
    """Yield each row group of a Parquet file after the removal, and how many of its cells were changed."""
    file: Any = import_module("pyarrow.parquet").ParquetFile(path)
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        rows = _rows_of(table, runs)
        total = 0
        for position, field in enumerate(table.schema):
            if not rows:
                break
            cells = table.column(position).to_pylist()
            changes = {row: _redacted(cells[row], removed, field.name) for row in rows}
            changes = {row: cell for row, cell in changes.items() if cell != cells[row]}
            if changes:
                total += len(changes)
                cells = [changes.get(row, cell) for row, cell in enumerate(cells)]
                column = import_module("pyarrow").array(cells, field.type)
                table = table.set_column(position, field, column)
        yield table, total


def _rows_of(table: pyarrow.Table, runs: RedactedRuns) -> Sequence[int]:
    """Return the numbers of the rows that belong to these runs."""
    rows: set[int] = set()
    for name, wanted in ((_ID_COLUMNS, runs.ids), (_FILE_COLUMNS, runs.paths)):
        for column in {*name} & {*table.column_names}:
            for row, value in enumerate(table.column(column).to_pylist()):
                if value in wanted or (name is _FILE_COLUMNS and value and os.path.abspath(value) in wanted):  # noqa: PTH100 - `resolve` would follow links
                    rows.add(row)
    return sorted(rows)


def _redacted(cell: Payload, removed: RemovedTexts, column: str) -> Payload:
    """Return a cell without the removed texts. The ids of runs stay, because they join tables."""
    if column in _ID_COLUMNS:
        return cell
    if isinstance(cell, str):
        return apply_edits(cell, removed.edits(cell, TextPlace(TABLE, (column,))))
    if isinstance(cell, list):
        return [_redacted(element, removed, column) for element in cell]
    if isinstance(cell, tuple):
        return tuple(_redacted(element, removed, column) for element in cell)
    if isinstance(cell, dict):
        return {name: _redacted(member, removed, column) for name, member in cell.items()}
    return cell


def has_removed_text(path: Path, removed: RemovedTexts, runs: RedactedRuns) -> bool:
    """Return whether the rows of runs in a Parquet file still have a text. Raises MissingExtraError and OSError."""
    load_pyarrow()
    return any(cells for _, cells in _redacted_groups(path, removed, runs))
