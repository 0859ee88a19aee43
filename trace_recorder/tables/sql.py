"""Runs SQL queries over the tables of runs with DuckDB.

For DuckDB, each table is a view with the table's name. A view reads Parquet files: the files of an export, or temporary
files that are written from the runs for one query. So memory does not grow with the number of runs. Only tables whose
names occur in the query are written.
"""

from __future__ import annotations

import glob
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trace_recorder.errors import MissingExtraError
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.frames import schema_of
from trace_recorder.tables.parquet import Batches, TableFiles, part_files

if TYPE_CHECKING:
    import duckdb

_EXPORTED: tuple[Literal["runs"], Literal["transcripts"]] = ("runs", "transcripts")
"""A directory with files of one of these tables is an export."""
_MEMORY = "400MB"
"""DuckDB uses at most about this much memory, and writes more data to a temporary file."""


def is_export(directory: Path) -> bool:
    """Return whether a directory has tables that `export --format parquet` has written."""
    return any(part_files(directory, table) for table in _EXPORTED)


@contextmanager
def query_exports(query: str, directories: Sequence[Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Run a query over exported tables.

    Yield the connection with the query's result. Raises the exceptions of DuckDB.
    """
    with tempfile.TemporaryDirectory() as temporary:
        connection = _connection(temporary)
        for table in TABLES:
            _add_view(connection, table, [path for directory in directories for path in part_files(directory, table)])
        yield connection.execute(query)


@contextmanager
def query_runs(
    query: str, rows_of: Callable[[tuple[TableName, ...]], Iterable[Batches]]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Run a query over runs, and yield the connection with the query's result.

    `rows_of` yields the rows of each run for some tables.
    """
    with tempfile.TemporaryDirectory() as temporary:
        connection = _connection(temporary)
        _check(query)
        tables = tuple(table for table in TABLES if re.search(rf"\b{table}\b", query, re.IGNORECASE))
        if tables:
            with TableFiles(Path(temporary), tables) as files:
                for batches in rows_of(tables):
                    files.add(batches)
        for table in tables:
            _add_view(connection, table, part_files(Path(temporary), table))
        yield connection.execute(query)


def _check(query: str) -> None:
    """Let DuckDB explain a query over empty tables. So a wrong query raises an exception before runs are read."""
    connection: duckdb.DuckDBPyConnection = load_duckdb().connect()
    statements = connection.extract_statements(query)
    for table in TABLES:
        _add_view(connection, table, [])
    if len(statements) == 1 and statements[0].type.name.startswith("SELECT"):
        connection.execute(f"explain {query}")


def _add_view(connection: duckdb.DuckDBPyConnection, table: TableName, files: Sequence[Path]) -> None:
    if files:
        names = [glob.escape(str(path)) for path in files]  # DuckDB reads a path as a pattern
        connection.read_parquet(names, union_by_name=True).create_view(
            table
        )  # files of an older version may lack a column
    else:
        connection.from_arrow(schema_of(table).empty_table()).create_view(table)


def _connection(directory: str) -> duckdb.DuckDBPyConnection:
    connected: duckdb.DuckDBPyConnection = load_duckdb().connect(
        config={"memory_limit": _MEMORY, "temp_directory": directory}
    )
    connected.execute(
        "set TimeZone = 'UTC'"
    )  # otherwise the beginning of a day would depend on the machine's time zone
    return connected


def load_duckdb() -> Any:
    """Import and return DuckDB. Raises MissingExtraError if it is not installed."""
    try:
        return import_module("duckdb")
    except ImportError as error:
        raise MissingExtraError("SQL needs DuckDB: pip install 'trace-recorder[sql]'") from error
