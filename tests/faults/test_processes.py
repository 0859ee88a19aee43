"""Processes fork while they record: each writes its own file, which names its parent's run, and no process hangs."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.answering import Provider
from tests.faults.awkward_parents import FORKS
from tests.faults.parents import WORKERS
from tests.journals import records_of
from tests.processes import FORKS_WITH_THREADS, ROOT, in_forks
from trace_recorder import load
from trace_recorder.reading.validate import validate

PARENTS = ("fork", "process", "spawn", "pool", "preload", "threads", "following_threads")
AWKWARD_PARENTS = (
    *("under_load", "letting_go", "letting_go_of_a_part", "starting", "outlived", "exiting", "grandchildren"),
    "orphaning",
)


@dataclass(frozen=True)
class Recorded:
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

    def runs(self) -> dict[str, Recorded]:
        """Return the recorded runs by their document's name, after a check that all are valid."""
        by_name = {}
        for journal in self.directory.glob("*.jsonl"):
            errors = [finding for finding in validate(journal).findings if finding.severity == "error"]
            assert errors == [], journal
            by_name[journal.with_suffix(".json").name] = _recorded(journal)
        return by_name


def _recorded(journal: Path) -> Recorded:
    trajectory, start = load(journal), records_of(journal.with_suffix(".json"))[0].data
    questions = [str(call.input_messages[-1].content) for call in trajectory.llm_interactions if call.complete]
    return Recorded(start["trajectory_id"], start.get("parent"), trajectory.status, tuple(questions))


Run = Callable[[str], Ended]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Run:
    """Run all parents, and return a function that tells how one of them ended."""
    address, places, programs = provider.address_for("parents"), {}, {}
    for module, names in {"parents": PARENTS, "awkward_parents": AWKWARD_PARENTS}.items():
        for name in names:
            places[name] = tmp_path_factory.mktemp(name)
            code = f"from tests.faults import {module}, parents; "
            code += f"parents.serve({module}.{name}, {str(places[name])!r}, {address!r})"
            programs[name] = code, places[name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": FORKS_WITH_THREADS}
    ended = in_forks(programs, "from tests.faults import awkward_parents", environment)
    return lambda name: Ended(ended[name].returncode, ended[name].stdout, ended[name].stderr, places[name])


@pytest.mark.parametrize("scenario", PARENTS)
def test_each_process_has_its_own_file(scenario: str, run: Run) -> None:
    """Each process has its calls in its own file, which names its parent's run, however the process was created."""
    ended = run(scenario)

    runs = ended.runs()
    parent = runs.pop("run.json")
    asked = Counter(question.split()[0] for value in runs.values() for question in value.questions)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (parent.status, parent.questions) == ("completed", ("parent calls", "parent calls"))
    assert [value.parent for value in runs.values()] == [parent.identity] * len(asked)
    assert sum(asked.values()) == {"pool": WORKERS * 3, "preload": WORKERS * 2}.get(scenario, WORKERS)
    assert all(len({question.split()[0] for question in value.questions}) == 1 for value in runs.values())


def test_no_process_hangs_after_a_fork_among_recording_threads(run: Run) -> None:
    """A child that is forked while its parent records can record itself. The parent's file stays valid."""
    ended = run("under_load")

    runs = ended.runs()
    parent = runs.pop("run.json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (set(parent.questions), parent.status) == ({"parent works"}, "completed")
    assert [(value.parent, value.questions, value.status) for value in runs.values()] == [
        (parent.identity, (), "completed")
    ] * FORKS


@pytest.mark.parametrize("scenario", ["letting_go", "letting_go_of_a_part"])
def test_a_child_may_close_its_parent_s_stream(scenario: str, run: Run) -> None:
    """A child can close a stream that was open at the fork. The child does not hang, and prints nothing."""
    ended = run(scenario)

    [one] = load(ended.directory / "streaming.json").llm_interactions
    assert (ended.returncode, ended.stderr, sorted(ended.runs())) == (0, "", ["run.json", "streaming.json"])
    assert (one.complete, one.ended_by) == (False, "the caller closed it")


def test_no_process_hangs_after_a_fork_during_a_start_or_end(run: Run) -> None:
    """A child may start a run with a recorder that a second thread was starting or ending. No file has two writers."""
    ended = run("starting")

    trajectories = [load(path) for path in (ended.directory / "others").glob("*.jsonl")]
    outcomes = {
        (trajectory.task, trajectory.status, *(step.step_number for step in trajectory.agent_steps))
        for trajectory in trajectories
    }
    children = [trajectory for trajectory in trajectories if trajectory.task == "child's"]
    assert (ended.returncode, ended.stderr, len(children)) == (0, "", FORKS)
    assert outcomes == {("parent's", "completed", 0, 1, 2, 3, 4), ("child's", "completed", 7)}


def test_a_child_that_outlives_the_run_uses_a_different_name(run: Run) -> None:
    """A child's later records do not use the name of the parent's finalized run."""
    ended = run("outlived")

    questions = {name: one.questions for name, one in ended.runs().items()}
    assert (ended.returncode, ended.stderr) == (0, "")
    assert questions == {"run.json": ("parent calls", "parent calls"), "run.1.json": ("worker0 calls",)}


def test_a_child_without_records_leaves_no_file(run: Run) -> None:
    """A child's ordinary exit neither ends its parent's run nor creates a file."""
    ended = run("exiting")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [(name, one.status, len(one.questions)) for name, one in ended.runs().items()] == [
        ("run.json", "completed", 2)
    ]


def test_a_grandchild_is_linked_to_the_nearest_run(run: Run) -> None:
    """A process names the run of its nearest ancestor that has recorded."""
    ended = run("grandchildren")

    by_question = {value.questions[0]: value for value in ended.runs().values()}
    parent, worker = by_question["parent calls"], by_question["worker1 calls"]
    assert (ended.returncode, ended.stderr) == (0, "")
    assert {question: one.parent for question, one in by_question.items()} == {
        "parent calls": None,
        "worker0 calls": parent.identity,
        "worker1 calls": parent.identity,
        "grandchild calls": worker.identity,
    }


def test_a_child_does_not_keep_a_dead_parent_s_run_running(run: Run) -> None:
    """The run of a killed process is interrupted, even while a child and a program that it started live on."""
    ended = run("orphaning")
    alive = [int(pid) for pid in ended.stdout.split()]

    status = load(ended.directory / "run.json").status

    for pid in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert (ended.returncode, len(alive), status) == (-9, 2, "interrupted")
