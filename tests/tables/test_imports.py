"""pyarrow, duckdb and Ray, which are extras, are imported only when they are needed."""

from __future__ import annotations

from pathlib import Path

from tests.cli.invoking import invoke, recorded
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


def test_tables_without_news_import_no_extra(tmp_path: Path) -> None:
    """`--resume` compares the states of files without pyarrow, whose import takes longer than a look at many files."""
    recorded(tmp_path / "runs" / "run.json")
    export = ["export", str(tmp_path / "runs"), "-f", "parquet", "-o", str(tmp_path / "out"), "--resume"]
    invoke(*export)
    done = python(
        f"""
        import sys
        from trace_recorder.cli.app import COMMANDS, app_of
        app_of(COMMANDS)({export!r}, standalone_mode=False)
        print({{"pyarrow", "numpy"}} & sys.modules.keys())
        """
    )

    assert (done.stdout, "exported before: 1 run" in done.stderr) == ("set()\n", True)
