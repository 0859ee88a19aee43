"""The tool `run_sql`: one SELECT of DuckDB on the tables of the runs, or on tables that `export` has written.

`tables/sql.py` lets a query open no file but those of its tables, and locks the configuration. Here, a query must also
be one that only selects, and its time, its memory, its temporary files and its rows are limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from trace_recorder.catalog.query import parse_query
from trace_recorder.mcp_server.answers import Cutter, Json
from trace_recorder.mcp_server.listing import INDEX_ADVICE, failures_of
from trace_recorder.mcp_server.served_runs import MatchingRunReader, ServedRuns, WorkTime
from trace_recorder.mcp_server.server_tool import Query, ServerTool, ToolArguments
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.parquet import PartFiles, PartWriter, run_cells
from trace_recorder.tables.part_files import files_state, part_files
from trace_recorder.tables.sql import (
    SqlLimits,
    is_export,
    json_of_cell,
    load_duckdb,
    query_exports,
    query_runs,
    sql_error_text,
)
from trace_recorder.viewer.parameters import BadRequestError

MAX_ROWS = 1000
SQL_SECONDS = 10.0
TEMPORARY_BYTES = 1_000_000_000


class RunSql(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `run_sql`."""

    sql: Annotated[str, Meta(description="One SELECT in DuckDB's SQL.", min_length=1, max_length=20_000)]
    query: Query = ""
    limit: Annotated[int, Meta(description="At most this many rows.", ge=1, le=MAX_ROWS)] = 100


def run_sql(runs: ServedRuns, arguments: RunSql, time: WorkTime) -> Json:
    """Return rows of a query's result."""
    duckdb = load_duckdb()
    reader = MatchingRunReader(parse_query(arguments.query))
    try:
        statements = duckdb.extract_statements(arguments.sql)
        if len(statements) != 1 or statements[0].type.name != "SELECT":
            raise BadRequestError("give one statement that only reads: a SELECT")
        with _result(runs, arguments, reader, time) as result:
            columns = [column[0] for column in result.description or ()]
            rows = result.fetchmany(arguments.limit + 1)
    except duckdb.InterruptException:
        raise BadRequestError(f"the query was stopped after {SQL_SECONDS:.0f} seconds") from None
    except duckdb.Error as error:
        raise BadRequestError(sql_error_text(error)) from None
    answer = failures_of(reader) | {"columns": Cutter(1000).fit(columns, None)}
    cutter = Cutter(arguments.max_characters - 3500)
    shown: list[list[Any]] = []
    for row in rows[: arguments.limit]:
        if shown and cutter.remaining <= 0:
            break
        shown.append([cutter.fit(json_of_cell(value), None) for value in row])
    answer["rows"] = shown
    if len(shown) < len(rows):
        answer["more_rows"] = f"there are more: add `LIMIT … OFFSET {len(shown)}` and an ORDER BY"
    return answer


def _result(
    runs: ServedRuns, arguments: RunSql, reader: MatchingRunReader, time: WorkTime
) -> AbstractContextManager[Any]:
    """Return the result of the query, on exported tables if the directory has them."""
    limits = SqlLimits(SQL_SECONDS, TEMPORARY_BYTES)
    if is_export(runs.directory):
        outside = [
            file
            for table in TABLES
            for file in part_files(runs.directory, table)
            if not file.resolve().is_relative_to(runs.directory)
        ]
        if outside or arguments.query:
            raise BadRequestError("the directory has exported tables: links out of it, and `query`, are refused")
        return query_exports(arguments.sql, [runs.directory], limits)

    def parts_of(tables: tuple[TableName, ...]) -> Iterator[PartFiles]:
        part = PartWriter(tables)
        for candidate in runs.found(reader.terms):
            if time.is_over:
                raise BadRequestError(f"reading the runs takes too long: select fewer with `query`. {INDEX_ADVICE}")
            trajectory = reader.read(candidate)
            if trajectory is not None:
                path = Path(candidate.identity)
                part.add(path, run_cells(replace(trajectory, path=path), tables), files_state(candidate.path))
            if part.is_full:
                yield part.finish()
                part = PartWriter(tables)
        yield part.finish()

    return query_runs(arguments.sql, parts_of, limits)


_TABLES = "; ".join(f"{name} ({', '.join(column.name for column in columns)})" for name, columns in TABLES.items())
RUN_SQL = ServerTool(
    "run_sql",
    f"Run one SELECT in DuckDB's SQL on the runs. The tables with their columns: {_TABLES}. `file` is the `id` of a "
    "run. It can read no files, load no extensions and change no settings. A long cell is cut: substr() reads parts of "
    "it.",
    RunSql,
    run_sql,
    seconds=30.0,
)
