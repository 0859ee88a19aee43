"""Tables as Parquet files: each part has complete runs, and an interrupted export can be continued."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.cli.invoking import invoke, recorded
from tests.processes import ROOT
from trace_recorder import Trajectory, TrajectoryRecorder, load, to_arrow
from trace_recorder.catalog.index_file import INDEX_NAME, writing
from trace_recorder.tables.columns import TABLES, TableName
from trace_recorder.tables.parquet import PartWriter, TableFiles, run_cells
from trace_recorder.tables.part_files import FORMS, files_state, part_files


@pytest.fixture
def runs(tmp_path: Path) -> list[Trajectory]:
    """Return four runs, the last of which has a reward."""
    made = [load(recorded(tmp_path / "runs" / f"run{number}.json", f"answer {number}")) for number in range(3)]
    with TrajectoryRecorder(tmp_path / "runs" / "run3.json") as recorder:
        answer = {"content": "a", "usage": {"input_tokens": 3, "output_tokens": 2}}
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], answer, "openai", "m")
        recorder.reward("tests", 0.5)
    return [*made, load(tmp_path / "runs" / "run3.json")]


def write(
    files: TableFiles,
    runs: Sequence[Trajectory],
    tables: tuple[TableName, ...] = FORMS["tables"],
    runs_in_part: int = 100,
) -> None:
    """Write the runs that the files lack, in parts of this many runs."""
    missing, _ = files.outdated([run.path for run in runs if run.path is not None])
    waiting = [run for run in runs if run.path in missing]
    while waiting:
        part = PartWriter(tables)
        for run in waiting[:runs_in_part]:
            assert run.path is not None
            part.add(run.path, run_cells(run, tables), files_state(run.path))
        files.add(part.finish())
        waiting = waiting[runs_in_part:]


def rows(directory: Path, table: TableName) -> list[dict[str, Any]]:
    return [row for path in part_files(directory, table) for row in pq.ParquetFile(path).read().to_pylist()]


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_files_have_the_rows_of_the_arrow_tables(runs: list[Trajectory], tmp_path: Path) -> None:
    """The files have the rows of the Arrow tables, each complete runs, and only the owner can read them."""
    with TableFiles(tmp_path / "out", FORMS["tables"]) as files:
        write(files, runs, runs_in_part=1)

    assert names(tmp_path / "out") == sorted(
        f"{table}/part-0000{number}.parquet" for table in FORMS["tables"] for number in range(4)
    )
    for table in ("runs", "calls", "steps", "tool_calls", "messages", "rewards"):
        assert rows(tmp_path / "out", table) == to_arrow(runs, of=table).to_pylist()  # type: ignore[arg-type]
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*.parquet")}
    assert modes == {0o600} or sys.platform == "win32"


def test_files_state_the_meaning_of_their_columns(runs: list[Trajectory], tmp_path: Path) -> None:
    """The metadata of a file has the meaning of each column, and texts are compressed with zstd."""
    with TableFiles(tmp_path / "out", FORMS["tables"]) as files:
        write(files, runs)
    read = pq.ParquetFile(tmp_path / "out" / "calls" / "part-00000.parquet")
    columns = json.loads(read.metadata.metadata[b"trace_recorder.columns"])

    assert [(column["name"], column["meaning"]) for column in columns] == [
        (call.name, call.meaning) for call in TABLES["calls"]
    ]
    assert [column["type"] for column in columns] == [str(field.type) for field in read.schema_arrow]
    meanings = {call.name: call.meaning for call in TABLES["calls"]}
    assert read.schema_arrow.field("cost").metadata[b"description"].decode() == meanings["cost"]
    assert read.metadata.row_group(0).column(0).compression == "ZSTD"


def test_an_export_continues_after_its_last_complete_part(runs: list[Trajectory], tmp_path: Path) -> None:
    """A continued export removes the unfinished part, and has each run once."""
    out = tmp_path / "out"
    with suppress(KeyboardInterrupt), TableFiles(out, FORMS["tables"]):
        raise KeyboardInterrupt
    assert names(out) == []
    with TableFiles(out, FORMS["tables"]) as files:
        write(files, runs[:2], runs_in_part=1)
    (out / "runs" / "part-00001.parquet").unlink()  # the state after a kill right before the last rename
    (out / "calls" / ".part-00002.parquet.tmp").write_bytes(b"PAR1")
    with TableFiles(out, FORMS["tables"], resume=True) as files:
        write(files, runs)

    for table in ("runs", "calls", "messages"):
        assert rows(out, table) == to_arrow(runs, of=table).to_pylist()  # type: ignore[arg-type]
    assert not [name for name in names(out) if name.endswith(".tmp")]


def test_existing_tables_are_replaced_only_if_asked(runs: list[Trajectory], tmp_path: Path) -> None:
    """An export refuses existing tables, and replaces all of them with `force`."""
    out = tmp_path / "out"
    with TableFiles(out, FORMS["tables"]) as files:
        write(files, runs, runs_in_part=1)
    with pytest.raises(FileExistsError, match="--resume"), TableFiles(out, FORMS["tables"]):
        pass
    with TableFiles(out, FORMS["tables"], force=True) as files:
        write(files, runs[:1])

    assert rows(out, "runs") == to_arrow(runs[:1], of="runs").to_pylist()


@pytest.mark.parametrize("jobs", [1, 2])
def test_damaged_running_and_foreign_files_are_counted_and_named(
    runs: list[Trajectory], tmp_path: Path, jobs: int
) -> None:
    """A damaged file is skipped and named with exit code 1, and a running run is written as far as it is recorded."""
    directory = tmp_path / "runs"
    (directory / "damaged.json").write_text("{")
    (directory / "foreign.json").write_text('{"a": 1}')
    running = TrajectoryRecorder(directory / "running.json", task="on")
    running.start()
    result = invoke("export", directory, "-f", "parquet", "-o", tmp_path / "out", "--jobs", jobs)
    again = invoke("export", directory, "-f", "parquet", "-o", tmp_path / "out", "--resume")
    running.finalize()

    assert (result.exit_code, again.exit_code) == (1, 1)
    assert [line.partition(": ")[2].split(": ")[0] for line in result.stderr.splitlines()[2:]] == [
        "5 runs as parquet",
        "1 run still being recorded",
    ]
    assert all(str(directory / name) in result.stderr for name in ("damaged.json", "foreign.json"))
    assert "exported before: 4 runs" in again.stderr  # the running one is read again
    assert [row["status"] for row in rows(tmp_path / "out", "runs")] == ["completed"] * 4 + ["running"]


def test_a_resumed_export_recognises_its_runs_from_a_different_directory(
    runs: list[Trajectory], tmp_path: Path
) -> None:
    """A continued export recognises the runs of an export in another working directory, whose paths were relative."""
    export = [sys.executable, "-m", "trace_recorder", "export", "runs", "-f", "parquet", "-o", "out"]
    subprocess.run(export, cwd=tmp_path, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    result = invoke("export", tmp_path / "runs", "-f", "parquet", "-o", tmp_path / "out", "--resume")

    assert "exported before: 4 runs" in result.stderr
    assert [row["file"] for row in rows(tmp_path / "out", "runs")] == [f"runs/run{number}.json" for number in range(4)]


def test_a_resumed_export_recognises_runs_named_by_absolute_paths(runs: list[Trajectory], tmp_path: Path) -> None:
    """A continued export recognises runs by relative paths if the first export had absolute ones."""
    invoke("export", tmp_path / "runs", "-f", "parquet", "-o", tmp_path / "out")
    resume = [sys.executable, "-m", "trace_recorder", "export", "runs", "-f", "parquet", "-o", "out", "--resume"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(resume, cwd=tmp_path, check=True, capture_output=True, text=True, env=environment)

    assert "exported before: 4 runs" in result.stderr
    assert len(rows(tmp_path / "out", "runs")) == 4


def test_a_damaged_file_can_be_replaced(runs: list[Trajectory], tmp_path: Path) -> None:
    """With `force`, a damaged file is replaced without being read."""
    out = tmp_path / "out"
    (out / "runs").mkdir(parents=True)
    (out / "runs" / "part-00000.parquet").write_bytes(b"x")
    with pytest.raises(FileExistsError), TableFiles(out, FORMS["tables"]):
        pass
    with TableFiles(out, FORMS["tables"], force=True) as files:
        write(files, runs)

    assert rows(out, "runs") == to_arrow(runs, of="runs").to_pylist()


def test_misuse_is_reported(tmp_path: Path) -> None:
    """Several tables to stdout, and a form for tables, are refused."""
    run = recorded(tmp_path / "run.json")

    assert invoke("export", run, "-f", "parquet").exit_code == 2
    assert invoke("export", run, "-f", "parquet", "-o", run).exit_code == 2
    assert invoke("export", run, "-f", "parquet", "-o", tmp_path / "o", "--form", "no").exit_code == 1
    assert invoke("export", run, "-f", "openai", "-o", tmp_path / "o", "--resume").exit_code == 2


def test_scout_gets_its_columns(runs: list[Trajectory], tmp_path: Path) -> None:
    """For Scout, each run is one row, with the conversation as Inspect's messages."""
    invoke("export", tmp_path / "runs", "-f", "parquet", "--form", "scout", "-o", tmp_path / "out")
    transcripts = rows(tmp_path / "out", "transcripts")

    assert [row["transcript_id"] for row in transcripts] == [run.trajectory_id for run in runs]
    assert [row["message_count"] for row in transcripts] == [2] * 4
    assert [row["total_tokens"] for row in transcripts] == [None, None, None, 5]
    assert [(one["role"], one["content"]) for one in json.loads(transcripts[0]["messages"])] == [
        ("user", "q"),
        ("assistant", "answer 0"),
    ]
    assert json.loads(transcripts[3]["score"]) == 0.5


def test_duckdb_finds_the_parts(runs: list[Trajectory], tmp_path: Path) -> None:
    """DuckDB reads the parts by a pattern, and joins the tables by the run's file."""
    with TableFiles(tmp_path / "out", FORMS["tables"]) as files:
        write(files, runs, runs_in_part=1)
    contents = duckdb.sql(
        f"select c.content from '{tmp_path}/out/runs/*.parquet' r join '{tmp_path}/out/calls/*.parquet' c using (file) "
        "where r.rewards[1].value = 0.5"
    ).fetchall()

    assert contents == [("a",)]


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limit of the size of a file")
def test_a_full_disk_leaves_no_file(runs: list[Trajectory], tmp_path: Path) -> None:
    """On a full disk, the error names the file, and no file is left."""
    export = f"ulimit -f 1; exec {sys.executable} -m trace_recorder export runs -f parquet -o out --jobs 1"
    done = subprocess.run(
        ["sh", "-c", export],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "out/runs/part-00000.parquet: File too large" in done.stderr
    assert names(tmp_path / "out") == []


def test_an_added_part_replaces_no_other(runs: list[Trajectory], tmp_path: Path) -> None:
    """A part that is added after an earlier one was removed replaces no other part."""
    out = tmp_path / "out"
    with TableFiles(out, FORMS["tables"]) as files:
        write(files, runs, runs_in_part=1)
    for table in FORMS["tables"]:
        (out / table / "part-00000.parquet").unlink()
    with TableFiles(out, FORMS["tables"], resume=True) as files:
        write(files, runs)

    assert sorted(row["file"] for row in rows(out, "runs")) == [str(run.path) for run in runs]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
def test_a_name_may_have_any_bytes(runs: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A continued export recognises runs and directories whose names have any bytes."""
    directory = tmp_path / os.fsdecode(b"d\xff")
    directory.mkdir()
    monkeypatch.chdir(directory)
    recorded(directory / os.fsdecode(b"run\xfe.json"))
    export = ("export", os.fsdecode(b"run\xfe.json"), "-f", "parquet", "-o", tmp_path / "out")

    assert invoke(*export).exit_code == 0
    assert "exported before: 1 run" in invoke(*export, "--resume").stderr


def test_an_export_that_replaces_leaves_no_temporary_file(runs: list[Trajectory], tmp_path: Path) -> None:
    """With `force`, the temporary file of a killed export is removed."""
    out = tmp_path / "out"
    (out / "calls").mkdir(parents=True)
    (out / "calls" / ".part-00007.parquet.tmp").write_bytes(b"PAR1")
    with TableFiles(out, FORMS["tables"], force=True) as files:
        write(files, runs)

    assert names(out) == sorted(f"{table}/part-00000.parquet" for table in FORMS["tables"])


def test_a_resumed_export_recognises_runs_of_paths_with_parents(
    runs: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export of paths with `..` can be continued in the same working directory, and is refused elsewhere."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    inner = ("export", "work/../runs", "-f", "parquet", "-o", tmp_path / "inner", "--resume")
    made = [invoke(*inner), invoke(*inner)]
    monkeypatch.chdir(tmp_path / "work")
    outer = ("export", "../runs", "-f", "parquet", "-o", tmp_path / "outer", "--resume")
    made += [invoke(*inner[:1], tmp_path / "runs", *inner[2:]), invoke(*outer), invoke(*outer)]
    monkeypatch.chdir(tmp_path)
    refused = invoke(*outer[:1], "runs", *outer[2:])

    assert ["exported before: 4 runs" in result.stderr for result in made] == [False, True, True, False, True]
    assert (refused.exit_code, "use --resume in that directory" in refused.stderr) == (1, True)
    assert [len(rows(tmp_path / name, "runs")) for name in ("inner", "outer")] == [4, 4]


@pytest.mark.skipif(sys.platform == "win32", reason="it has no locks of this kind")
def test_tables_may_be_written_beside_an_index(runs: list[Trajectory], tmp_path: Path) -> None:
    """An indexer and an export can write to the same directory at the same time."""
    with writing(tmp_path / "runs" / INDEX_NAME, tmp_path / "runs"):
        result = invoke("export", tmp_path / "runs", "-f", "parquet", "-o", tmp_path / "runs")

    assert result.exit_code == 0
    assert len(rows(tmp_path / "runs", "runs")) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="it has no locks of this kind")
def test_a_simultaneous_export_to_a_directory_is_refused(runs: list[Trajectory], tmp_path: Path) -> None:
    """While an export writes, a second one to the same directory is refused; afterwards it works."""
    recorded(tmp_path / "runs" / "run.json", "answer")
    out = tmp_path / "out"
    with TableFiles(out, FORMS["tables"]) as files:
        write(files, runs)
        refused = invoke("export", tmp_path / "runs", "-f", "parquet", "-o", out, "--resume")
    resumed = invoke("export", tmp_path / "runs", "-f", "parquet", "-o", out, "--resume")

    assert (refused.exit_code, "another process writes into it" in refused.stderr) == (1, True)
    assert resumed.exit_code == 0
    assert len(rows(out, "runs")) == len(runs) + 1


def test_runs_with_the_same_relative_path_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs with the same relative path in two working directories are two runs, and no file names these directories."""
    command = ("export", "runs", "-f", "parquet", "-o", tmp_path / "out", "--resume")
    for place in ("here", "there", "here"):
        if not (tmp_path / place).exists():
            recorded(tmp_path / place / "runs" / "run.json", place)
        monkeypatch.chdir(tmp_path / place)
        assert invoke(*command).exit_code == 0

    assert len(rows(tmp_path / "out", "runs")) == 2
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet"))
    assert os.fsencode(tmp_path) not in written
