"""Writes tables of many runs as Parquet: a directory for each table, with files of about 100 MB, compressed with zstd.

    tables/runs/part-00000.parquet    tables/calls/part-00000.parquet    …

A part is one file of each table. All files of a part have the same runs, and each run is in one part. Each file is
written under a temporary name. The files of a part get their final names together, and the file of the first table gets
its name last. So the files of the first table show which runs are complete, and an interrupted export can be continued.
The memory of an export does not grow with the number of runs.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trace_recorder.figures.content.chat_form import utf8_text
from trace_recorder.formats.format import Format
from trace_recorder.formats.format_writer import FormatWriter, LeftOut, view
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.file_system import directory_lock
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.frames import MAX_BATCHES, batch_of, combine_batches, load_pyarrow, schema_of
from trace_recorder.values.trajectory import Trajectory

if TYPE_CHECKING:
    import pyarrow

Batches = Mapping[TableName, "pyarrow.RecordBatch"]
"""The rows of a run in each table."""

FORMS: Mapping[str, tuple[TableName, ...]] = {
    "tables": ("runs", "calls", "steps", "tool_calls", "messages", "rewards"),
    "scout": ("transcripts",),
}
"""The tables of each form of the export format `parquet`. The first table of a form has one row for each run."""
PART_BYTES = 100_000_000
"""A part is complete when one of its files has this many bytes."""
GROUP_BYTES = 32_000_000
"""When a table has this many bytes of rows in memory, these are written as one row group."""
_COLUMNS = b"trace_recorder.columns"
"""The member of a file's metadata with the names, types and meanings of its columns."""
_DIRECTORY = b"trace_recorder.directory_digest"
"""The member of a file's metadata with a digest of the working directory of the export.

The digest does not reveal the path.
"""
_PARENT = f"..{os.sep}"
"""The beginning of a relative path to a file outside of the working directory."""


@view
def to_tables(_: LeftOut, run: Trajectory, form: str = "tables") -> Batches:
    """Return the rows of a run for each table of a form."""
    return batches_of(run, FORMS[form])


FORMAT = Format(
    name="parquet", writer=FormatWriter(kind="tables", view=to_tables, forms={form: {"form": form} for form in FORMS})
)


def batches_of(run: Trajectory, tables: Iterable[TableName]) -> Batches:
    """Return the rows of a run for each of `tables`."""
    return {table: batch_of(run, table) for table in tables}


class TableFiles:
    """Writes the rows of runs into Parquet files in a directory. Use it in a `with` block.

    If `resume` is True, existing files stay, and `has` returns whether they have a run. If only `force` is True,
    existing files are removed first. If both are False, and there are files, the `with` statement raises
    FileExistsError. It raises BlockingIOError if another process writes into the directory. The constructor raises
    MissingExtraError if pyarrow is not installed.
    """

    def __init__(
        self,
        directory: Path,
        tables: tuple[TableName, ...],
        *,
        resume: bool = False,
        force: bool = False,
        part_bytes: int = PART_BYTES,
        group_bytes: int = GROUP_BYTES,
    ) -> None:
        load_pyarrow()
        self.files = 0
        self._directory = directory
        self._tables = tables
        self._is_resumed = resume
        self._is_forced = force
        self._part_bytes = part_bytes
        self._group_bytes = group_bytes
        self._lock = ExitStack()
        self._number = 0
        self._written: WrittenRuns | None = None
        self._part: dict[TableName, _PartFile] = {}

    def has(self, run: Path) -> bool:
        """Return whether the rows of a run are in the files that were there before."""
        return self._written is not None and run in self._written

    def add(self, batches: Batches) -> None:
        """Add the rows of a run. When the part is complete, its files get their final names."""
        if not self._part:
            for table in self._tables:  # one by one: if a file cannot be opened, `discard` removes those before it
                self._part[table] = _PartFile(self._path(table), table, self._group_bytes)
        for table, batch in batches.items():
            self._part[table].add(batch)
        if max(part.size for part in self._part.values()) >= self._part_bytes:
            self._end_part()

    def __enter__(self) -> Self:
        locked = self._directory / self._tables[0]  # not the directory itself, because the indexer of runs locks that
        locked.mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self._lock.enter_context(directory_lock(locked)) is False:
                raise BlockingIOError(f"{self._directory}: another process writes into it. Wait, or give another -o")
            self._begin()
            self._lock = self._lock.pop_all()
        return self

    def _begin(self) -> None:
        """Remove the files that an interrupted export left, and find the number of the next part.

        If the export is forced and not resumed, remove all parts too. If the export is resumed, read from the files
        which runs they have. Raises FileExistsError if there are parts, and the export is neither forced nor resumed.
        """
        directory, first = self._directory, self._tables[0]
        parts = [path for table in self._tables for path in part_files(directory, table)]
        if parts and not (self._is_resumed or self._is_forced):
            raise FileExistsError(
                f"{parts[0]} exists: give another -o, --resume to add runs that are missing, or --force to replace it"
            )
        remove_unfinished_files(directory, self._tables)
        if self._is_forced and not self._is_resumed:
            for path in parts:
                path.unlink(missing_ok=True)
        numbers = [path.stem.removeprefix("part-") for path in part_files(directory, first)]
        self._number = max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
        self._written = None
        if self._is_resumed:
            self._written = WrittenRuns(directory, first)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Complete the last part. After an error, remove the files of the last part."""
        with self._lock:
            try:
                if error is None:
                    self._end_part()
            finally:
                for part in self._part.values():
                    part.discard()

    def _end_part(self) -> None:
        for part in self._part.values():
            part.close()
        for table in reversed(self._part):
            self._part[table].publish()
        self.files += len(self._part)
        self._part = {}
        self._number += 1

    def _path(self, table: TableName) -> Path:
        return self._directory / table / f"part-{self._number:05}.parquet"


class _PartFile:
    """A Parquet file that is being written, under a temporary name."""

    def __init__(self, path: Path, table: TableName, group_bytes: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._group_bytes = group_bytes
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        self._temporary, self._file = Path(temporary), os.fdopen(handle, "wb")
        self._schema = _schema_of_file(table)
        parquet = import_module("pyarrow.parquet")
        self._writer = parquet.ParquetWriter(self._file, self._schema, compression="zstd")
        self._batches: list[pyarrow.RecordBatch] = []
        self._waiting = 0

    @property
    def size(self) -> int:
        """How many bytes were written to the file."""
        return self._file.tell()

    def add(self, batch: pyarrow.RecordBatch) -> None:
        self._batches.append(batch)
        self._waiting += batch.nbytes
        if self._waiting >= self._group_bytes:
            self._write_group()
        elif len(self._batches) >= MAX_BATCHES:
            self._batches = self._table().to_batches()

    def _table(self) -> pyarrow.Table:
        return combine_batches(self._batches).replace_schema_metadata(self._schema.metadata)

    def _write_group(self) -> None:
        if self._batches:
            with self._named_errors():
                self._writer.write_table(self._table())
        self._batches, self._waiting = [], 0

    def close(self) -> None:
        self._write_group()
        with self._named_errors():
            self._writer.close()
            self._file.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Add the file name to an error of writing, such as a full disk, because pyarrow's errors do not have it."""
        try:
            yield
        except OSError as error:
            error.filename = str(self._path)
            raise

    def publish(self) -> None:
        self._temporary.replace(self._path)

    def discard(self) -> None:
        with suppress(OSError):  # `close` first writes the rows that are in memory, which fails on a full disk
            self._writer.close()
        self._writer.is_open = False  # otherwise pyarrow closes the writer again later, and prints the error
        with suppress(OSError):
            self._file.close()
        with suppress(FileNotFoundError):
            self._temporary.unlink()


def part_files(directory: Path, table: TableName) -> list[Path]:
    """Return the Parquet files of a table, in the order of their parts."""
    return sorted((directory / table).glob("part-*.parquet"))


class WrittenRuns:
    """The runs whose rows are in the files of a form's first table.

    A file has the paths of its runs as the user gave them, and a digest of the working directory from which relative
    paths start. So a run is recognised if the export is resumed in another working directory. A path that begins with
    `..` is not recognised in another working directory. If a file has such a path, and was written from another working
    directory, the constructor raises FileExistsError.
    """

    def __init__(self, directory: Path, table: TableName) -> None:
        self._names: dict[bytes, set[str]] = {}
        for path in part_files(directory, table):
            part: Any = import_module("pyarrow.parquet").ParquetFile(path)
            column = part.read(["source_uri" if table == "transcripts" else "file"]).column(0)
            base = (part.schema_arrow.metadata or {}).get(_DIRECTORY, b"")
            names = self._names.setdefault(base, set())
            for name in filter(None, column.to_pylist()):
                if _PARENT in name:
                    names.add(os.path.normpath(name))  # it removes `..` where possible
                else:
                    names.add(name)
        self._all = set().union(*self._names.values())
        elsewhere = (names for base, names in self._names.items() if base != _digest_of(Path.cwd()))
        outer = next((name for names in elsewhere for name in names if name.startswith(_PARENT)), None)
        if outer is not None:
            reason = f"{directory} has runs with paths such as {outer}, from another working directory"
            raise FileExistsError(f"{reason}: use --resume in that directory, or --force")

    def __contains__(self, run: Path) -> bool:
        if not self._all:
            return False
        url, path = remote_address(run), Path(os.path.abspath(run))  # noqa: PTH100 - `resolve` would follow links
        names = {utf8_text(url or str(path))}
        if run.is_absolute():
            names.add(utf8_text(str(run)))
        if not names.isdisjoint(self._all):
            return True
        return url is None and any(
            utf8_text(os.path.relpath(path, base)) in self._names.get(_digest_of(base), ())
            for base in (Path.cwd(), *path.parents)
        )


@lru_cache(maxsize=1000)
def _digest_of(directory: Path) -> bytes:
    return blake2b(os.fsencode(directory), digest_size=8).hexdigest().encode()


def is_ours(path: Path) -> bool:
    """Return whether an export of this package wrote a Parquet file. Raises OSError, also if the file is damaged."""
    try:
        schema = import_module("pyarrow.parquet").read_schema(path)
    except ValueError as error:  # pyarrow's ArrowInvalid
        raise OSError(errno.EINVAL, "this Parquet file is damaged; delete it, or export again", str(path)) from error
    return _COLUMNS in (schema.metadata or {})


def remove_unfinished_files(directory: Path, tables: Sequence[TableName]) -> bool:
    """Remove the files that an interrupted export left. Return whether there were any.

    These are temporary files, and the files of a part for which the first table has no file. The caller holds the lock
    of the tables.
    """
    whole = {path.name for path in part_files(directory, tables[0])}
    unfinished: set[Path] = set()
    for table in tables:
        unfinished.update((directory / table).glob(".part-*.tmp"))
        unfinished.update(path for path in part_files(directory, table) if path.name not in whole)
    for path in unfinished:
        path.unlink()
    return bool(unfinished)


def _schema_of_file(table: TableName) -> pyarrow.Schema:
    """Return the schema of a Parquet file. Its metadata describe the columns in JSON, for readers without Arrow."""
    schema = schema_of(table)
    columns = [
        {"name": column.name, "type": str(field.type), "meaning": column.meaning}
        for column, field in zip(TABLES[table], schema, strict=True)
    ]
    about = {_COLUMNS: json.dumps(columns).encode(), _DIRECTORY: _digest_of(Path.cwd())}
    return schema.with_metadata({**schema.metadata, **about})
