"""Have Hugging Face's datasets load the exported tables.

needs: datasets msgspec genai-prices
usage: PYTHONPATH=. python -m tests.readers.check_datasets DIRECTORY
"""

from __future__ import annotations

from datasets import load_dataset

from tests.readers.table_rows import check_tables

check_tables(
    "datasets", lambda files: load_dataset("parquet", data_files=files, split="train").to_list(), "datasets", "pyarrow"
)
