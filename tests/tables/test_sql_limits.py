"""The limits of a query: DuckDB is interrupted, and its temporary files are limited."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from trace_recorder.tables.sql import SqlLimits, query_exports, query_runs

ENDLESS = "select count(*) from range(10000000) a(n), range(10000000) b(n) where a.n % 7 < b.n % 5"


def test_a_query_is_interrupted(tmp_path: Path) -> None:
    """A query over runs or exported tables stops when its time is over. A query without limits is not affected."""
    limits = SqlLimits(seconds=0.2, temporary_bytes=10**9)
    with pytest.raises(duckdb.InterruptException), query_runs(ENDLESS, lambda _: (), limits) as result:
        result.fetchall()
    with pytest.raises(duckdb.InterruptException), query_exports(ENDLESS, [tmp_path], limits) as result:
        result.fetchall()
    with query_runs("select 1", lambda _: ()) as result:
        assert result.fetchall() == [(1,)]


@pytest.mark.skipif("TRACE_RECORDER_LARGE_ANSWER" not in os.environ, reason="it sorts a gigabyte: nox -s mcp")
def test_temporary_files_are_limited() -> None:
    """A sort that needs more temporary files than it may have fails."""
    sort = "select * from (select hash(n) h, repeat('x', 200) t from range(6000000) r(n)) order by h offset 5999999"
    with pytest.raises(duckdb.Error, match=r"memory|temp"):
        with query_runs(sort, lambda _: (), SqlLimits(60, 1_000_000)) as result:
            result.fetchall()
