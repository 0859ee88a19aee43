"""Removes the rows of runs from the Parquet files that `export --format parquet` wrote.

Each file of a part is written again without the rows, under a temporary name. Then the files of the part replace the
old ones, and the file of the first table is the last. So a process that is killed leaves a run in the first table until
its rows are gone from all other tables, and the next removal finds the run again.

Row groups are copied one by one, so the memory does not grow with the size of a file.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from trace_recorder.storage.file_system import directory_lock
from trace_recorder.storage.run_files import journal_name
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.frames import load_pyarrow
from trace_recorder.tables.parquet import FORMS, is_ours, part_files, remove_unfinished_files

_PART_NAME = re.compile(r"\.?part-.*\.parquet")
"""Matches the name of a part of a table, and of its temporary file."""


class RunInTables(NamedTuple):
    """The values by which the rows of a run are found: the id of the run, and the name of its journal."""

    trajectory_id: str | None
    journal_name: str


def tables_below(directory: Path) -> list[Path]:
    """Return the directories of tables in and below a directory. Directories whose names begin with a dot are skipped.

    A directory is found by the names of its files, which may be files of another program.
    """
    directories: dict[Path, None] = {}
    for place, below, names in os.walk(directory):
        below[:] = [name for name in below if not name.startswith(".")]
        if Path(place).name in TABLES and any(map(_PART_NAME.match, names)):
            directories[Path(place).parent] = None
    return [*directories]


def remove_rows(directory: Path, runs: Collection[RunInTables]) -> bool:
    """Remove the rows of runs from the tables in a directory. Return whether a file was changed.

    The files that an interrupted export left are removed too, because they may have such rows. Files that this package
    did not write stay as they are. Raises BlockingIOError if another process writes the tables, MissingExtraError if
    pyarrow is not installed, and OSError.
    """
    load_pyarrow()
    is_changed = False
    for tables in FORMS.values():
        locked = directory / tables[0]
        parts = [path for table in tables for path in part_files(directory, table)]
        if not locked.is_dir() or not all(map(is_ours, parts)):
            continue
        with directory_lock(locked) as is_held:
            if is_held is False:
                raise BlockingIOError(f"{directory}: another process writes into these tables. Try again later.")
            is_changed |= remove_unfinished_files(directory, tables)
            for part in part_files(directory, tables[0]):
                if any(True in mask for mask in _masks(_open(part), tables[0], runs)):
                    _rewrite([directory / table / part.name for table in reversed(tables)], runs)
                    is_changed = True
    return is_changed


def _open(path: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    return import_module("pyarrow.parquet").ParquetFile(path)


def _masks(file: Any, table: TableName, runs: Collection[RunInTables]) -> Iterator[list[bool]]:  # noqa: ANN401 - as above
    """Yield for each row group of a file whether each of its rows belongs to one of the runs."""
    columns = ["trajectory_id", "file"]
    if table == "transcripts":
        columns = ["transcript_id", "source_uri"]
    for number in range(file.num_row_groups):
        group = file.read_row_group(number, columns=columns)
        values = (group.column(name).to_pylist() for name in columns)
        yield [_belongs(identity, file_name, runs) for identity, file_name in zip(*values, strict=True)]


def _belongs(trajectory_id: str | None, file: str | None, runs: Collection[RunInTables]) -> bool:
    """Return whether a row belongs to one of the runs.

    The directory in the path is not compared: it is relative to the unknown working directory of the export.
    """
    name = PurePosixPath((file or "").replace("\\", "/")).name
    if trajectory_id == file:  # Scout's table has the file in the place of an unknown id
        trajectory_id = None
    return RunInTables(trajectory_id, journal_name(name)) in runs


def _rewrite(paths: list[Path], runs: Collection[RunInTables]) -> None:
    """Write the files of a part again without the rows of the runs. Files that have no such rows stay."""
    written: dict[Path, Path] = {}
    try:
        for path in paths:
            if path.is_file():
                written[path] = _copy(path, runs)
        for path, temporary in written.items():
            temporary.replace(path)
    finally:
        for temporary in written.values():
            with suppress(FileNotFoundError):
                temporary.unlink()


def _copy(path: Path, runs: Collection[RunInTables]) -> Path:
    """Write a file without the rows of the runs under a temporary name, and return its path."""
    file, table = _open(path), next(table for table in TABLES if table == path.parent.name)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with (
            os.fdopen(handle, "wb") as target,
            import_module("pyarrow.parquet").ParquetWriter(target, file.schema_arrow, compression="zstd") as writer,
        ):
            for number, mask in enumerate(_masks(file, table, runs)):
                kept = load_pyarrow().array([not is_removed for is_removed in mask], "bool")
                writer.write_table(file.read_row_group(number).filter(kept))
    except BaseException:
        Path(temporary).unlink()
        raise
    return Path(temporary)
