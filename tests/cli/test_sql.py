"""`trace-recorder sql`: queries over runs and over exported tables, their output, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.invoking import invoke, recorded
from tests.processes import ROOT


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with three runs, one of which did not succeed."""
    for number, success in enumerate((True, True, False)):
        recorded(tmp_path / "runs" / f"run{number}.json", f"answer {number}", success=success)
    return tmp_path / "runs"


QUERY = "select c.content, r.success from runs r join calls c using (file) order by 1"


def test_a_query_of_runs_and_of_their_export_is_the_same(runs: Path, tmp_path: Path) -> None:
    """The answer is the same for temporary and for exported tables, as lines and as JSON."""
    invoke("export", runs, "-f", "parquet", "-o", tmp_path / "out")
    results = [invoke("sql", QUERY, where, *more) for where in (runs, tmp_path / "out") for more in ([], ["--json"])]

    assert [result.exit_code for result in results] == [0] * 4
    assert (
        results[0].stdout
        == results[2].stdout
        == ("content   success\nanswer 0  true\nanswer 1  true\nanswer 2  false\n")
    )
    assert results[1].stdout == results[3].stdout
    assert json.loads(results[1].stdout) == [
        {"content": f"answer {number}", "success": number < 2} for number in range(3)
    ]


def test_a_table_may_be_used_twice_in_a_query(runs: Path) -> None:
    """A query may join a table with itself to compare runs."""
    said = invoke("sql", "select count(*) from messages a, messages b where a.file < b.file", runs)

    assert said.stdout.split() == ["count_star()", "3"]


def test_sql_values_are_printed_as_json(runs: Path) -> None:
    """Times are printed in ISO 8601, structures as objects, and an empty result as an empty list."""
    query = (
        "select timestamptz '2025-06-12 20:00:00+00' as t, 1.5::decimal(3, 1) as d, call_ranges from messages limit 1"
    )
    [row] = json.loads(invoke("sql", query, runs, "--json").stdout)

    assert row["t"].startswith("2025-06-12T")
    assert (row["d"], row["call_ranges"]) == (1.5, [{"first": 1, "last": 1}])
    assert invoke("sql", "select 1 where false", runs, "--json").stdout == "[]\n"
    assert invoke("sql", "select file from rewards", runs).stdout == "file\n"


def test_a_long_cell_is_shortened_without_full(runs: Path) -> None:
    """A long cell is shortened unless the user asks for all of it. Control characters and line breaks are escaped."""
    query = "select 'a\n\x1b' || repeat('b', 100) as t"
    short, full = (invoke("sql", query, runs, *more).stdout.splitlines()[1] for more in ([], ["--full"]))

    assert (len(short), short[-3:], full[-4:]) == (60, "...", "bbbb")
    assert "\x1b" not in full
    assert full.startswith("a\\n")


def test_an_unreadable_run_is_named(runs: Path) -> None:
    """`sql` names an unreadable run, queries the others, and exits with 1."""
    (runs / "damaged.json").write_text("{")
    result = invoke("sql", "select count(*) as n from runs", runs)

    assert (result.exit_code, result.stdout) == (1, "n\n3\n")
    assert str(runs / "damaged.json") in result.stderr


@pytest.mark.parametrize("query", ["selec", "select no from runs", "select * from nothing"])
def test_an_invalid_query_is_reported(runs: Path, query: str) -> None:
    """The report is one sentence."""
    result = invoke("sql", query, runs)

    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert "Error: " in result.stderr


@pytest.mark.parametrize("query", ["", ";", "/* later */"])
def test_a_query_without_a_statement_is_reported(runs: Path, query: str) -> None:
    """The report is one sentence."""
    result = invoke("sql", query, runs)

    assert (result.exit_code, result.stderr) == (1, "trace-recorder: the query has no statement\n")


FORBIDDEN = (
    "copy runs to '{target}'",
    "copy (select 1) to '{part}' (format csv, use_tmp_file false)",
    "explain analyze copy (select 1) to '{part}' (format csv, use_tmp_file false)",
    "prepare p as copy (select 1) to '{part}' (format csv, use_tmp_file false); execute p",
    "copy (pivot runs on status using count(*)) to '{part}' (format csv, use_tmp_file false)",
    "create table t as select 1; copy t from '{secret}'",
    "export database '{target}'",
    "import database '{target}'",
    "attach '{target}'",
    "attach '{target}' as other; create table other.t as select 1",
    "select * from read_text('{secret}')",
    "select * from read_blob('{secret}')",
    "select * from read_csv('{secret}')",
    "select * from sniff_csv('{secret}')",
    "select * from '{secret}'",
    "select * from glob('{directory}/*')",
    "install httpfs",
    "load httpfs",
    "create secret s (type s3)",
    "select * from duckdb_secrets()",
    "select getenv('HOME')",
    "set enable_external_access = true",
    "reset enable_external_access",
    "set allowed_paths = ['{secret}']",
    "set lock_configuration = false",
    "set memory_limit = '100GB'",
    "set temp_directory = '{directory}'",
    "pragma profiling_output = '{target}'",
    "pragma enable_profiling = 'json'",
    "call enable_logging(storage = 'file', storage_path = '{target}')",
    "select * from query",
    "select * from names",
)
"""Queries that would read or write something other than the tables, or see variables of this package."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run, its exported tables, and a text file that is neither."""
    directory = tmp_path_factory.mktemp("sql")
    recorded(directory / "runs" / "run.json", "answer")
    invoke("export", directory / "runs", "-f", "parquet", "-o", directory / "out")
    (directory / "secret.txt").write_text("a,b\n1,hunter2\n")
    return directory


@pytest.mark.parametrize("query", FORBIDDEN)
def test_a_query_reads_and_writes_only_its_tables(directory: Path, query: str) -> None:
    """A query cannot open a file, load an extension, see variables or change a setting. No file changes."""
    part = directory / "out" / "runs" / "part-00000.parquet"
    names = {"target": directory / "target", "part": part, "secret": directory / "secret.txt", "directory": directory}
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    results = [invoke("sql", query.format(**names), directory / where, "--jobs", "1") for where in ("runs", "out")]

    assert [(result.exit_code, len(result.stderr.splitlines())) for result in results] == [(1, 1), (1, 1)]
    assert not any("hunter2" in result.output for result in results)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "query",
    [
        "select '1 copy' as n",
        'select "copy" from (select 1 as "copy") -- copy',
        "create macro twice(x) as 2 * x; select twice(1)",
        "set variable wanted = 'completed'; from runs select count(*) where status = getvariable('wanted')",
        "explain analyze select * from runs",
        "summarize runs",
        "show tables",
        "pivot runs on status using count(*)",
    ],
)
def test_a_query_may_use_the_rest_of_sql(directory: Path, query: str) -> None:
    """Macros, variables, plans and summaries work, and "copy" may be a text or a quoted name."""
    result = invoke("sql", query, directory / "runs", "--jobs", "1")

    assert (result.exit_code, result.stderr) == (0, "")


def test_any_sql_value_is_json(runs: Path) -> None:
    """Keys of maps become strings, NaN becomes null, and columns of the same name get different names."""
    query = (
        "select map([date '2020-01-01'], [1.5::decimal(3, 1)]) as a, map([true], [null]) as a, 'nan'::double as n, "
        "['inf'::float] as l, '<' as a_1 from runs limit 1"
    )
    said = invoke("sql", query, runs, "--json").stdout

    assert "NaN" not in said
    assert json.loads(said) == [{"a": {"2020-01-01": 1.5}, "a_1": {"true": None}, "n": None, "l": [None], "a_1_1": "<"}]
    assert '{"2020-01-01": 1.5}' in invoke("sql", query, runs).stdout


def test_column_names_are_printed_in_one_line(runs: Path) -> None:
    """Line breaks in a column's name, which a pivot takes from data, are escaped."""
    said = invoke("sql", "pivot (select 'a\n' || chr(27) as k, 1 as v from runs) on k using sum(v)", runs)

    assert said.stdout.splitlines()[1:] == ["3"]
    assert "\x1b" not in said.stdout


@pytest.mark.parametrize("name", ["o*", "o[1]", "o?"])
@pytest.mark.skipif(sys.platform == "win32", reason="it has no such names")
def test_the_name_of_an_export_is_not_a_pattern(runs: Path, tmp_path: Path, name: str) -> None:
    """Only the files in the directory of exactly that name are queried."""
    invoke("export", runs, "-f", "parquet", "-o", tmp_path / "o1")
    invoke("export", runs, "-f", "parquet", "-o", tmp_path / name)

    assert invoke("sql", "select count(*) as n from runs", tmp_path / name).stdout == "n\n3\n"


def test_times_are_in_utc(runs: Path) -> None:
    """The machine's time zone does not change results, unless the query names a zone."""
    query = "select timestamptz '2025-06-12 23:00:00+00' as t, date_trunc('day', t)::date as d from runs limit 1"
    command = [sys.executable, "-m", "trace_recorder", "sql", query, str(runs), "--jobs", "1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo"}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    tokyo = invoke("sql", f"set TimeZone = 'Asia/Tokyo'; {query}", runs).stdout

    assert said.splitlines()[1].split() == ["2025-06-12T23:00:00+00:00", "2025-06-12"]
    assert tokyo.splitlines()[1].split() == ["2025-06-13T08:00:00+09:00", "2025-06-13"]


def test_a_part_of_an_older_version_may_lack_a_column(runs: Path, tmp_path: Path) -> None:
    """If a newer version continued an export, the older rows have null in a new column."""
    invoke("export", runs / "run0.json", "-f", "parquet", "-o", tmp_path / "out")
    part = tmp_path / "out" / "runs" / "part-00000.parquet"
    pq.write_table(pq.ParquetFile(part).read().drop_columns(["status"]), part)
    invoke("export", runs, "-f", "parquet", "-o", tmp_path / "out", "--resume")

    said = invoke("sql", "select count(status) as known, count(*) as n from runs", tmp_path / "out")
    assert said.stdout.splitlines()[1].split() == ["2", "3"]


def test_tables_and_runs_cannot_be_mixed(runs: Path, tmp_path: Path) -> None:
    """A query cannot read tables and runs together, because their rows would be counted twice."""
    invoke("export", runs, "-f", "parquet", "-o", tmp_path / "out")

    assert invoke("sql", "select 1", tmp_path / "out", runs).exit_code == 1
