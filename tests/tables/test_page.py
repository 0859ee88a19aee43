"""docs/tables.md lists the columns of the code."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from tests.cli.invoking import invoke, recorded
from tests.processes import ROOT
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.frames import schema_of
from trace_recorder.tables.sql import query_exports

PAGE = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> list[tuple[str, str, str]]:
    """Return the columns in a section of the page: name, type, and meaning. A column may be as in another table."""
    section = PAGE.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    columns = []
    for name, kind, meaning, table in re.findall(
        r"^- `(\w+)`(?:, `(.*?)`: (.*)|: as in `(\w+)`)$", section, re.MULTILINE
    ):
        [column] = [one for one in rows_of(table) if one[0] == name] if table else [(name, kind, meaning)]
        columns.append(column)
    return columns


@pytest.mark.parametrize("table", TABLES)
def test_the_page_has_the_columns(table: TableName) -> None:
    """docs/tables.md has all columns with name, Arrow type and meaning, in order, and lists the columns of all tables
    once.
    """
    first = [] if table == "transcripts" else rows_of("first columns")
    if table == "tool_calls":
        run_success = TABLES[table][4]
        assert run_success.name == "run_success"
        first[4:] = [(run_success.name, first[4][1], run_success.meaning)]

    assert [*first, *rows_of(table)] == [
        (column.name, str(field.type), column.meaning)
        for column, field in zip(TABLES[table], schema_of(table), strict=True)
    ]


def test_a_column_means_the_same_in_every_table() -> None:
    """A column has the same meaning in every table, except in Scout's tables and for columns that the run or the tool
    names.
    """
    meanings: dict[str, set[str]] = {}
    for table, columns in TABLES.items():
        for column in columns if table != "transcripts" else ():
            meanings.setdefault(column.name, set()).add(column.meaning)

    assert {name for name, found in meanings.items() if len(found) > 1} <= {"success", "name", "provider", "model"}


def test_the_queries_of_the_page_run(tmp_path: Path) -> None:
    """The queries of docs/tables.md run over the tables of an export."""
    recorded(tmp_path / "runs" / "run.json", "permission denied")
    invoke("export", tmp_path / "runs", "-f", "parquet", "-o", tmp_path / "tables")
    queries = [one for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) for one in block.split(";")]

    assert len([one for one in queries if one.strip()]) == 3
    for query in filter(str.strip, queries):
        with query_exports(query, [tmp_path / "tables"]) as result:
            assert isinstance(result, duckdb.DuckDBPyConnection)
            result.fetchall()
