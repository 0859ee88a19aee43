"""Steps with a block: they have the records inside the block, and the document equals the journal."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agreement import agrees_when_saved
from tests.chat_calls import asked, call, said
from tests.journals import records_of
from trace_recorder import AlreadyFinalizedError, RecorderStateError, TrajectoryRecorder, load
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import AgentStep


def steps(recorder: TrajectoryRecorder) -> list[AgentStep]:
    """Return the steps of a run, after a check that its document equals its journal."""
    assert agrees_when_saved(recorder)
    return list(load(recorder.trajectory_path).agent_steps)


def shown(recorder: TrajectoryRecorder) -> list[Payload]:
    """Return the number, state, interactions and names of tool calls of each step."""
    return [
        (step.step_number, step.state, [*step.interaction_ids], [tool.name for tool in step.tool_calls])
        for step in steps(recorder)
    ]


def asks(recorder: TrajectoryRecorder, name: str = "bash", answer: str | None = None) -> None:
    """Record a call with a tool result in the prompt and a tool call in the response."""
    told = [{"role": "tool", "tool_call_id": "c1", "content": answer}] if answer else []
    call(recorder, asked("go", *told), said(None, identity=f"r-{name}", calls=[("c1", name, "{}")]))


def answers(recorder: TrajectoryRecorder) -> None:
    """Record a call that is answered with text."""
    call(recorder, asked("go"), said("done"))


# ── what is inside ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_has_the_records_within_its_block(recorder: TrajectoryRecorder) -> None:
    """A step has the captured calls, manual calls and tools of its block, each once, and no further step is derived."""
    bash = recorder.tool(lambda: {"out": 1}, name="bash")
    with recorder.step():
        asks(recorder)
        bash()
        recorder.record_llm_interaction([{"role": "user", "content": "x"}], {"content": "y"}, "p", "m")
    with recorder.step() as second:
        second.reflection = "that went well"
        asks(recorder, "other", answer="one")

    first, last = steps(recorder)
    assert shown(recorder) == [
        (1, "calling_tool", ["llm_1", "llm_2"], ["bash"]),
        (2, "calling_tool", ["llm_3"], ["other"]),
    ]
    assert [(result.result, result.sent) for result in first.tool_results] == [({"out": 1}, "one")]
    assert (last.reflection, last.derived, last.interaction and last.interaction.interaction_id) == (
        "that went well",
        False,
        "llm_3",
    )
    assert [call.step_number for call in load(recorder.trajectory_path).llm_interactions] == [1, 1, 2]


def test_an_open_step_is_thinking(recorder: TrajectoryRecorder) -> None:
    """The document shows an open step with its records, in the state "thinking"."""
    with recorder.step():
        begun = shown(recorder)
        asks(recorder)
        during = shown(recorder)

    assert (begun, during) == ([(1, "thinking", [], [])], [(1, "thinking", ["llm_1"], ["bash"])])


class State(enum.Enum):
    REFLECTING = "reflecting"


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (lambda _: None, "completed"),
        (answers, "completed"),
        (asks, "calling_tool"),
        (lambda recorder: recorder.tool(lambda: 1, name="t")(), "calling_tool"),
    ],
)
def test_a_step_without_a_set_state_has_a_derived_state(
    recorder: TrajectoryRecorder, act: Callable[[TrajectoryRecorder], None], state: str
) -> None:
    """A step without a state of its own is "calling_tool" if a tool was called or run in it."""
    with recorder.step():
        act(recorder)

    assert [step.state for step in steps(recorder)] == [state]


@pytest.mark.parametrize("state", ["reflecting", State.REFLECTING])
def test_a_set_state_stays(recorder: TrajectoryRecorder, state: object) -> None:
    """A step keeps the state that the agent sets, as a string or an Enum."""
    with recorder.step() as step:
        asks(recorder)
        step.state = state

    assert [step.state for step in steps(recorder)] == ["reflecting"]


def test_an_exception_is_the_step_s_error(recorder: TrajectoryRecorder) -> None:
    """An exception in a step is recorded as its error and raised unchanged. A caught error can be recorded by hand."""
    raised = ValueError("no")
    with pytest.raises(ValueError, match="no") as caught, recorder.step():
        raise raised
    with recorder.step() as step:
        step.error = OSError("busy")

    assert caught.value is raised
    assert [(step.state, step.error) for step in steps(recorder)] == [
        ("error", "ValueError: no"),
        ("error", "OSError: busy"),
    ]


def test_steps_of_tasks_are_separate(recorder: TrajectoryRecorder) -> None:
    """Steps of concurrent tasks have only the records of their own task."""

    async def one(answer: str) -> None:
        async with recorder.step():
            await asyncio.sleep(0)
            asks(recorder, answer)
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(one(f"t{number}"))

    asyncio.run(all_of_them())

    assert shown(recorder) == [
        (number + 1, "calling_tool", [f"llm_{number + 1}"], [f"t{number}"]) for number in range(5)
    ]


def test_a_thread_with_a_copied_context_is_within_the_step(recorder: TrajectoryRecorder) -> None:
    """A thread with a copied context is inside the step, and a thread without it is outside."""
    with recorder.step():
        for run in (contextvars.copy_context().run, lambda function, *args: function(*args)):
            thread = threading.Thread(target=run, args=(answers, recorder))
            thread.start()
            thread.join()

    assert [call.step_number for call in load(recorder.trajectory_path).llm_interactions] == [1, None]
    assert shown(recorder) == [(1, "completed", ["llm_1"], [])]


def test_records_of_a_second_recorder_are_not_within_the_step(recorder: TrajectoryRecorder, tmp_path: Path) -> None:
    """Steps of two recorders can be nested, and each has only the records of its own recorder."""
    with TrajectoryRecorder(tmp_path / "other.json", strict=True) as other:
        with recorder.step(), other.step(5):
            answers(other)
            answers(recorder)

    assert (shown(recorder), shown(other)) == ([(1, "completed", ["llm_1"], [])], [(5, "completed", ["llm_1"], [])])


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_steps_are_numbered_on(recorder: TrajectoryRecorder) -> None:
    """A step without a number gets the number after that of the last block or `record_agent_step`."""
    for number in (None, 10, None):
        with recorder.step(number):
            pass
    recorder.record_agent_step(20, "completed")
    with recorder.step() as last:
        pass

    assert ([step.step_number for step in steps(recorder)], last.step_number) == ([1, 10, 11, 20, 21], 21)


def test_each_run_counts_its_steps_from_one(tmp_path: Path) -> None:
    """Each run numbers its steps from 1, and its first step starts the run."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    numbers = []
    for _ in range(2):
        with recorder.step() as step:
            numbers.append(step.step_number)
        recorder.finalize()
        recorder.start()

    recorder.finalize()
    assert numbers == [1, 1]


def test_steps_with_a_repeated_number_are_two_steps(recorder: TrajectoryRecorder) -> None:
    """Two blocks with the same number are two steps."""
    for _ in range(2):
        with recorder.step(3):
            answers(recorder)

    assert shown(recorder) == [(3, "completed", ["llm_1"], []), (3, "completed", ["llm_2"], [])]


# ── beside record_agent_step ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_recorded_within_its_block_is_the_same_step(recorder: TrajectoryRecorder) -> None:
    """`record_agent_step` inside a block of the same number replaces the members that it gives, and no others."""
    with recorder.step() as step:
        asks(recorder)
        told = [{"call_id": "c1", "success": True, "result": 3}]
        recorder.record_agent_step(step.step_number, "reflecting", tool_results=told, reflection="hm")

    [one] = steps(recorder)
    assert (one.state, one.reflection, [result.result for result in one.tool_results]) == ("reflecting", "hm", [3])
    assert ([call.name for call in one.tool_calls], one.interaction_ids) == (["bash"], ("llm_1",))


def test_a_step_with_a_different_number_is_a_separate_step(recorder: TrajectoryRecorder) -> None:
    """A step that is recorded inside a block under another number is a step of its own."""
    with recorder.step():
        recorder.record_agent_step(7, "completed")

    assert [step.step_number for step in steps(recorder)] == [1, 7]


def test_a_summary_belongs_to_its_step(recorder: TrajectoryRecorder) -> None:
    """A summary for Trae's lakeview is in its step, whether it is recorded while the step is open or later."""
    with recorder.step():
        recorder.update_lakeview(1, "first")
    for _ in range(20):
        with recorder.step():
            pass
    recorder.update_lakeview(2, "late")

    assert [(step.step_number, step.extra) for step in steps(recorder) if step.extra] == [
        (1, {"lakeview_summary": "first"}),
        (2, {"lakeview_summary": "late"}),
    ]


# ── misuse, ends and deaths ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_after_the_end_is_a_misuse(tmp_path: Path) -> None:
    """A step after the end of the run raises an error that says what to do."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    recorder.finalize()

    for method in (recorder.step, lambda: recorder.agent("a"), lambda: recorder.tool_call("t")):
        with pytest.raises(AlreadyFinalizedError, match=r"Call start\(\)"):
            method()


def test_a_step_can_be_entered_only_once(recorder: TrajectoryRecorder) -> None:
    """Entering the same step a second time raises an error."""
    step = recorder.step()
    with step:
        pass

    with pytest.raises(RecorderStateError, match=r"step 1.* was entered already"):
        step.__enter__()


def test_a_run_that_ends_within_a_step_ends_the_step(tmp_path: Path) -> None:
    """An agent that finalizes the run inside a step leaves no step open, and gets no warning."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    with recorder.step() as step:
        step.reflection = "enough"
        asks(recorder)
        recorder.finalize(success=True)

    [one] = steps(recorder)
    assert (one.state, one.reflection) == ("calling_tool", "enough")
    assert records_of(recorder.trajectory_path)[-1].kind == "finalize"


def test_a_generator_that_is_closed_within_a_step_has_not_failed(recorder: TrajectoryRecorder) -> None:
    """If the caller closes a generator inside a step, the step has no error."""

    def loop() -> Iterator[int]:
        with recorder.step() as step:
            yield step.step_number

    running = loop()
    next(running)
    running.close()  # type: ignore[attr-defined]

    assert [(step.state, step.error) for step in steps(recorder)] == [("completed", None)]


KILLED = """
import os, signal, sys
from trace_recorder import TrajectoryRecorder
recorder = TrajectoryRecorder(sys.argv[1])
with recorder.step():
    pass
with recorder.step():
    recorder.record_llm_interaction([], {"content": "x"}, "p", "m")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_killed_in_a_step_loses_nothing(tmp_path: Path) -> None:
    """The step in which a process was killed is shown as in flight, with its call."""
    path = tmp_path / "run.json"
    subprocess.run([sys.executable, "-c", KILLED, path], check=False, env=os.environ)

    states = [(step.state, step.interaction_ids) for step in load(path).agent_steps]
    assert states == [("completed", ()), ("thinking", ("llm_1",))]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 and later warn of a fork beside threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_is_in_no_step_of_its_parent(recorder: TrajectoryRecorder) -> None:
    """A call in a forked child does not belong to the parent's open step, which the child's file does not have."""
    with recorder.step():
        child = os.fork()
        if child == 0:
            answers(recorder)
            os._exit(0)
        os.waitpid(child, 0)

    [other] = [path for path in recorder.trajectory_path.parent.glob("*.json") if path != recorder.trajectory_path]
    [one] = load(other).llm_interactions
    assert (one.step_number, shown(recorder)) == (None, [(1, "completed", [], [])])
