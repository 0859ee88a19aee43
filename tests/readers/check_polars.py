"""Have polars read the exported tables.

needs: polars msgspec genai-prices
usage: PYTHONPATH=. python -m tests.readers.check_polars DIRECTORY
"""

from __future__ import annotations

import polars

from tests.readers.table_rows import check_tables

check_tables("polars", lambda files: polars.scan_parquet(files).collect().to_dicts(), "polars")
