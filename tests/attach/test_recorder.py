"""A run from its start to its end."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType

import pytest

import trace_recorder
from tests.agreement import agrees, document
from tests.counting import watch
from trace_recorder import AlreadyFinalizedError, TrajectoryPathError, TrajectoryRecorder, load
from trace_recorder.reading.live_document.whole_document import WholeDocument

ASK = [{"role": "user", "content": "hello"}]
ROOT = Path(__file__).parents[2]


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an agent in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_is_recorded_from_start_to_finalize(tmp_path: Path) -> None:
    """A document has the values that were passed to the four methods of the interface."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start(task="add", provider="openai", model="m", max_steps=5)
    recorder.record_llm_interaction(ASK, {"content": "3", "usage": {"input_tokens": 4}}, "openai", "m", ["bash"])
    recorder.record_agent_step(1, "completed", llm_messages=ASK, reflection="easy")
    recorder.finalize(success=True, final_result="3")

    written = document(recorder)
    root = {
        name: written[name] for name in ("task", "provider", "model", "max_steps", "success", "final_result", "status")
    }
    [interaction], [step] = written["llm_interactions"], written["agent_steps"]  # type: ignore[misc]
    assert root == {
        "task": "add",
        "provider": "openai",
        "model": "m",
        "max_steps": 5,
        "success": True,
        "final_result": "3",
        "status": "completed",
    }
    assert (interaction["input_messages"], interaction["response"]["content"], interaction["tools_available"]) == (
        ASK,
        "3",
        ["bash"],
    )
    assert (step["step_number"], step["state"], step["llm_messages"], step["reflection"]) == (
        1,
        "completed",
        ASK,
        "easy",
    )


def test_the_document_is_current_after_every_call(tmp_path: Path) -> None:
    """After each call to the recorder, the document on disk has the call's record."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        seen = [(document(recorder)["status"], len(document(recorder)["llm_interactions"]))]  # type: ignore[arg-type]
        for number in range(3):
            recorder.record_llm_interaction(ASK, {"content": str(number)}, "p", "m")
            seen.append((document(recorder)["status"], len(document(recorder)["llm_interactions"])))  # type: ignore[arg-type]

    assert seen == [("running", 0), ("running", 1), ("running", 2), ("running", 3)]


def test_an_exception_in_a_with_block_is_recorded(tmp_path: Path) -> None:
    """An exception that leaves the `with` block ends the run as failed with this error, and is raised further."""
    with pytest.raises(ZeroDivisionError), TrajectoryRecorder(tmp_path / "run.json") as recorder:
        _ = 1 / 0

    trajectory = load(recorder.trajectory_path)
    assert (trajectory.status, trajectory.success) == ("failed", False)
    assert trajectory.error is not None
    assert (trajectory.error.type, trajectory.error.message) == ("ZeroDivisionError", "division by zero")


def test_a_with_block_that_ends_normally_is_completed(tmp_path: Path) -> None:
    """A `with` block without `finalize` ends the run as completed, with unknown success."""

    async def run() -> TrajectoryRecorder:
        async with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            pass
        return recorder

    trajectory = load(asyncio.run(run()).trajectory_path)
    assert (trajectory.status, trajectory.success) == ("completed", None)


@pytest.mark.parametrize("length", [10, 100_000])
def test_an_event_loop_does_not_write_a_long_document(tmp_path: Path, length: int) -> None:
    """At the end of an `async with` block, a thread writes the document, and the block ends when it is complete."""

    async def run() -> TrajectoryRecorder:
        async with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            recorder.record_agent_step(1, "completed", reflection="x" * length)
            called.clear()
        return recorder

    called: list[CodeType] = []
    recorders: list[TrajectoryRecorder] = []
    watch(lambda: recorders.append(asyncio.run(run())), lambda frame: called.append(frame.f_code))

    assert (WholeDocument.write.__code__ in called) == (length == 10)
    assert agrees(recorders[0])
    assert document(recorders[0])["status"] == "completed"


def test_finalize_in_a_with_block_is_final(tmp_path: Path) -> None:
    """The end of the block does not overwrite what `finalize` recorded."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.finalize(success=True, final_result={"answer": 3})

    trajectory = load(recorder.trajectory_path)
    assert (trajectory.success, trajectory.final_result) == (True, {"answer": 3})


@pytest.mark.parametrize("call", ["finalize", "record_llm_interaction", "record_agent_step", "reward", "annotate"])
def test_recording_after_finalize_raises(tmp_path: Path, call: str) -> None:
    """After `finalize`, each recording method raises an error that says how to continue."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.finalize()
    arguments = {
        "finalize": (),
        "record_llm_interaction": (ASK, {}, "p", "m"),
        "record_agent_step": (1, "thinking"),
        "reward": ("r", 1.0),
        "annotate": ("k", 1),
    }[call]

    with pytest.raises(AlreadyFinalizedError, match=rf"{call}\(\): this run has been finalized.*start\(\)"):
        getattr(recorder, call)(*arguments)


def test_recording_before_start_starts_the_run(tmp_path: Path) -> None:
    """The first record starts a run that was not started by `start`."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="t")
    recorder.record_llm_interaction(ASK, {"content": "x"}, "p", "m", None)

    assert (document(recorder)["task"], len(document(recorder)["llm_interactions"])) == ("t", 1)  # type: ignore[arg-type]
    recorder.finalize()


def test_starting_twice_keeps_both_runs(tmp_path: Path) -> None:
    """A second `start` ends the open run as interrupted, with a warning, and begins a new file."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start(task="first")
    recorder.annotate("n", 1)
    with pytest.warns(UserWarning, match="closed as interrupted"):
        recorder.start(task="second")
    recorder.finalize(success=True)

    runs = {load(path).task: (path.name, load(path).status, load(path).annotations) for path in tmp_path.glob("*.json")}
    assert runs == {"first": ("run.1.json", "interrupted", {"n": 1}), "second": ("run.json", "completed", {})}


def test_starting_after_finalize_begins_a_new_file(tmp_path: Path) -> None:
    """A recorder records several runs in sequence, each to its own file."""
    recorder = TrajectoryRecorder(directory=tmp_path)
    paths = []
    for number in range(3):
        recorder.start(task=str(number))
        paths.append(recorder.trajectory_path)
        recorder.finalize(success=True)

    assert [(load(path).task, load(path).success) for path in paths] == [("0", True), ("1", True), ("2", True)]


def test_the_default_file_has_the_time_as_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path the file is trajectories/trajectory_YYYYMMDD_HHMMSS.json, and the directory is created."""
    monkeypatch.chdir(tmp_path)
    with TrajectoryRecorder() as recorder:
        pass

    assert recorder.trajectory_path.relative_to(tmp_path).match("trajectories/trajectory_????????_??????.json")
    assert (tmp_path / "trajectories" / ".gitignore").read_text() == "*\n"


def test_the_environment_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRACE_RECORDER_DIR replaces the default directory, but not a directory that the caller passes."""
    monkeypatch.setenv("TRACE_RECORDER_DIR", str(tmp_path / "elsewhere"))
    with TrajectoryRecorder() as recorder, TrajectoryRecorder(directory=tmp_path / "given") as other:
        pass

    assert (recorder.trajectory_path.parent.name, other.trajectory_path.parent.name) == ("elsewhere", "given")


def test_disabled_recorders_record_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With TRACE_RECORDER_DISABLED all methods work, and no file is written."""
    monkeypatch.setenv("TRACE_RECORDER_DISABLED", "1")
    with TrajectoryRecorder(directory=tmp_path / "none") as recorder:
        recorder.record_llm_interaction(ASK, {}, "p", "m")
        recorder.record_agent_step(1, "thinking")
        recorder.save_trajectory()
        recorder.finalize(success=True)

    assert (list(tmp_path.iterdir()), bool(recorder)) == ([], True)


def test_the_path_is_known_before_the_start(tmp_path: Path) -> None:
    """Reading a recorder's path before the start reserves the path, which does not change afterwards."""
    recorder, other = TrajectoryRecorder(directory=tmp_path), TrajectoryRecorder(directory=tmp_path)
    asked, asked_other = recorder.get_trajectory_path(), other.get_trajectory_path()
    recorder.start()
    recorder.finalize()

    assert (recorder.get_trajectory_path(), asked != asked_other) == (asked, True)
    del other
    assert not Path(asked_other).with_suffix(".jsonl").exists()


def test_a_directory_as_the_path_is_refused(tmp_path: Path) -> None:
    """A directory as the path raises an error that says what to pass instead."""
    with pytest.raises(TrajectoryPathError, match="is a directory; give TrajectoryRecorder the path of a file"):
        TrajectoryRecorder(tmp_path).start()


@pytest.mark.parametrize(("name", "value"), [("history", "all"), ("durability", "tape")])
def test_unknown_settings_are_refused(name: str, value: str) -> None:
    """An unknown value of a setting raises an error that names the known values."""
    with pytest.raises(ValueError, match=f"{name} is '{value}', and must be one of"):
        TrajectoryRecorder(**{name: value})  # type: ignore[arg-type]


def test_a_failing_redactor_drops_the_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If a redactor fails, the agent gets no error; the failure is logged once, counted, and recorded as gaps."""

    def broken(text: str) -> str:
        if "hello" in text:
            raise RuntimeError("no")
        return text

    caplog.set_level(logging.WARNING, "trace_recorder")
    with TrajectoryRecorder(tmp_path / "run.json", redact=broken) as recorder:
        for _ in range(3):
            recorder.record_llm_interaction(ASK, {"content": "x"}, "p", "m")

    trajectory = load(recorder.trajectory_path)
    assert [(gap.what, gap.why) for gap in trajectory.gaps] == [("record an LLM interaction", "RuntimeError: no")] * 3
    assert len(caplog.records) == 1


def test_strict_raises_failures_of_recording(tmp_path: Path) -> None:
    """With strict=True a failure of recording is raised."""

    def broken(text: str) -> str:
        if "hello" in text:
            raise RuntimeError("no")
        return text

    with TrajectoryRecorder(tmp_path / "run.json", redact=broken, strict=True) as recorder:
        with pytest.raises(RuntimeError, match="no"):
            recorder.record_llm_interaction(ASK, {"content": "x"}, "p", "m")


def test_a_process_that_ends_without_finalize_is_interrupted(tmp_path: Path) -> None:
    """If a process exits without `finalize`, the document is written. The run is interrupted, and one log says so."""
    path = tmp_path / "run.json"
    done = run_python(f"""
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder({str(path)!r})
        recorder.record_agent_step(1, "thinking")
        other = TrajectoryRecorder({str(tmp_path / "other.json")!r})
        other.start()
    """)

    said = "was started and not ended, so its status is interrupted. End a run with recorder.finalize()"
    assert (done.returncode, done.stderr.count(said), len(done.stderr.splitlines())) == (0, 1, 1)
    assert json.loads(path.read_text())["status"] == "interrupted"


def test_two_processes_in_one_second_have_two_files(tmp_path: Path) -> None:
    """Runs that begin in the same second, in two processes or in one, have separate complete files."""
    code = """
        import sys
        from trace_recorder import TrajectoryRecorder
        for _ in range(3):
            with TrajectoryRecorder(directory=sys.argv[1], task="t"):
                pass
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    processes = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) for _ in range(4)]
    codes = [process.wait() for process in processes]

    statuses = [load(path).status for path in tmp_path.glob("*.json")]
    assert (codes, statuses) == ([0] * 4, ["completed"] * 12)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copied_recorder_records_to_the_same_run(
    tmp_path: Path, copied: Callable[[TrajectoryRecorder], TrajectoryRecorder]
) -> None:
    """A copy of a recorder records to the same run, and may outlive the original."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.record_agent_step(1, "thinking")
    branch = copied(recorder)
    del recorder

    branch.record_agent_step(2, "completed")
    branch.finalize(success=True)

    loaded = load(tmp_path / "run.json")
    assert (loaded.status, [step.step_number for step in loaded.agent_steps]) == ("completed", [1, 2])


def test_a_forked_child_writes_its_own_file(tmp_path: Path) -> None:
    """The child's file names its parent's run. The parent's file stays complete."""
    path = tmp_path / "run.json"
    done = run_python(f"""
        import os
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder({str(path)!r})
        recorder.record_agent_step(1, "thinking")
        if os.fork() == 0:
            recorder.record_agent_step(2, "thinking")
            recorder.finalize(success=True)
            os._exit(0)
        os.wait()
        recorder.record_agent_step(3, "thinking")
        recorder.finalize(success=True)
    """)

    parent, child = load(path), load(tmp_path / "run.1.json")
    start = json.loads((tmp_path / "run.1.jsonl").read_text().splitlines()[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert ([step.step_number for step in parent.agent_steps], [step.step_number for step in child.agent_steps]) == (
        [1, 3],
        [2],
    )
    assert start["data"]["parent"] == parent.trajectory_id


def test_metadata_of_a_start_is_added_to_that_of_the_recorder(tmp_path: Path) -> None:
    recorder = TrajectoryRecorder(tmp_path / "run.json", metadata={"branch": "main", "seed": 1})
    recorder.start(metadata={"seed": 2, "try": 3})
    recorder.finalize()
    assert load(tmp_path / "run.json").metadata == {"branch": "main", "seed": 2, "try": 3}


def test_the_names_of_the_package_are_the_public_ones() -> None:
    assert set(dir(trace_recorder)) == set(trace_recorder.__all__)
