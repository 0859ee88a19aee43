"""pyarrow, duckdb and Ray, which are extras, are imported only when they are needed."""

from __future__ import annotations

from tests.processes import python


def test_nothing_imports_an_extra_before_it_is_needed() -> None:
    """Importing the package, its commands and the modules of tables imports no extra."""
    done = python(
        """
        import sys
        from trace_recorder import read_runs, to_arrow, to_dataframe
        from trace_recorder.cli.app import COMMANDS, app_of; app_of(COMMANDS)
        from trace_recorder.tables import parquet, ray_data, sql
        print({"pyarrow", "duckdb", "ray", "fsspec", "pandas", "polars"} & sys.modules.keys())
        """
    )

    assert (done.stdout, done.stderr) == ("set()\n", "")
