"""Checks what a reader of Parquet has of the exported tables: every row of every run, value by value.

The expected values are made from the runs themselves, without pyarrow (`tables/rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from tests.readers.reading import Reader, directory, finish, runs
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.rows import cells_of
from trace_recorder.values.trajectory import Trajectory

Rows = list[dict[str, Any]]


def check_tables(name: str, read: Callable[[str], Rows], *packages: str) -> NoReturn:
    """Make a reader read each table by the pattern of its files, compare the values, and print the results."""
    readers = []
    for table in TABLES:
        form = "parquet-scout" if table == "transcripts" else "parquet"
        reader = Reader(f"{name}: {table}", "rows of runs", *packages)
        by_run: dict[str, Rows] = {}
        reader.take(
            f"the files of {table}",
            lambda table=table, form=form, found=by_run: found.update(
                by_file(read(str(directory() / form / table / "*.parquet")), table)
            ),
        )
        for _, run in runs():
            reader.take(f"{table} of {run.path}", lambda run=run, table=table, found=by_run: compare(run, table, found))
        readers.append(reader)
    finish(*readers)


def by_file(rows: Rows, table: TableName) -> dict[str, Rows]:
    """Return the rows of each run by its file."""
    found: dict[str, Rows] = {}
    for row in rows:
        found.setdefault(str(Path(row["source_uri" if table == "transcripts" else "file"])), []).append(row)
    return found


def compare(run: Trajectory, table: TableName, by_run: dict[str, Rows]) -> None:
    """Raise an error if a run's rows differ from the expected rows."""
    cells = cells_of(run, table)
    expected = [
        {name: plain(value) for name, value in zip(cells, values, strict=True)}
        for values in zip(*cells.values(), strict=True)
    ]
    read = [{name: plain(value) for name, value in row.items()} for row in by_run.get(str(run.path), [])]
    assert len(read) == len(expected), f"{len(read)} rows in the place of {len(expected)}"
    for number, (one, other) in enumerate(zip(read, expected, strict=True)):
        for name, value in other.items():
            assert one[name] == value, f"row {number}, {name}: {one[name]!r} in the place of {value!r}"


def plain(value: Any) -> Any:
    """Return a value without the types of a library: lists of named values as objects, times in UTC, no NaN."""
    value = value.tolist() if hasattr(value, "tolist") else value
    value = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    if value is None or value != value or type(value).__name__ in {"NaTType", "NAType"}:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        members = {name: plain(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in {None, False}} or None
    if isinstance(value, list | tuple):
        elements = [plain(one) for one in value]
        named = elements and all(
            isinstance(element, dict) and element.keys() <= {"name", "value"} for element in elements
        )
        return {element["name"]: element.get("value") for element in elements} if named else elements or None
    return value
