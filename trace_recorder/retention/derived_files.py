"""Brings the files that are made from runs up to date after a redaction: indexes of directories, and Parquet tables.

An index is updated: it reads the changed runs again, and SQLite overwrites what it deletes. In a table, only the rows
of the redacted runs change: a new file is written beside the old one, row group by row group, and takes its name. Other
runs that have a removed text are found, and not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, compress
from operator import ne
from pathlib import Path
from typing import TYPE_CHECKING

from trace_recorder.catalog.index import RunIndex, indexes_above
from trace_recorder.catalog.texts import texts_of
from trace_recorder.facts import StartFact
from trace_recorder.formats.any_file import load_each
from trace_recorder.guard import ignore_failures
from trace_recorder.reading.document_ends import document_ends
from trace_recorder.retention import leftovers
from trace_recorder.retention.leftovers import Leftover
from trace_recorder.retention.removed_texts import RemovedTexts
from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.paths import document_path_for, journal_path_for, temporary_files
from trace_recorder.storage.run_files import runs_in_directory
from trace_recorder.storage.text_edits import TextPlace, apply_edits
from trace_recorder.tables.frames import load_pyarrow
from trace_recorder.tables.rewritten_rows import (
    RowGroup,
    RowsChange,
    RunInTables,
    files_to_change,
    named_tables,
    rewrite_rows,
    tables_below,
)
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:
    import pyarrow

_ID_COLUMNS = ("trajectory_id", "source_id")
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
        self._indexes = indexes_above(self._directories)
        if index is not None:
            self._indexes += [RunIndex(directory, index) for directory in self._directories[:1]]
        below = chain.from_iterable([*map(named_tables, tables), *map(tables_below, self._directories)])
        self._tables = [*dict.fromkeys(map(Path.resolve, below))]
        self._in_tables = {_in_tables(run) for run in runs}
        self._ids = {run.trajectory_id for run in self._in_tables} - {None}

    def update(self) -> Iterator[str]:
        """Update the indexes, and change the tables. Yield a sentence for each written file. Raises OSError."""
        for index in self._indexes:
            index.update()
            yield f"{index.path}: updated"
        for path, cells in rewrite_rows(self._tables, self._rows(self._removed)):
            yield f"{path}: {cells} cells changed"

    def _rows(self, removed: RemovedTexts) -> RowsChange:
        return RowsChange(self._has, partial(redacted_rows, removed))

    def _has(self, run: RunInTables, _: str) -> bool:
        """Return whether a row belongs to a redacted run, also if the run was renamed after the export."""
        return run in self._in_tables or run.trajectory_id in self._ids

    def leftovers(self, others: Collection[Path]) -> Iterator[Leftover]:
        """Yield the indexes and tables that still have a text. `others` are other runs that have it. Raises OSError.

        An index may have the text of another run, so it is searched only if there is no such run, and if the text is
        not a part of a word of the format, which every index has.
        """
        in_words = any(text.text in word for text in self._searched.texts for word in format_words())
        if not others and not in_words:
            for index in self._indexes:
                yield from leftovers.in_index(index, self._searched)
        for directory in self._tables:
            for path in files_to_change(directory, self._rows(self._searched)):
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
            for temporary in temporary_files(directory):
                with ignore_failures:  # its process may remove it meanwhile
                    if any(leftovers.in_bytes(temporary.path, self._searched)):
                        yield temporary.path

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


def _in_tables(run: Path) -> RunInTables:
    """Return the id of a run, from the first line of its journal or from its document, and its name. Raises OSError."""
    document, journal = document_path_for(run), journal_path_for(run)
    identity: Payload = None
    if journal.is_file():
        with journal.open("rb") as file:
            first = next(read_records(file.readline()), None)
        if isinstance(first, Record) and isinstance(first.fact, StartFact):
            identity = first.fact.trajectory_id
    if identity is None and document.is_file():
        identity = (document_ends(document) or {}).get("trajectory_id")
    return RunInTables(identity if isinstance(identity, str) else None, journal.name)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def redacted_rows(removed: RemovedTexts, rows: pyarrow.Table, mask: Sequence[bool]) -> RowGroup:
    """Remove texts from the rows of the mask, and count the cells that change."""
    total = 0
    for position, field in enumerate(rows.schema):
        cells = rows.column(position).to_pylist()
        changed = [*cells]
        for row in compress(range(len(cells)), mask):
            changed[row] = _redacted(cells[row], removed, field.name)
        changes = sum(map(ne, cells, changed))
        if changes:
            total += changes
            rows = rows.set_column(position, field, load_pyarrow().array(changed, field.type))
    return RowGroup(rows, total)


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
