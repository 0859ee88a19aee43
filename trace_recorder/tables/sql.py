"""Runs SQL queries over the tables of runs with DuckDB.

For DuckDB, each table is a view with the table's name. A view reads Parquet files: the files of an export, or temporary
files that are written from the runs for one query. So memory does not grow with the number of runs. Only tables whose
names occur in the query are written.

A query reads the files of its tables and nothing else, and writes no file: DuckDB's access to files and extensions is
limited to these files, its configuration is locked, and COPY is refused.
"""

from __future__ import annotations

import glob
import json
import math
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trace_recorder.errors import MissingExtraError
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.local_copies import copied_ahead
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.frames import schema_of
from trace_recorder.tables.parquet import PartFiles, TableFiles
from trace_recorder.tables.part_files import part_files
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:
    import duckdb

_EXPORTED: tuple[Literal["runs"], Literal["transcripts"]] = ("runs", "transcripts")
"""A directory with files of one of these tables is an export."""
_MEMORY = "400MB"
"""DuckDB uses at most about this much memory, and writes more data to a temporary file."""


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """The limits of a query: the seconds after which DuckDB stops, and the size of DuckDB's temporary files."""

    seconds: float
    temporary_bytes: int


def is_export(directory: Path) -> bool:
    """Return whether a directory or an address has tables of `export --format parquet`. Raises OSError."""
    return any(_parts_at(directory, table) for table in _EXPORTED)


def _parts_at(directory: Path, table: TableName) -> list[Path]:
    """Return the Parquet files of a table in a directory or at an address, in the order of their parts."""
    if remote_address(directory) is None:
        return part_files(directory, table)
    from trace_recorder.storage.remote_files import remote_files  # noqa: PLC0415 - few paths are addresses

    return remote_files(remote_address(directory / table) or "", "part-*.parquet")


def _local_parts(directory: Path, table: TableName, temporary: Path) -> list[Path]:
    """Return the Parquet files of a table. Those at an address are copied into a new directory `temporary`."""
    parts = _parts_at(directory, table)
    if remote_address(directory) is None:
        return parts
    from trace_recorder.storage.remote_files import copy_of_run  # noqa: PLC0415 - as above

    temporary.mkdir()
    return [copy_of_run(part, temporary, "document") for part in copied_ahead(parts, "document")]


def _tables_in(query: str) -> tuple[TableName, ...]:
    return tuple(table for table in TABLES if re.search(rf"\b{table}\b", query, re.IGNORECASE))


@contextmanager
def query_exports(
    query: str, directories: Sequence[Path], limits: SqlLimits | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Run a query over exported tables.

    Yield the connection with the query's result. Tables at an address are copied, if the query names them. Raises the
    exceptions of DuckDB, and OSError.
    """
    with tempfile.TemporaryDirectory() as temporary:
        _check(query, limits)
        files: dict[TableName, list[Path]] = {table: [] for table in TABLES}
        for table in _tables_in(query):
            for number, directory in enumerate(directories):
                files[table] += _local_parts(directory, table, Path(temporary, f"{table}-{number}"))
        connection = _connection(temporary, files, limits)
        with _stopped_in_time(connection, limits):
            yield connection.execute(query)


@contextmanager
def query_runs(
    query: str, parts_of: Callable[[tuple[TableName, ...]], Iterable[PartFiles]], limits: SqlLimits | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Run a query over runs, and yield the connection with the query's result.

    `parts_of` yields the parts with the rows of the runs in some tables.
    """
    with tempfile.TemporaryDirectory() as temporary:
        _check(query, limits)
        tables = _tables_in(query)
        if tables:
            with TableFiles(Path(temporary), tables) as files:
                for part in parts_of(tables):
                    files.add(part)
        written = {table: part_files(Path(temporary), table) for table in tables}
        connection = _connection(temporary, written, limits)
        with _stopped_in_time(connection, limits):
            yield connection.execute(query)


@contextmanager
def _stopped_in_time(connection: duckdb.DuckDBPyConnection, limits: SqlLimits | None) -> Iterator[None]:
    """Interrupt the queries of the block when their time is over. Then DuckDB raises its InterruptException."""
    if limits is None:
        yield
        return
    timer = threading.Timer(limits.seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check(query: str, limits: SqlLimits | None) -> None:
    """Refuse COPY, and let DuckDB prepare a query over empty tables.

    So a wrong query raises an exception before runs are read. EXPLAIN would draw each constant of the query, which may
    have any size.
    """
    duckdb = load_duckdb()
    if "copy" in _keywords(query):
        raise duckdb.PermissionException("COPY is refused: a query only reads. Use `export` to write files.")
    with tempfile.TemporaryDirectory() as temporary:
        connection = _connection(temporary, {table: [] for table in TABLES}, limits)
        statements = connection.extract_statements(query)
        if len(statements) == 1 and statements[0].type.name.startswith("SELECT"):
            with _stopped_in_time(connection, limits):
                connection.execute(f"prepare checked as {query}")


def _keywords(query: str) -> set[str]:
    """Return the keywords of a query in lower case, without those in strings, comments and quoted names."""
    duckdb, encoded = load_duckdb(), query.encode(errors="replace")
    tokens = duckdb.tokenize(query)
    ends = [*(start for start, _ in tokens[1:]), len(encoded)]
    return {
        encoded[start:end].decode().strip().lower()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind == duckdb.token_type.keyword
    }


def _add_view(connection: duckdb.DuckDBPyConnection, table: TableName, files: Sequence[Path]) -> None:
    if files:
        names = [glob.escape(str(path)) for path in files]  # DuckDB reads a path as a pattern
        connection.read_parquet(names, union_by_name=True).create_view(
            table
        )  # files of an older version may lack a column
    else:
        connection.from_arrow(schema_of(table).empty_table()).create_view(table)


def _connection(
    directory: str, files: Mapping[TableName, Sequence[Path]], limits: SqlLimits | None
) -> duckdb.DuckDBPyConnection:
    """Return a connection that has the given tables, and opens no file but theirs and temporary ones in `directory`."""
    config: dict[str, Any] = {
        "memory_limit": _MEMORY,
        "temp_directory": directory,
        "python_enable_replacements": False,
    }
    if limits is not None:
        config["max_temp_directory_size"] = f"{limits.temporary_bytes}B"
    connected: duckdb.DuckDBPyConnection = load_duckdb().connect(config=config)
    connected.execute("set TimeZone = 'UTC'")  # otherwise a day would begin when it begins on the machine
    for table, paths in files.items():
        _add_view(connected, table, paths)
    names = [str(path) for paths in files.values() for path in paths]
    connected.execute("set allowed_paths = $1", [[*names, *map(glob.escape, names)]])  # the pattern is looked up too
    connected.execute("set allowed_configs = ['TimeZone']")
    connected.execute("set enable_external_access = false")
    connected.execute("set lock_configuration = true")
    return connected


def sql_error_text(error: Exception) -> str:
    """Return what DuckDB says about a query on one line, without the query."""
    return " ".join(str(error).partition("\n\nLINE")[0].split("\n"))


def json_of_cell(value: Any) -> Payload:
    """Return a value of SQL as JSON.

    A time becomes ISO 8601, a decimal a number, NaN null, and any other value a text.
    """
    if isinstance(value, dict):
        members = {}
        for key, member in value.items():
            name = json_of_cell(key)
            if not isinstance(name, str):
                name = json.dumps(name)
            members[name] = json_of_cell(member)
        return members
    if isinstance(value, list | tuple):
        return [*map(json_of_cell, value)]
    return _json_scalar(value)


def _json_scalar(value: Any) -> Payload:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if hasattr(value, "as_tuple"):
        return float(value)
    return str(value)


def load_duckdb() -> Any:
    """Import and return DuckDB. Raises MissingExtraError if it is not installed."""
    try:
        return import_module("duckdb")
    except ImportError as error:
        raise MissingExtraError("SQL needs DuckDB: pip install 'trace-recorder[sql]'") from error
