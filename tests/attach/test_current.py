"""Steps, sub-agents, annotations and rewards belong to the recorder of the context; misspelled names raise."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import httpx
import pytest

import trace_recorder
from tests.chat_calls import CHAT, Wire, asked, said
from tests.journals import records_of
from trace_recorder import TrajectoryPathError, TrajectoryRecorder, load
from trace_recorder.values.messages import Payload


def loop(recorder: TrajectoryRecorder | None = None) -> None:
    """Run an agent that makes every kind of mark, without a recorder of its own."""
    with trace_recorder.agent("researcher") as agent, trace_recorder.step() as step:
        step.reflection = "found"
        with trace_recorder.tool_call("search", {"q": "tea"}, call_id="c1") as running:
            running.result = ["a book"]
        trace_recorder.annotate("label", agent.name)
        trace_recorder.reward("found", True, step_number=step.step_number)


def told(path: Path) -> Payload:
    """Return the records of such an agent's marks in a run."""
    run = load(path)
    steps = [(step.agent, step.reflection, [tool.name for tool in step.tool_calls]) for step in run.agent_steps]
    return steps, run.annotations, [(reward.name, reward.value, reward.step_number) for reward in run.rewards]


EXPECTED = ([("researcher", "found", ["search"])], {"label": "researcher"}, [("found", 1, 1)])


def test_marks_belong_to_the_active_recorder(tmp_path: Path) -> None:
    """If an agent is recorded by two runs at the same time, each run has its own marks."""

    def run(name: str) -> None:
        with TrajectoryRecorder(tmp_path / name, strict=True):
            both.wait()
            loop()

    both = threading.Barrier(2)
    threads = [threading.Thread(target=run, args=(name,)) for name in ("one.json", "two.json")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [told(tmp_path / name) for name in ("one.json", "two.json")] == [EXPECTED] * 2


def test_a_call_in_a_thread_without_a_context_belongs_to_its_step(tmp_path: Path) -> None:
    """In a thread without a context, a call belongs to the only recorder, and to the thread's open step."""

    def work() -> None:
        with recorder.step(7):
            client.post(CHAT, json=asked("hello"))

    with (
        httpx.Client(transport=Wire(said("Hello.")), trust_env=False) as client,
        TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder,
    ):
        trace_recorder.wrap(client)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert [call.step_number for call in load(tmp_path / "run.json").llm_interactions] == [7]


def test_without_an_active_recorder_blocks_do_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a recorder, the blocks can be entered and have their attributes, and nothing is recorded."""
    loop()
    with trace_recorder.step(7) as numbered, trace_recorder.step() as step:
        step.state, step.error = "thinking", "no"
    with trace_recorder.agent("a") as agent:
        pass

    assert (numbered.step_number, step.step_number, agent.name, agent.agent_id) == (7, 1, "a", None)
    assert ([*tmp_path.iterdir()], caplog.messages) == ([], [])


def test_an_exception_passes_a_block_without_a_recorder() -> None:
    """An exception leaves a block without a recorder unchanged."""
    with pytest.raises(ValueError, match="no"), trace_recorder.step(), trace_recorder.tool_call("t"):
        raise ValueError("no")


def test_a_recorder_that_has_ended_is_not_active(tmp_path: Path) -> None:
    """A mark in a context that still refers to an ended recorder records nothing and raises nothing."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    context = contextvars.copy_context()
    recorder.finalize()

    context.run(loop)

    assert [record.kind for record in records_of(tmp_path / "run.json")] == ["start", "finalize"]


def test_a_disabled_recorder_disturbs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a disabled recorder, the blocks can be entered, and nothing is recorded."""
    monkeypatch.setenv("TRACE_RECORDER_DISABLED", "1")
    with TrajectoryRecorder(tmp_path / "run.json"):
        loop()

    assert [*tmp_path.iterdir()] == []


# ── what is misspelt ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("begin", [TrajectoryRecorder.step, lambda _: trace_recorder.step()], ids=["own", "following"])
def test_an_unknown_attribute_of_a_step_raises(tmp_path: Path, begin: Callable[[TrajectoryRecorder], Payload]) -> None:
    """Setting an unknown attribute of a step, such as a misspelled one, raises an error."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder, begin(recorder) as step:
        with pytest.raises(AttributeError, match="reflexion"):
            step.reflexion = "no"
        step.reflection = "yes"

    assert [step.reflection for step in load(tmp_path / "run.json").agent_steps] == ["yes"]


def test_an_unknown_attribute_of_another_block_raises(tmp_path: Path) -> None:
    """Setting an unknown attribute of a tool's or agent's block raises an error, even without an active recorder."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        blocks = [recorder.tool_call("bash"), recorder.agent("a")]
    blocks += [trace_recorder.tool_call("bash"), trace_recorder.agent("a"), trace_recorder.step()]

    for block in blocks:
        with pytest.raises(AttributeError, match="resutl"):
            block.resutl = 1


@pytest.mark.parametrize(
    "path", ["fix the failing test", "Make it work, please.", "what is 1.5 times 3?", "fix the bug in a.py"]
)
def test_a_path_in_place_of_a_task_is_refused(path: str) -> None:
    """A path in place of a task raises an error that names the argument for paths."""
    with pytest.raises(TrajectoryPathError, match="task="):
        TrajectoryRecorder(path)


@pytest.mark.parametrize(
    "path",
    ["run", "my run", "my first run.json", "runs/of this week/one", "a/b c d", None, Path("fix the failing test")],
)
def test_any_other_path_is_a_path(path: str | Path | None) -> None:
    """A name with a suffix, a name in a directory, and a Path object are paths."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrajectoryRecorder(path)


def test_a_path_beside_a_task_is_accepted() -> None:
    """A call with both a task and a path is accepted."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrajectoryRecorder("the first of all runs", task="fix the failing test")


# ── recorders inside one another ─────────────────────────────────────────────────────────────────────────────────────


def ask_inside(recorder: TrajectoryRecorder) -> None:
    """Annotate the active recorder."""
    assert trace_recorder.current_recorder() is recorder
    trace_recorder.annotate("inside", True)


async def closed_elsewhere(path: Path) -> None:
    """Enter a recorder's block in this task, and leave it in a second task."""

    async def inner() -> AsyncIterator[None]:
        async with TrajectoryRecorder(path) as recorder:
            ask_inside(recorder)
            yield

    items: Payload = inner()
    await anext(items)
    await asyncio.create_task(items.aclose())


async def started_and_finalized(path: Path) -> None:
    """Begin and end a run without a block."""
    recorder = TrajectoryRecorder(path)
    recorder.start()
    ask_inside(recorder)
    recorder.finalize()


async def finalized_elsewhere(path: Path) -> None:
    """Start a run in this task, and finalize it in another task."""
    recorder = TrajectoryRecorder(path)
    recorder.start()
    ask_inside(recorder)
    await asyncio.to_thread(recorder.finalize)


@pytest.mark.parametrize("inner", [closed_elsewhere, started_and_finalized, finalized_elsewhere])
def test_an_outer_recorder_is_active_after_an_inner_one(
    tmp_path: Path, inner: Callable[[Path], Coroutine[None, None, None]]
) -> None:
    """After the inner recorder has ended, in any task, later calls belong to the recorder around it."""

    async def outer(path: Path) -> None:
        with TrajectoryRecorder(path, strict=True) as recorder:
            await inner(tmp_path / "inner.json")
            assert trace_recorder.current_recorder() is recorder
            trace_recorder.annotate("outside", True)

    with TrajectoryRecorder(tmp_path / "another.json") as another:
        contextvars.Context().run(asyncio.run, outer(tmp_path / "outer.json"))

    names = ("inner.json", "outer.json", another.trajectory_path.name)
    assert [load(tmp_path / name).annotations for name in names] == [{"inside": True}, {"outside": True}, {}]
