"""The command `sql`: runs a query of DuckDB on the tables of runs or of an export."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, Full, Jobs, paths_or_default
from trace_recorder.cli.engines import in_order, jobs_for
from trace_recorder.cli.output import RunLoop, fail
from trace_recorder.cli.read_files import UnreadableError, process, process_or_error, read_run
from trace_recorder.cli.selecting import select_runs
from trace_recorder.cli.text_layout import in_one_line
from trace_recorder.tables.columns import TableName
from trace_recorder.tables.parquet import PART_RUNS, PartFiles, PartWriter, divide_runs, run_cells
from trace_recorder.tables.part_files import files_state
from trace_recorder.tables.sql import is_export, json_of_cell, load_duckdb, query_exports, query_runs, sql_error_text
from trace_recorder.values.control_characters import escape_json_text

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="A query in DuckDB's SQL. docs/tables.md lists the tables.")
]
Rows = list[tuple[Any, ...]]
"""A group of rows of a result."""
_ROWS = 1000
"""This many rows are fetched and aligned at a time."""
_MAX_CELL = 60
"""Longer cells are cut, unless --full is given."""


def sql(
    query: Query, paths: DefaultRuns = None, as_json: AsJson = False, full: Full = False, jobs: Jobs = None
) -> None:
    """Query runs with SQL.

    The tables are runs, calls, steps, tool_calls, messages, rewards and transcripts. If `export --format parquet` has
    written the directory, its files are queried directly. Otherwise the runs are read for each query.

    A run that cannot be read is reported and skipped; the exit code is then 1.
    """
    paths = paths_or_default(paths)
    errors: type[Exception] = load_duckdb().Error
    failed: list[int] = []
    try:
        if not load_duckdb().extract_statements(query):
            fail("the query has no statement")
        with _result(query, paths, jobs, failed) as result:
            columns = [column[0] for column in result.description or ()]
            groups: Iterator[Rows] = iter(partial(result.fetchmany, _ROWS), [])
            if as_json:
                _print_json(columns, groups)
            else:
                _print_table(columns, groups, full=full)
    except errors as error:
        fail(sql_error_text(error))
    if any(failed):
        raise typer.Exit(1)


def _result(query: str, paths: Sequence[Path], jobs: int | None, failed: list[int]) -> AbstractContextManager[Any]:
    """Return the result of a query. The number of runs that cannot be read is appended to `failed`."""
    exports = [path for path in paths if process(path, partial(is_export, path), "listed")]
    if exports:
        if len(exports) < len(paths):
            raise UnreadableError(f"{exports[0]} has exported tables, and other paths have runs: query them separately")
        return query_exports(query, exports)
    runs = select_runs(paths).paths

    def parts(tables: tuple[TableName, ...]) -> Iterator[PartFiles]:
        tasks = [*divide_runs(runs, PART_RUNS)]
        loop, processes = RunLoop(len(tasks)), min(len(tasks), jobs_for(runs, jobs))
        done = in_order(partial(_part_of_runs, tables), tasks, processes)
        yield from loop.over(chain.from_iterable(done))
        failed.append(loop.failed)

    return query_runs(query, parts)


def _part_of_runs(tables: tuple[TableName, ...], runs: Sequence[Path]) -> list[PartFiles | UnreadableError]:
    """Return why runs cannot be read, and a part with the other runs. A separate process may call this."""
    part = PartWriter(tables)
    done: list[PartFiles | UnreadableError] = []
    for path in runs:
        state = files_state(path)
        cells = process_or_error(path, lambda path=path: run_cells(read_run(path), tables), "read")  # type: ignore[misc]
        if isinstance(cells, UnreadableError):
            done.append(cells)
        else:
            part.add(path, cells, state)
    return [*done, part.finish()]


def _print_json(columns: Sequence[str], groups: Iterator[Rows]) -> None:
    """Print the rows as a JSON list, with one object on each line."""
    before, names = "[", _member_names(columns)
    for rows in groups:
        for row in rows:
            line = json.dumps(dict(zip(names, map(json_of_cell, row), strict=True)))
            sys.stdout.write(f"{before}\n{escape_json_text(line)}")
            before = ","
    if before == "[":
        sys.stdout.write("[]\n")
    else:
        sys.stdout.write("\n]\n")


def _member_names(columns: Sequence[str]) -> list[str]:
    """Return the names of columns, all different: a second `file` becomes `file_1`, as in DuckDB's data frames."""
    names: list[str] = []
    for column in columns:
        others = (f"{column}_{number}" for number in count(1))
        names.append(next(name for name in chain([column], others) if name not in names))
    return names


def _print_table(columns: Sequence[str], groups: Iterator[Rows], *, full: bool) -> None:
    """Print rows as lines with aligned cells."""
    header = [[*map(in_one_line, columns)]]
    for rows in chain(groups, [[]]):
        lines = [*header, *([_cell(value, full=full) for value in row] for row in rows)]
        if not lines:
            return
        header = []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            sys.stdout.write("  ".join(map(str.ljust, line, widths)).rstrip() + "\n")


def _cell(value: Any, *, full: bool) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | int | float):  # a float stays as it is: NaN is not null in a table
        value = json_of_cell(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    text = in_one_line(value)
    if not full and len(text) > _MAX_CELL:
        text = f"{text[: _MAX_CELL - 3]}..."
    return text
