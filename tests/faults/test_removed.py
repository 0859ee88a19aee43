"""A run's files are moved or removed during the run: no record is lost, and a warning names the files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from zlib import crc32

import pytest

from tests.chat_calls import asked, call, said
from tests.journals import records_of
from tests.processes import python
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate

KEPT = "keep the journal where it was"


def errors(path: Path) -> list[str]:
    """Return the faults in the files of a run."""
    return [f"{finding.where}: {finding.what}" for finding in validate(path).findings if finding.severity == "error"]


@pytest.mark.parametrize("durability", ["process", "disk"])
@pytest.mark.parametrize("removed", ["journal", "document", "directory", "parents"])
def test_removed_files_are_written_again(removed: str, durability: str, tmp_path: Path) -> None:
    """The next record writes the whole journal again, and the document too."""
    path = tmp_path / "a" / "b" / "run.json"
    recorder = TrajectoryRecorder(path, durability=durability, task="endure")  # type: ignore[arg-type]
    call(recorder, asked("before"), said("x" * 5000))
    recorder.save_trajectory()  # so that the document's thread does not write while files are removed
    if removed in {"journal", "document"}:
        path.with_suffix({"journal": ".jsonl", "document": ".json"}[removed]).unlink()
    else:
        shutil.rmtree({"directory": path.parent, "parents": path.parents[1]}[removed])

    call(recorder, asked("before", "after"), said("y"))

    seen = [call.response and call.response.content for call in load(path.with_suffix(".jsonl")).llm_interactions]
    recorder.finalize(success=True)
    trajectory = load(path)
    assert (seen, errors(path)) == (["x" * 5000, "y"], [])
    assert (trajectory.task, trajectory.status, {gap.what for gap in trajectory.gaps} - {"write the document"}) == (
        *("endure", "completed"),
        set() if removed == "document" else {KEPT},
    )


def test_files_may_be_removed_again_and_again(tmp_path: Path) -> None:
    """Each removal is one gap, and the numbers of the records have no hole."""
    recorder = TrajectoryRecorder(tmp_path / "runs" / "run.json")
    for number in range(5):
        recorder.annotate(f"a{number}", number)
        shutil.rmtree(tmp_path / "runs")

    recorder.finalize()

    records = records_of(recorder.trajectory_path)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [gap.what for gap in load(recorder.trajectory_path).gaps] == [KEPT] * 5
    assert len(load(recorder.trajectory_path).annotations) == 5


def test_a_journal_that_is_written_again_is_locked(tmp_path: Path) -> None:
    """A reader sees a run with a removed journal as running, and no second run uses its name."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    (tmp_path / "run.jsonl").unlink()
    recorder.annotate("a", 1)

    status = load(tmp_path / "run.json").status
    with TrajectoryRecorder(tmp_path / "run.json") as other:
        other.annotate("b", 2)

    recorder.finalize()
    assert (status, other.trajectory_path.name) == ("running", "run.1.json")


def test_a_run_goes_on_without_a_path(tmp_path: Path) -> None:
    """While a file is in the place of the directory, no record is lost. When the file is gone, all records are
    written.
    """
    recorder = TrajectoryRecorder(tmp_path / "runs" / "run.json")
    recorder.annotate("before", 1)
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "runs").touch()
    for number in range(20):
        recorder.annotate(f"during{number}", 1)
    (tmp_path / "runs").unlink()

    recorder.finalize()

    trajectory = load(recorder.trajectory_path)
    assert len(trajectory.annotations) == 21
    assert len(trajectory.gaps) <= 5
    assert errors(recorder.trajectory_path) == []


def test_a_second_run_s_file_is_not_replaced(tmp_path: Path) -> None:
    """If a second run has taken the removed file's name, that run stays valid, and the first goes on."""
    removed = TrajectoryRecorder(tmp_path / "run.json", task="removed")
    removed.start()
    shutil.rmtree(tmp_path)
    other = TrajectoryRecorder(tmp_path / "run.json", task="other")
    other.start()

    removed.annotate("a", 1)
    removed.finalize()
    other.finalize()

    assert (load(tmp_path / "run.json").task, errors(tmp_path / "run.json")) == ("other", [])


def test_a_removed_temporary_directory_is_not_created_again(tmp_path: Path) -> None:
    """A process that removed its directory, and records nothing more, leaves no file."""
    ended = python(
        """
        import sys, tempfile
        from trace_recorder import TrajectoryRecorder
        with tempfile.TemporaryDirectory(dir=sys.argv[1]) as directory:
            recorder = TrajectoryRecorder(directory + "/run.json")
            recorder.annotate("a", 1)
        """,
        tmp_path,
    )

    assert (ended.returncode, list(tmp_path.iterdir())) == (0, [])


def test_temporary_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    """The next run removes dead processes' temporary files if these are old, or are of the run's own document."""
    dead = python("import os; print(os.getpid())").stdout.strip()
    names = {
        "own": f".{dead}.{crc32(b'run.json'):08x}.tmp",
        "old": f".{dead}.00000000.tmp",
        "journal": f".{'0' * 16}.tmp",
    }
    leftovers = {"new": f".{dead}.11111111.tmp", "living": f".{os.getpid()}.00000000.tmp", "other": ".cache.tmp"}
    for name in [*names.values(), *leftovers.values()]:
        (tmp_path / name).write_text("half")
        if name not in (names["own"], leftovers["new"]):
            os.utime(tmp_path / name, (0, 0))

    python("import sys; from trace_recorder import *; TrajectoryRecorder(sys.argv[1] + '/run.json').start()", tmp_path)

    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([*leftovers.values(), "run.json", "run.jsonl"])
