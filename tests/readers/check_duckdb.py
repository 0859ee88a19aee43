"""Have DuckDB read the exported tables.

needs: duckdb msgspec genai-prices
usage: PYTHONPATH=. python -m tests.readers.check_duckdb DIRECTORY
"""

from __future__ import annotations

import duckdb

from tests.readers.table_rows import Rows, check_tables


def read(files: str) -> Rows:
    """Return the rows of files."""
    result = duckdb.sql(f"select * from '{files}'")
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


check_tables("DuckDB", read, "duckdb")
