"""Interrupts, deep stacks, odd numbers, moved files and full disks: the document stays complete."""

from __future__ import annotations

import inspect
import json
import resource
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.agreement import agrees, document, step_numbers
from tests.chat_calls import asked, call, said
from tests.interrupts import interrupted
from tests.isolation.hooks import no_threads_of_ours
from tests.journals import records_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.storage.journal import Journal
from trace_recorder.values.jsonable import to_json


def step(recorder: TrajectoryRecorder, number: int) -> None:
    recorder.record_agent_step(number, "thinking", asked("x", str(number))["messages"])


def growing_call(recorder: TrajectoryRecorder, number: int) -> None:
    call(recorder, asked(*map(str, range(number + 1))), said("x", identity=f"c{number}"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that was opened at that moment
@pytest.mark.parametrize(("act", "every"), [(step, 5), (growing_call, 31)])
def test_ctrl_c_at_any_moment_leaves_the_files_in_agreement(
    tmp_path: Path, act: Callable[[TrajectoryRecorder, int], None], every: int
) -> None:
    """A run goes on after an interrupt at any line of recording. No record is doubled, and both files agree."""
    wrong: dict[str, list[int]] = {}
    for moment in range(1, 100_000, every):
        recorder = TrajectoryRecorder(tmp_path / "run.json")
        recorder.start()
        act(recorder, 1)
        reached = interrupted(partial(act, recorder, 2), moment)
        act(recorder, 3)
        recorder.finalize()
        for complaint in complaints(recorder):
            wrong.setdefault(complaint, []).append(moment)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        if not reached:
            break

    assert wrong == {}


def complaints(recorder: TrajectoryRecorder) -> list[str]:
    """Return the faults in the files of a run whose second of three acts was interrupted."""
    trajectory = load(recorder.trajectory_path)
    if trajectory.llm_interactions:
        seen = [[message.content for message in call.input_messages] for call in trajectory.llm_interactions]
        expected = [[str(one) for one in range(number + 1)] for number in (1, 2, 3)]
    else:
        seen = [[message.content for message in step.llm_messages or ()] for step in trajectory.agent_steps]
        expected = [["x", str(number)] for number in (1, 2, 3)]
    seqs = [record.seq for record in records_of(recorder.trajectory_path)]
    verdicts = {
        "the journal does not have what was recorded": seen not in (expected, [expected[0], expected[2]]),
        "the document says something else than the journal": not agrees(recorder),
        "two records have one number": len(set(seqs)) < len(seqs),
    }
    return [complaint for complaint, is_so in verdicts.items() if is_so]


def test_recording_from_deep_in_a_recursion_leaves_the_files_in_agreement(tmp_path: Path) -> None:
    """If an agent calls with its stack nearly full, the step is recorded or a gap gives the reason.

    The document agrees.
    """
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()

    def down(frames: int, number: int) -> None:
        if frames:
            down(frames - 1, number)
        else:
            recorder.record_agent_step(number, "thinking", asked("x")["messages"])

    returned = []
    for frames in range(500, 1000, 3):
        try:
            down(frames, frames)
        except RecursionError:
            continue
        returned.append(frames)
    recorder.finalize()

    trajectory = load(recorder.trajectory_path)
    described = [step for step in trajectory.agent_steps if isinstance(step.step_number, dict)]
    lost = set(returned) - {step.step_number for step in trajectory.agent_steps if step not in described}
    assert agrees(recorder)
    assert len(lost) <= len(described) + len([gap for gap in trajectory.gaps if "step" in gap.what])
    assert [gap.what for gap in trajectory.gaps if "damaged" in gap.what] == []


def test_a_nearly_full_stack_without_a_thread_prevents_only_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the stack has room for a step, but not for the document or a thread, a gap says so."""

    def outcome(free: int) -> tuple[list[object], list[str]]:
        recorder = TrajectoryRecorder(tmp_path / f"{free}.json")
        recorder.start()

        def down(frames: int) -> None:
            if frames:
                down(frames - 1)
            else:
                step(recorder, 1)

        with monkeypatch.context() as patch, suppress(RecursionError):
            no_threads_of_ours(patch)
            down(sys.getrecursionlimit() - len(inspect.stack(0)) - free)
        recorder.finalize()
        assert agrees(recorder)
        trajectory = load(recorder.trajectory_path)
        return [step.step_number for step in trajectory.agent_steps], [gap.what for gap in trajectory.gaps]

    outcomes = [outcome(free) for free in range(20, 140, 2)]

    assert ([1], []) in outcomes
    assert ([1], ["write the document"]) in outcomes
    assert [steps for steps, gaps in outcomes if steps != [1] and not gaps] == []


@pytest.mark.parametrize(
    "number", [float("nan"), [1], {"a": 1}, object(), "one", None, 2**70, True], ids=lambda one: type(one).__name__
)
def test_no_step_number_breaks_the_document(tmp_path: Path, number: object) -> None:
    """The document is written and can be read, whatever numbers the agent gives its steps."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    for tell in (recorder.record_agent_step, recorder.update_lakeview):
        with suppress(TypeError):  # after the record is on disk
            tell(number, "thinking")  # type: ignore[operator]
    recorder.record_agent_step(2, "completed")
    recorder.finalize(success=True)

    assert (document(recorder)["status"], step_numbers(recorder)[-1], agrees(recorder)) == ("completed", 2, True)


def test_a_deleted_directory_does_not_disturb_the_agent(tmp_path: Path) -> None:
    """If the files are removed, recording continues, and all records are in files that are created again."""
    recorder = TrajectoryRecorder(tmp_path / "runs" / "run.json")
    recorder.start()
    recorder.record_agent_step(1, "thinking")
    shutil.rmtree(tmp_path / "runs")

    recorder.record_agent_step(2, "thinking")
    recorder.finalize()

    assert (step_numbers(recorder), agrees(recorder)) == ([1, 2], True)


def test_a_run_with_moved_files_does_not_overwrite_a_second_run(tmp_path: Path) -> None:
    """If somebody moves the files of an open run, a second run at the old path stays complete."""
    moved = TrajectoryRecorder(tmp_path / "run.json", task="moved")
    moved.start()
    moved.annotate("a", 1)
    (tmp_path / "away").mkdir()
    for name in ("run.json", "run.jsonl"):
        (tmp_path / name).rename(tmp_path / "away" / name)
    other = TrajectoryRecorder(tmp_path / "run.json", task="other")
    other.start()

    moved.annotate("b", 2)
    other.finalize()
    moved.finalize()

    assert (document(other)["task"], agrees(other)) == ("other", True)


def test_the_snapshot_after_a_failed_one_is_complete(tmp_path: Path) -> None:
    """If a write fails because the disk is full, the last good document stays, and the next document is complete."""
    journal = Journal.create(tmp_path / "run.jsonl")
    journal.append("start", to_json({"version": 1}), "t")

    def write() -> None:
        WholeDocument(journal.path, "auto").write(tmp_path / "run.json")

    write()
    before = (tmp_path / "run.json").read_bytes()
    journal.append("annotation", to_json({"key": "k", "value": 1}), "t")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    with pytest.raises(OSError, match="too large"):
        write()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    left = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one != journal.path}
    write()
    journal.close()
    assert left == {"run.json": before}
    assert json.loads((tmp_path / "run.json").read_text())["annotations"] == {"k": 1}


def test_a_directory_with_the_document_s_name_is_not_replaced(tmp_path: Path) -> None:
    """Such a directory is neither replaced nor moved."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    recorder.trajectory_path.unlink()
    recorder.trajectory_path.mkdir()
    (recorder.trajectory_path / "precious").touch()

    recorder.annotate("k", 1)

    recorder.finalize()
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*")) == [
        "run.json",
        "run.json/precious",
        "run.jsonl",
    ]
