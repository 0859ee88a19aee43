"""Have pandas read the exported tables.

needs: pandas pyarrow msgspec genai-prices
usage: PYTHONPATH=. python -m tests.readers.check_pandas DIRECTORY
"""

from __future__ import annotations

from pathlib import Path

import pandas

from tests.readers.table_rows import Rows, check_tables


def read(files: str) -> Rows:
    """Return the rows of a directory of files."""
    rows: Rows = pandas.read_parquet(Path(files).parent).to_dict("records")
    return rows


check_tables("pandas", read, "pandas", "pyarrow")
