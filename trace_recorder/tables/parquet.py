"""Writes tables of many runs as Parquet, compressed with zstd, in parts of some hundred runs (`part_files.py`).

`divide_runs` decides which runs a part has. `PartWriter` makes the files of a part in memory, in any process.
`TableFiles` writes them into a directory. Each file is written under a temporary name. The files of a part get their
final names together, and the file of the first table gets its name last. So an export can be killed at any time, and
continued after its last part. The memory of an export does not grow with the number of runs.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from trace_recorder.catalog.value_tables import FilesState
from trace_recorder.figures.content.chat_form import utf8_text
from trace_recorder.formats.format import Format
from trace_recorder.formats.format_writer import FormatWriter, LeftOut, view
from trace_recorder.storage.file_system import directory_lock, sync_directory, sync_file
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.frames import batch_of, load_pyarrow, schema_of
from trace_recorder.tables.part_files import (
    COLUMNS_KEY,
    DIRECTORY_KEY,
    FORMS,
    States,
    compare_parts,
    directory_digest,
    files_state,
    part_files,
    remove_part,
    remove_unfinished_files,
    states_metadata,
)
from trace_recorder.tables.rewritten_rows import RowsChange, rewrite_part, without_rows
from trace_recorder.tables.rows import Cells, cells_of, joined_cells
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

if TYPE_CHECKING:
    import pyarrow

RunCells = Mapping[TableName, Cells]
"""The cells of a run in each table."""
PartFiles = Mapping[TableName, bytes]
"""The contents of a part's files. It is empty if the part has no run."""

PART_RUNS = 256
"""A part has at most this many runs."""
PART_BYTES = 64_000_000
"""A part has no further run when the files of its runs have this many bytes together."""
_GROUP_BYTES = 16_000_000
"""When the files of the runs in memory have this many bytes together, their rows are written as one row group."""
_UNKNOWN_BYTES = 1_000_000
"""A run at an address is taken to have this many bytes."""


@view
def to_tables(_: LeftOut, run: Trajectory, form: str = "tables") -> RunCells:
    """Return the cells of a run for each table of a form."""
    return run_cells(run, FORMS[form])


FORMAT = Format(
    name="parquet", writer=FormatWriter(kind="tables", view=to_tables, forms={form: {"form": form} for form in FORMS})
)


def run_cells(run: Trajectory, tables: Iterable[TableName]) -> RunCells:
    """Return the cells of a run for each of `tables`."""
    return {table: cells_of(run, table) for table in tables}


# ── parts in memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def divide_runs(runs: Iterable[Path], part_runs: int) -> Iterator[list[Path]]:
    """Divide runs into parts of at most `part_runs` runs.

    The parts depend only on the runs and their sizes, and so do the files of an export.
    """
    part: list[Path] = []
    size = 0
    for run in runs:
        part.append(run)
        size += files_state(run).size or _UNKNOWN_BYTES
        if len(part) >= part_runs or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


class PartWriter:
    """Makes the files of a part in memory."""

    def __init__(self, tables: Iterable[TableName]) -> None:
        self._tables = {table: _TableWriter(table) for table in tables}
        self._states: States = {}
        self._size = self._waiting = 0

    @property
    def is_full(self) -> bool:
        """Whether the part has as many runs, or as large ones, as a part may have."""
        return len(self._states) >= PART_RUNS or self._size >= PART_BYTES

    def add(self, path: Path, cells: RunCells, state: FilesState) -> None:
        """Add the cells of a run. `state` is the state of its files before they were read.

        The state of a run that may still be recorded is not kept, because its end may change none of its files.
        """
        statuses: set[Payload] = set()
        for table, writer in self._tables.items():
            writer.add(cells[table])
            statuses.update(cells[table]["status"])
        self._states[str(path)] = None if statuses & {"running", "unknown"} else state
        size = state.size or _UNKNOWN_BYTES
        self._size += size
        self._waiting += size
        if self._waiting >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        self._waiting = 0
        for writer in self._tables.values():
            writer.write_group()

    def finish(self) -> PartFiles:
        """Return the contents of the files."""
        if not self._states:
            return {}
        self._write_group()
        files: dict[TableName, bytes] = {}
        metadata = states_metadata(self._states)  # in the file of the first table
        for table, writer in self._tables.items():
            files[table] = writer.finish(metadata)
            metadata = {}
        return files


class _TableWriter:
    """Makes a Parquet file in memory."""

    def __init__(self, table: TableName) -> None:
        self._table = table
        self._cells: list[Cells] = []
        self._target = load_pyarrow().BufferOutputStream()
        schema = _schema_of_file(table)
        self._writer = import_module("pyarrow.parquet").ParquetWriter(self._target, schema, compression="zstd")

    def add(self, cells: Cells) -> None:
        self._cells.append(cells)

    def write_group(self) -> None:
        batch: pyarrow.RecordBatch = batch_of(joined_cells(self._cells, self._table), self._table)
        if batch.num_rows:
            self._writer.write_batch(batch)
        self._cells = []

    def finish(self, metadata: Mapping[bytes, bytes]) -> bytes:
        self._writer.add_key_value_metadata(metadata)
        self._writer.close()
        content: bytes = self._target.getvalue().to_pybytes()
        return content


def _schema_of_file(table: TableName) -> pyarrow.Schema:
    """Return the schema of a Parquet file. Its metadata describe the columns in JSON, for readers without Arrow."""
    schema = schema_of(table)
    columns = [
        {"name": column.name, "type": str(field.type), "meaning": column.meaning}
        for column, field in zip(TABLES[table], schema, strict=True)
    ]
    about = {COLUMNS_KEY: json.dumps(columns).encode(), DIRECTORY_KEY: directory_digest(Path.cwd())}
    return schema.with_metadata({**schema.metadata, **about})


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class TableFiles:
    """Writes parts into a directory. Use it in a `with` block.

    If `resume` is True, existing parts stay, and `outdated` compares them with runs. If only `force` is True, existing
    parts are removed first. If both are False, and there are files, the `with` statement raises FileExistsError. It
    raises BlockingIOError if another process writes into the directory. The constructor raises MissingExtraError if
    pyarrow is not installed.
    """

    def __init__(
        self, directory: Path, tables: tuple[TableName, ...], *, resume: bool = False, force: bool = False
    ) -> None:
        load_pyarrow()
        self.files = 0
        self._directory = directory
        self._tables = tables
        self._is_resumed = resume
        self._is_forced = force
        self._lock = ExitStack()
        self._number = 0

    def outdated(self, runs: Sequence[Path], sources: Sequence[Path] = ()) -> tuple[list[Path], int]:
        """Remove the rows of runs that have changed or are gone. Return the runs that have to be added, and how many
        runs are gone.

        A run is gone if it was in or below one of the directories `sources`, and its files are not there.
        """
        if not self._is_resumed:
            return [*runs], 0
        directory, tables = self._directory, self._tables
        missing, changed, gone, emptied = compare_parts(directory, tables[0], runs, sources)
        for part in emptied:
            remove_part(directory, tables, part)
        stale: dict[str, set[str]] = {}
        for run in (*changed, *gone):
            stale.setdefault(run.part, set()).add(utf8_text(run.path))
        for part in stale.keys() - {*emptied}:
            removed = RowsChange(lambda _, path, paths=stale[part]: path in paths, without_rows)  # type: ignore[misc]
            rewrite_part(directory, tables, part, removed)
        return missing, len(gone)

    def add(self, part: PartFiles) -> None:
        """Write the files of a part, and give them their final names together, that of the first table last."""
        paths: list[tuple[Path, Path]] = []
        try:
            for table, content in part.items():
                path = self._directory / table / f"part-{self._number:05}.parquet"
                paths.append((_write_temporary(path, content), path))
            for temporary, path in reversed(paths):
                temporary.replace(path)
                sync_directory(path.parent)  # after a loss of power, the first table would show an incomplete part
        except BaseException:
            for temporary, _ in paths:
                temporary.unlink(missing_ok=True)
            raise
        self.files += len(part)
        self._number += bool(part)

    def __enter__(self) -> Self:
        locked = self._directory / self._tables[0]  # not the directory itself, because the indexer of runs locks that
        for table in self._tables:
            (self._directory / table).mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self._lock.enter_context(directory_lock(locked)) is False:
                raise BlockingIOError(f"{self._directory}: another process writes into it. Wait, or give another -o")
            self._begin()
            self._lock = self._lock.pop_all()
        return self

    def _begin(self) -> None:
        """Remove the files that an interrupted export left, and find the number of the next part.

        If the export is forced and not resumed, remove all parts too. Raises FileExistsError if there are parts, and
        the export is neither forced nor resumed.
        """
        directory, first = self._directory, self._tables[0]
        parts = [path for table in self._tables for path in part_files(directory, table)]
        if parts and not (self._is_resumed or self._is_forced):
            raise FileExistsError(
                f"{parts[0]} exists: give another -o, --resume to bring it up to date, or --force to replace it"
            )
        remove_unfinished_files(directory, self._tables)
        if self._is_forced and not self._is_resumed:
            for path in part_files(directory, first):
                remove_part(directory, self._tables, path.name)
        numbers = [path.stem.removeprefix("part-") for path in part_files(directory, first)]
        self._number = max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._lock.close()


def _write_temporary(path: Path, content: bytes) -> Path:
    """Write a file beside `path` under a temporary name, flush it to disk, and return its path.

    An OSError, such as that of a full disk, names `path`.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            sync_file(handle)
    except BaseException as error:
        with suppress(OSError):
            Path(name).unlink()
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
    return Path(name)
