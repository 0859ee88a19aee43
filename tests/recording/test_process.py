"""While one run is open, child processes find it in the environment, which is restored afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journals import records_of
from tests.processes import python
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.recording.process import PARENT_VARIABLE

CHILD = "import sys; from trace_recorder import *; TrajectoryRecorder(sys.argv[1]).start()"


def shown() -> str | None:
    """Return the variable's value in a newly started program."""
    code = f"import os; print(os.environ.get({PARENT_VARIABLE!r}, ''))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def started(path: Path) -> tuple[TrajectoryRecorder, str]:
    """Return a recorder that has started, and the id of its run."""
    recorder = TrajectoryRecorder(path)
    recorder.start()
    return recorder, str(load(path).trajectory_id)


@pytest.mark.parametrize("inherited", [None, "", "somebody"])
def test_only_a_single_open_run_is_in_the_environment(
    inherited: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable names the run while only one is open; otherwise it has its earlier value."""
    if inherited is not None:
        monkeypatch.setenv(PARENT_VARIABLE, inherited)
    values = [shown()]
    first, identity = started(tmp_path / "1.json")
    values.append(shown())
    second, other = started(tmp_path / "2.json")
    values.append(shown())
    first.finalize()
    values.append(shown())
    second.finalize()
    values.append(shown())

    parents = [records_of(tmp_path / name)[0].data.get("parent") for name in ("1.json", "2.json")]
    assert values == [inherited or "", identity, inherited or "", other, inherited or ""]
    assert parents == [inherited or None] * 2


def test_a_value_set_by_the_program_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that the program itself sets while a run is open stays."""
    recorder, _ = started(tmp_path / "1.json")
    monkeypatch.setenv(PARENT_VARIABLE, "its own")
    inner, _ = started(tmp_path / "2.json")
    inner.finalize()
    recorder.finalize()

    assert records_of(tmp_path / "2.json")[0].data["parent"] == os.environ[PARENT_VARIABLE] == "its own"


def test_an_interrupted_run_is_not_in_the_environment(tmp_path: Path) -> None:
    """A recorder that is garbage collected leaves nothing in the environment."""
    recorder = TrajectoryRecorder(tmp_path / "1.json")
    recorder.annotate("a", 1)
    said = [PARENT_VARIABLE in os.environ]
    del recorder

    assert [*said, PARENT_VARIABLE in os.environ] == [True, False]


def test_each_of_several_runs_gives_its_own_environment(tmp_path: Path) -> None:
    """A program that is started with a recorder's `child_environment` links its run to that recorder's run."""
    first, identity = started(tmp_path / "1.json")
    second, _ = started(tmp_path / "2.json")

    command = [sys.executable, "-c", CHILD, str(tmp_path / "child.json")]
    subprocess.run(command, env=first.child_environment(), check=True)

    first.finalize()
    second.finalize()
    assert records_of(tmp_path / "child.json")[0].data["parent"] == identity


def test_without_recording_the_environment_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If recording is turned off, the environment of a child names no parent."""
    monkeypatch.setenv("TRACE_RECORDER_DISABLED", "1")
    recorder = TrajectoryRecorder(tmp_path / "run.json")

    assert (recorder.child_environment(), list(tmp_path.iterdir())) == (dict(os.environ), [])


@pytest.mark.parametrize("open_still", [True, False])
def test_a_started_program_does_not_use_its_parent_s_file(tmp_path: Path, open_still: bool) -> None:
    """A child that records to its parent's path writes a file with a number, even if the parent's run has ended."""
    recorder, identity = started(tmp_path / "run.json")
    environment = recorder.child_environment()
    if not open_still:
        recorder.finalize()

    command = [sys.executable, "-c", CHILD, str(tmp_path / "run.json")]
    subprocess.run(command, env=environment, check=True)

    parents = {name: records_of(tmp_path / name)[0].data.get("parent") for name in ("run.json", "run.1.json")}
    assert parents == {"run.json": None, "run.1.json": identity}


@pytest.mark.parametrize("order", ["child first", "parent first"])
def test_a_forked_child_never_takes_its_parent_s_name(order: str, tmp_path: Path) -> None:
    """A forked child's file has a number, whether or not the parent has recorded anything before the fork."""
    ended = python(
        """
        import os, sys
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(sys.argv[1])
        if sys.argv[2] == "parent first":
            recorder.start(task="parent")
            recorder.finalize()
        if os.fork() == 0:
            recorder.start(task="child")
            recorder.finalize()
            os._exit(0)
        os.wait()
        if sys.argv[2] == "child first":
            recorder.start(task="parent")
            recorder.finalize()
        """,
        tmp_path / "run.json",
        order,
    )

    found = {path.name: load(path).task for path in tmp_path.glob("*.json")}
    assert (ended.stderr, found) == ("", {"run.json": "parent", "run.1.json": "child"})
