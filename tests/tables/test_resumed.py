"""Tables that are brought up to date have the rows that `load` gives, after any changes of the runs, and after kills.

`nox -s kills` tries each system call.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest

from tests.cli.invoking import recorded
from tests.faults.killed_calls import Killer
from trace_recorder import TrajectoryRecorder, load_all, to_arrow
from trace_recorder.cli.export_files import Export, ExportTarget
from trace_recorder.cli.export_run import Conversion
from trace_recorder.cli.read_files import find_runs
from trace_recorder.recording.amend import append_rewards
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.tables.columns import Of
from trace_recorder.tables.part_files import FORMS, part_files, states_in

STEP = int(os.environ.get("TRACE_RECORDER_TABLES_STEP", "25"))
"""Every so many calls, one is tried."""
Rows = dict[str, list[dict[str, Any]]]


def export(directory: Path, out: Path, *, resume: bool = False, part_runs: int = 3) -> list[str]:
    """Write tables of runs with few runs in a part, and return what is said about them."""
    exported = Export(
        Conversion("parquet", resume=resume), ExportTarget(directory=out), sources=[directory], part_runs=part_runs
    )
    exported.run([*find_runs([directory])])
    assert exported.total.failed == []
    return [*exported.summary(str(out))]


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["file"])  # rows of a run keep their order


def tables_in(out: Path) -> Rows:
    """Return the rows of all tables, those of a run together."""
    parts = {table: part_files(out, table) for table in FORMS["tables"]}
    assert len({tuple(path.name for path in paths) for paths in parts.values()}) == 1
    return {
        table: sorted_rows([row for path in paths for row in pq.ParquetFile(path).read().to_pylist()])
        for table, paths in parts.items()
    }


def rows_of_load(directory: Path) -> Rows:
    runs = [*load_all(directory)]
    return {of: sorted_rows(to_arrow(runs, of=of).to_pylist()) for of in get_args(Of)}


def files_of(run: Path) -> list[Path]:
    return [path for path in (run, journal_path_for(run)) if path.exists()]


def change(directory: Path, chosen: random.Random, number: int) -> None:
    """Add, change, delete or move a run."""
    runs = sorted(directory.rglob("*.json"))
    match chosen.choice(["add", "change", "delete", "move", "lose the document"]):
        case "add":
            recorded(directory / f"added{number}.json", f"answer {number}", metadata={"number": number})
        case "change":
            append_rewards(chosen.choice([*directory.rglob("added*.json")]), [{"name": f"r{number}", "value": number}])
        case "delete":
            for file in files_of(chosen.choice(runs)):
                file.unlink()
        case "move":
            (directory / f"below{number}").mkdir()
            for file in files_of(chosen.choice(runs)):
                file.rename(directory / f"below{number}" / file.name)
        case "lose the document":
            run = chosen.choice([*directory.rglob("added*.json")])
            run.unlink()


@pytest.mark.parametrize("seed", range(3))
def test_changed_runs_have_the_rows_that_load_gives(paths: Mapping[str, Path], tmp_path: Path, seed: int) -> None:
    """Runs of every structure are added, changed, deleted and moved. Tables brought up to date, and new ones, have the
    rows of `to_arrow`, and no part without a run is left.
    """
    directory, chosen = tmp_path / "runs", random.Random(seed)
    shutil.copytree(next(iter(paths.values())).parent, directory)
    for number in range(6):
        recorded(directory / f"added{number}.json", f"answer {number}")
    export(directory, tmp_path / "out")
    for number in range(10, 22):
        change(directory, chosen, number)
        if number % 3 == 0:
            export(directory, tmp_path / "out", resume=True)

            assert tables_in(tmp_path / "out") == rows_of_load(directory)
    export(directory, tmp_path / "new")
    assert tables_in(tmp_path / "new") == rows_of_load(directory)
    assert all(map(states_in, part_files(tmp_path / "out", "runs")))
    assert "0 runs as parquet" in export(directory, tmp_path / "out", resume=True)[0]


def test_only_runs_that_changed_are_read(tmp_path: Path) -> None:
    """`--resume` reads the runs that are new or changed, and writes only the parts that had changed runs."""
    directory, out = tmp_path / "runs", tmp_path / "out"
    for number in range(9):
        recorded(directory / f"run{number}.json")
    export(directory, out)
    before = {path: path.stat().st_ino for path in out.rglob("*.parquet")}
    append_rewards(directory / "run4.json", [{"name": "r", "value": 1}])
    (directory / "run8.json").unlink()
    (directory / "run8.jsonl").unlink()
    recorded(directory / "run9.json")
    said = export(directory, out, resume=True)

    assert said == [
        f"2 runs as parquet: 6 files, in {out}",
        "exported before: 7 runs",
        "removed, because their files are gone: 1 run",
    ]
    after = {path: path.stat().st_ino for path in before}
    assert {path.name for path in before if after[path] != before[path]} == {"part-00001.parquet", "part-00002.parquet"}


def test_runs_of_other_directories_stay(tmp_path: Path) -> None:
    """A run that is gone stays in the tables if another directory is exported, or its own file is not looked for."""
    for name in ("a", "b"):
        recorded(tmp_path / name / "run.json")
    out = tmp_path / "out"
    export(tmp_path / "a", out)
    shutil.rmtree(tmp_path / "a")
    export(tmp_path / "b", out, resume=True)

    assert [row["file"] for row in tables_in(out)["runs"]] == [str(tmp_path / name / "run.json") for name in ("a", "b")]


def test_a_run_that_was_recorded_is_read_again(tmp_path: Path) -> None:
    """A run that was still being recorded is read again, even if its files stay as they are."""
    running = TrajectoryRecorder(tmp_path / "runs" / "run.json")
    running.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
    export(tmp_path / "runs", tmp_path / "out")
    again = export(tmp_path / "runs", tmp_path / "out", resume=True)
    running.finalize()
    export(tmp_path / "runs", tmp_path / "out", resume=True)

    assert "1 run as parquet" in again[0]
    assert [row["status"] for row in tables_in(tmp_path / "out")["runs"]] == ["completed"]


def test_tables_that_do_not_name_their_runs_are_refused(tmp_path: Path) -> None:
    """If the files do not say which runs they have, they cannot be brought up to date, and stay."""
    recorded(tmp_path / "runs" / "run.json")
    export(tmp_path / "runs", tmp_path / "out")
    path = tmp_path / "out" / "runs" / "part-00000.parquet"
    pq.write_table(pq.read_table(path), path)

    with pytest.raises(FileExistsError, match="does not say which runs it has"):
        export(tmp_path / "runs", tmp_path / "out", resume=True)


def test_damaged_tables_are_not_brought_up_to_date(tmp_path: Path) -> None:
    """A file of tables that is cut off is named, and all files stay as they are."""
    recorded(tmp_path / "runs" / "run.json")
    export(tmp_path / "runs", tmp_path / "out")
    path = tmp_path / "out" / "runs" / "part-00000.parquet"
    for size in (path.stat().st_size - 1, 5, 0):
        os.truncate(path, size)
        with pytest.raises(OSError, match="this Parquet file is damaged") as raised:
            export(tmp_path / "runs", tmp_path / "out", resume=True)
        assert (raised.value.filename, path.stat().st_size) == (str(path), size)


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def resume(directory: Path) -> None:
    """Bring the tables of a directory up to date, with two runs in a part."""
    export(directory / "runs", directory / "tables", resume=True, part_runs=2)


def faults_after(directory: Path, expected: Rows) -> Iterator[str]:
    """Yield what is wrong in the tables after a kill: only whole runs are in the parts that are complete, each once."""
    for part in part_files(directory / "tables", "runs"):
        files = pq.ParquetFile(part).read(["file"]).column(0).to_pylist()
        for table in FORMS["tables"]:
            rows = pq.ParquetFile(directory / "tables" / table / part.name).read().to_pylist()
            if any(row["file"] in files and row not in expected[table] for row in rows):
                yield f"{table}/{part.name} has rows that are neither old nor new"
    runs = [row["file"] for row in _runs(directory / "tables")]
    if len({*runs}) < len(runs):
        yield "a run has its rows twice"


def _runs(out: Path) -> list[dict[str, Any]]:
    return [row for path in part_files(out, "runs") for row in pq.ParquetFile(path).read().to_pylist()]


def test_a_killed_export_is_continued(tmp_path: Path) -> None:
    """An export is killed while it removes runs that are gone, replaces runs, and adds runs. Each run is then in the
    tables once or not at all, and the same command leaves the rows that it leaves without a kill.
    """
    work, whole, faults, call = tmp_path / "work", tmp_path / "whole", [], 1
    for number in range(6):
        recorded(work / "runs" / f"run{number}.json", f"answer {number}")
    resume(work)
    old = tables_in(work / "tables")
    for name in ("run0", "run1", "run2"):  # the first part has no run left, the second one has one
        for file in (work / "runs").glob(f"{name}.*"):
            file.unlink()
    append_rewards(work / "runs" / "run5.json", [{"name": "r", "value": 1}])
    for number in range(6, 9):
        recorded(work / "runs" / f"run{number}.json", f"answer {number}")
    shutil.copytree(work, whole)
    resume(work)
    expected = tables_in(work / "tables")
    assert expected == rows_of_load(work / "runs")

    def restored() -> Path:
        shutil.rmtree(work)  # the tables name the place of the runs
        return shutil.copytree(whole, work)

    shutil.copytree(whole, tmp_path / "warm")
    known = {table: [*old[table], *expected[table]] for table in expected}
    with Killer(f"{__name__}:{resume.__name__}", tmp_path / "warm", tmp_path / "killing.so") as killer:
        while killer.kill(restored(), call):
            faults += [(call, fault) for fault in faults_after(work, known)]
            resume(work)
            if tables_in(work / "tables") != expected or [*work.rglob(".part-*")]:
                faults.append((call, "the second export does not complete the first"))
            call += STEP

    assert faults == []
    assert call > STEP
