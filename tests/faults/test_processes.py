"""Processes fork while they record: each writes its own file, which names its parent's run, and no process hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.answering import Provider
from tests.faults.awkward_parents import FORKS
from tests.faults.parents import WORKERS
from tests.journals import records_of
from tests.processes import FORKS_WITH_THREADS, ROOT
from trace_recorder import load
from trace_recorder.reading.validate import validate


@dataclass(frozen=True)
class Run:
    """A recorded run: its id, its parent's id, how it ended, and its questions."""

    identity: str
    parent: str | None
    status: str
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Ended:
    """A process that has forked: how it ended, its output, and its directory."""

    returncode: int
    stdout: str
    stderr: str
    directory: Path

    def runs(self) -> dict[str, Run]:
        """Return the recorded runs by their document's name, after a check that all are valid."""
        by_name = {}
        for journal in self.directory.glob("*.jsonl"):
            errors = [finding for finding in validate(journal).findings if finding.severity == "error"]
            assert errors == [], journal
            by_name[journal.with_suffix(".json").name] = _run(journal)
        return by_name


def _run(journal: Path) -> Run:
    trajectory, start = load(journal), records_of(journal.with_suffix(".json"))[0].data
    questions = [str(call.input_messages[-1].content) for call in trajectory.llm_interactions if call.complete]
    return Run(start["trajectory_id"], start.get("parent"), trajectory.status, tuple(questions))


def run(scenario: str, directory: Path, provider: Provider, module: str = "awkward_parents") -> Ended:
    """Run one of the parents."""
    command = [sys.executable, "-m", f"tests.faults.{module}", scenario, directory, provider.address_for("parents")]
    environment = {**os.environ, "PYTHONWARNINGS": FORKS_WITH_THREADS}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return Ended(done.returncode, done.stdout, done.stderr, directory)


@pytest.mark.parametrize(
    "scenario", ["fork", "process", "spawn", "pool", "preload", "threads", "following_threads"], ids=lambda one: one
)
def test_each_process_has_its_own_file(scenario: str, tmp_path: Path, provider: Provider) -> None:
    """Each process has its calls in its own file, which names its parent's run, however the process was created."""
    ended = run(scenario, tmp_path, provider, "parents")

    runs = ended.runs()
    parent = runs.pop("run.json")
    asked = Counter(question.split()[0] for value in runs.values() for question in value.questions)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (parent.status, parent.questions) == ("completed", ("parent calls", "parent calls"))
    assert [value.parent for value in runs.values()] == [parent.identity] * len(asked)
    assert sum(asked.values()) == {"pool": WORKERS * 3, "preload": WORKERS * 2}.get(scenario, WORKERS)
    assert all(len({question.split()[0] for question in value.questions}) == 1 for value in runs.values())


def test_no_process_hangs_after_a_fork_among_recording_threads(tmp_path: Path, provider: Provider) -> None:
    """A child that is forked while its parent records can record itself. The parent's file stays valid."""
    ended = run("under_load", tmp_path, provider)

    runs = ended.runs()
    parent = runs.pop("run.json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (set(parent.questions), parent.status) == ({"parent works"}, "completed")
    assert [(value.parent, value.questions, value.status) for value in runs.values()] == [
        (parent.identity, (), "completed")
    ] * FORKS


@pytest.mark.parametrize("scenario", ["letting_go", "letting_go_of_a_part"])
def test_a_child_may_close_its_parent_s_stream(scenario: str, tmp_path: Path, provider: Provider) -> None:
    """A child can close a stream that was open at the fork. The child does not hang, and prints nothing."""
    ended = run(scenario, tmp_path, provider)

    [one] = load(tmp_path / "streaming.json").llm_interactions
    assert (ended.returncode, ended.stderr, sorted(ended.runs())) == (0, "", ["run.json", "streaming.json"])
    assert (one.complete, one.ended_by) == (False, "the caller closed it")


def test_no_process_hangs_after_a_fork_during_a_start_or_end(tmp_path: Path, provider: Provider) -> None:
    """A child may start a run with a recorder that a second thread was starting or ending. No file has two writers."""
    ended = run("starting", tmp_path, provider)

    trajectories = [load(path) for path in (tmp_path / "others").glob("*.jsonl")]
    outcomes = {
        (trajectory.task, trajectory.status, *(step.step_number for step in trajectory.agent_steps))
        for trajectory in trajectories
    }
    children = [trajectory for trajectory in trajectories if trajectory.task == "child's"]
    assert (ended.returncode, ended.stderr, len(children)) == (0, "", FORKS)
    assert outcomes == {("parent's", "completed", 0, 1, 2, 3, 4), ("child's", "completed", 7)}


def test_a_child_that_outlives_the_run_uses_a_different_name(tmp_path: Path, provider: Provider) -> None:
    """A child's later records do not use the name of the parent's finalized run."""
    ended = run("outlived", tmp_path, provider)

    questions = {name: one.questions for name, one in ended.runs().items()}
    assert (ended.returncode, ended.stderr) == (0, "")
    assert questions == {"run.json": ("parent calls", "parent calls"), "run.1.json": ("worker0 calls",)}


def test_a_child_without_records_leaves_no_file(tmp_path: Path, provider: Provider) -> None:
    """A child's ordinary exit neither ends its parent's run nor creates a file."""
    ended = run("exiting", tmp_path, provider)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [(name, one.status, len(one.questions)) for name, one in ended.runs().items()] == [
        ("run.json", "completed", 2)
    ]


def test_a_grandchild_is_linked_to_the_nearest_run(tmp_path: Path, provider: Provider) -> None:
    """A process names the run of its nearest ancestor that has recorded."""
    ended = run("grandchildren", tmp_path, provider)

    by_question = {value.questions[0]: value for value in ended.runs().values()}
    parent, worker = by_question["parent calls"], by_question["worker1 calls"]
    assert (ended.returncode, ended.stderr) == (0, "")
    assert {question: one.parent for question, one in by_question.items()} == {
        "parent calls": None,
        "worker0 calls": parent.identity,
        "worker1 calls": parent.identity,
        "grandchild calls": worker.identity,
    }


def test_a_child_does_not_keep_a_dead_parent_s_run_running(tmp_path: Path, provider: Provider) -> None:
    """The run of a killed process is interrupted, even while a child and a program that it started live on."""
    ended = run("orphaning", tmp_path, provider)
    alive = [int(pid) for pid in ended.stdout.split()]

    status = load(tmp_path / "run.json").status

    for pid in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert (ended.returncode, len(alive), status) == (-9, 2, "interrupted")
