"""Writes the Parquet files of `export --format parquet` again with other rows, or with fewer.

Each file of a part is written again under a temporary name. Then the files of the part replace the old ones, and the
file of the first table is the last. So a process that is killed while it removes rows leaves a run in the first table
until its rows are gone from all other tables, and the next removal finds the run again.

Row groups are copied one by one, so the memory does not grow with the size of a file.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from trace_recorder.figures.content.chat_form import utf8_text
from trace_recorder.storage.file_system import directory_lock, sync_directory, sync_file
from trace_recorder.storage.run_files import journal_name
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.frames import load_pyarrow
from trace_recorder.tables.part_files import (
    FORMS,
    is_ours,
    part_files,
    remove_unfinished_files,
    states_in,
    states_metadata,
)

if TYPE_CHECKING:
    import pyarrow

_PART_NAME = re.compile(r"\.?part-.*(?:\.parquet|\.tmp)")
"""Matches the name of a part of a table, and of its temporary file."""


class RunInTables(NamedTuple):
    """The values by which the rows of a run are found: the id of the run, and the name of its journal."""

    trajectory_id: str | None
    journal_name: str


class RowGroup(NamedTuple):
    """A row group of a file, and how many of its rows or cells differ from those that are on file."""

    rows: pyarrow.Table
    changes: int = 0


class RewrittenFile(NamedTuple):
    """A file that was written again, and how many of its rows or cells have changed."""

    path: Path
    changes: int


class RowsChange(NamedTuple):
    """What is changed in tables.

    `belongs` tells whether rows of a run are changed. It also gets the path of the run in the tables. `change` gets a
    row group, and for each of its rows whether the row is changed.
    """

    belongs: Callable[[RunInTables, str], bool]
    change: Callable[[pyarrow.Table, Sequence[bool]], RowGroup]


def tables_below(directory: Path) -> list[Path]:
    """Return the directories of tables in and below a directory. Directories whose names begin with a dot are skipped.

    A directory is found by the names of its files, which may be files of another program.
    """
    directories: dict[Path, None] = {}
    for place, below, names in os.walk(directory):
        below[:] = [name for name in below if not name.startswith(".")]
        if Path(place).name in TABLES and any(map(_PART_NAME.fullmatch, names)):
            directories[Path(place).parent] = None
    return [*directories]


def named_tables(directory: Path) -> list[Path]:
    """Return the directories of tables in and below a directory. Raises FileNotFoundError if there are no tables.

    A wrong path would leave the texts in the tables.
    """
    directories = tables_below(directory)
    if not directories:
        raise FileNotFoundError(errno.ENOENT, "there are no tables here; name their directory", str(directory))
    return directories


def rewrite_rows(directories: Collection[Path], rows: RowsChange) -> list[RewrittenFile]:
    """Change rows of the tables in these directories. Return the files that were written again.

    The files that an interrupted export left are removed, because they may have such rows. Files that this package did
    not write stay as they are. Raises BlockingIOError if another process writes tables in one of the directories, and
    no table is changed then. Raises MissingExtraError if pyarrow is not installed, and OSError.
    """
    if not directories:  # then pyarrow is not needed
        return []
    load_pyarrow()
    own = [
        (directory, tables) for directory in directories for tables in FORMS.values() if _are_ours(directory, tables)
    ]
    rewritten: list[RewrittenFile] = []
    with ExitStack() as locks:
        for directory, tables in own:
            if locks.enter_context(directory_lock(directory / tables[0])) is False:
                raise BlockingIOError(f"{directory}: another process writes into these tables. Try again later.")
        for directory, tables in own:
            remove_unfinished_files(directory, tables)
            for part in part_files(directory, tables[0]):
                if any(True in group.mask for group in _groups(part, rows)):
                    rewritten += rewrite_part(directory, tables, part.name, rows)
    return rewritten


def rewrite_part(directory: Path, tables: Sequence[TableName], name: str, rows: RowsChange) -> list[RewrittenFile]:
    """Change rows of a part, and return its files that were written again. The caller holds the lock of the tables."""
    return _rewrite([directory / table / name for table in reversed(tables)], rows)


def without_rows(rows: pyarrow.Table, mask: Sequence[bool]) -> RowGroup:
    """Return a row group without the rows of the mask."""
    kept = load_pyarrow().array([not is_removed for is_removed in mask], "bool")
    return RowGroup(rows.filter(kept), sum(mask))


def _are_ours(directory: Path, tables: Sequence[TableName]) -> bool:
    """Return whether a directory has these tables, and this package wrote all of their files."""
    if not (directory / tables[0]).is_dir():
        return False
    parts = [path for table in tables for path in part_files(directory, table)]
    return all(map(is_ours, parts))


def files_to_change(directory: Path, rows: RowsChange) -> Iterator[Path]:
    """Yield the files of tables with rows that `rewrite_rows` would change, also those of other programs.

    Raises MissingExtraError if pyarrow is not installed, and OSError.
    """
    load_pyarrow()
    for path in (path for table in TABLES for path in part_files(directory, table)):
        if any(group.changed(rows).changes for group in _groups(path, rows)):
            yield path


class _Group(NamedTuple):
    """A row group of an open file, and whether each of its rows is changed."""

    file: Any
    number: int
    mask: Sequence[bool]

    def changed(self, rows: RowsChange) -> RowGroup:
        """Read the row group and change it."""
        group: pyarrow.Table = self.file.read_row_group(self.number)
        if True in self.mask:
            return rows.change(group, self.mask)
        return RowGroup(group)


def _groups(path: Path, rows: RowsChange) -> Iterator[_Group]:
    """Yield the row groups of a file. There are none in a file of another program with other columns."""
    file: Any = import_module("pyarrow.parquet").ParquetFile(path)
    columns = _columns_of_run(path)
    if not {*columns} <= {*file.schema_arrow.names}:
        return
    for number in range(file.num_row_groups):
        group = file.read_row_group(number, columns=columns)
        values = (group.column(name).to_pylist() for name in columns)
        yield _Group(
            file, number, [rows.belongs(_run_of(run, file), file or "") for run, file in zip(*values, strict=True)]
        )


def _columns_of_run(path: Path) -> list[str]:
    """Return the names of the columns with the id and the path of a run in a file of a table."""
    if path.parent.name == "transcripts":
        return ["transcript_id", "source_uri"]
    return ["trajectory_id", "file"]


def _run_of(trajectory_id: str | None, file: str | None) -> RunInTables:
    """Return the run of a row.

    The directory in the path does not count: it is relative to the unknown working directory of the export.
    """
    name = PurePosixPath((file or "").replace("\\", "/")).name
    if trajectory_id == file:  # Scout's table has the file in the place of an unknown id
        trajectory_id = None
    return RunInTables(trajectory_id, journal_name(name))


def _rewrite(paths: list[Path], rows: RowsChange) -> list[RewrittenFile]:
    """Write the files of a part again, and return them. Files without a change stay."""
    rewritten: list[RewrittenFile] = []
    temporaries: list[Path] = []
    try:
        for path in filter(Path.is_file, paths):
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
            temporaries.append(Path(name))
            rewritten.append(RewrittenFile(path, _copy(path, handle, rows)))
        for temporary, file in zip(temporaries, rewritten, strict=True):
            if file.changes:
                temporary.replace(file.path)
                sync_directory(file.path.parent)
    finally:
        for temporary in temporaries:
            with suppress(FileNotFoundError):
                temporary.unlink()
    return [file for file in rewritten if file.changes]


def _copy(path: Path, handle: int, rows: RowsChange) -> int:
    """Write a file with its changes to an open file, flush that to disk, and close it. Return how many they are."""
    changes = 0
    with os.fdopen(handle, "wb") as target:
        schema = import_module("pyarrow.parquet").read_schema(path)
        states = states_in(path)
        kept: dict[str, None] = {}
        with import_module("pyarrow.parquet").ParquetWriter(target, schema, compression="zstd") as writer:
            for group in _groups(path, rows):
                changed = group.changed(rows)
                writer.write_table(changed.rows)
                changes += changed.changes
                if states is not None:
                    kept |= dict.fromkeys(changed.rows.column(_columns_of_run(path)[1]).to_pylist())
            if states is not None:
                paths = {utf8_text(run): run for run in states}
                remaining = [paths.get(path, path) for path in kept]  # a redaction may have changed a path
                writer.add_key_value_metadata(states_metadata({run: states.get(run) for run in remaining}))
        target.flush()
        sync_file(target.fileno())
    return changes
