"""Tools: what is recorded of them, and that they behave as they do without a recorder."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from pathlib import Path

import pytest

import trace_recorder
from tests.faults.unlucky import limit
from tests.journals import records_of
from tests.recording.tool_runs import facts, plain
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.messages import Payload


def test_a_tool_s_arguments_are_recorded_before_and_its_result_after(recorder: TrajectoryRecorder) -> None:
    """A tool's call is on file while the tool runs; its result and duration follow."""
    during: list[Payload] = []

    @recorder.tool
    def search(query: str, limit: int = 3, *rest: int, **more: object) -> dict[str, object]:
        during.extend(facts(recorder, "execution_id", "name", "arguments"))
        return {"hits": [query, limit], "more": (more,)}

    search("a", 2, 7, page=1)

    arguments = {"query": "a", "limit": 2, "rest": [7], "page": 1}
    assert during == [("tool_call", "tool_1", "search", arguments)]
    [_, (_, success, result, error, seconds)] = facts(recorder, "success", "result", "error", "duration_seconds")
    assert (success, result, error) == (True, {"hits": ["a", 2], "more": [{"page": 1}]}, None)
    assert seconds >= 0


def test_later_changes_of_values_do_not_change_the_file(recorder: TrajectoryRecorder) -> None:
    """Later changes of a tool's arguments and result do not change the file."""

    @recorder.tool
    def grow(values: list[int]) -> list[int]:
        values.append(2)
        return values

    grow([1]).append(3)

    assert facts(recorder, "arguments", "result") == [
        ("tool_call", {"values": [1]}, None),
        ("tool_result", None, [1, 2]),
    ]


def test_a_tool_without_a_name_is_recorded(recorder: TrajectoryRecorder) -> None:
    """A name that is not a text is described, even if it is None."""
    with recorder.tool_call(None, {"a": 1}) as call:  # type: ignore[arg-type]
        call.result = "fine"

    described = {"__type__": "NoneType", "repr": "None"}
    assert facts(recorder, "name", "arguments") == [
        ("tool_call", described, {"a": 1}),
        ("tool_result", described, None),
    ]


def test_an_argument_called_self_is_recorded(recorder: TrajectoryRecorder) -> None:
    """An argument named `self` of a function that is not a method is recorded."""

    @recorder.tool
    def compare(self: str, other: str) -> bool:
        return self == other

    compare("a", other="b")

    assert facts(recorder, "arguments")[0] == ("tool_call", {"self": "a", "other": "b"})


def test_a_secret_in_a_tool_is_masked(recorder: TrajectoryRecorder) -> None:
    """Secrets in a tool's arguments and result are masked."""
    secret = "sk-proj-" + "a1B2" * 12

    @recorder.tool
    def show(text: str) -> str:
        return text

    assert show(secret) == secret
    assert secret not in recorder.trajectory_path.with_suffix(".jsonl").read_text()


def test_an_exception_is_the_tool_s_error(recorder: TrajectoryRecorder) -> None:
    """An exception of a tool reaches the caller unchanged, and its class and message are recorded."""
    raised = ValueError("no such file")

    @recorder.tool
    def fail() -> None:
        raise raised

    with pytest.raises(ValueError, match="no such") as caught:
        fail()

    assert caught.value is raised
    error = {"type": "ValueError", "message": "no such file"}
    assert facts(recorder, "success", "error")[1] == ("tool_result", False, error)


def test_invalid_arguments_raise_as_without_a_recorder(recorder: TrajectoryRecorder) -> None:
    """Wrong arguments raise the tool's own TypeError, and the call is recorded with them."""

    @recorder.tool
    def one(value: int) -> int:
        return value

    with pytest.raises(TypeError, match="positional argument"):
        one(1, 2)  # type: ignore[call-arg]

    assert facts(recorder, "arguments")[0] == ("tool_call", {"args": [1, 2]})


def test_a_coroutine_is_recorded(recorder: TrajectoryRecorder) -> None:
    """The recorded result of a coroutine is the awaited value."""

    @recorder.tool(name="fetch")
    async def fetch_page(url: str) -> str:
        await asyncio.sleep(0)
        return f"page {url}"

    assert asyncio.run(fetch_page("x")) == "page x"
    assert facts(recorder, "name", "result") == [("tool_call", "fetch", None), ("tool_result", "fetch", "page x")]


def test_a_cancelled_tool_is_recorded_as_cancelled(recorder: TrajectoryRecorder) -> None:
    """The cancellation of a tool is recorded as such and raised further."""

    @recorder.tool
    async def wait() -> None:
        await asyncio.sleep(60)

    async def cancelled() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())

    assert facts(recorder, "success", "error")[1] == ("tool_result", False, {"type": "CancelledError", "message": ""})


def test_a_generator_is_recorded_by_its_items(recorder: TrajectoryRecorder) -> None:
    """A generator is recorded when it runs, with its items and its return value."""

    @recorder.tool
    def count(end: int) -> Generator[int, str, str]:
        got = ""
        for number in range(end):
            got += yield number
        return got

    counting = count(2)
    before = facts(recorder)
    with pytest.raises(StopIteration) as stopped:
        (next(counting), counting.send("a"), counting.send("b"))

    assert (before, stopped.value.value) == ([], "ab")
    result = ("tool_result", True, [0, 1], "ab", 2)
    assert facts(recorder, "success", "result", "returned", "yielded")[1] == result


@pytest.mark.parametrize("many", [1000, 1001])
def test_the_beginning_of_endless_output_is_kept(recorder: TrajectoryRecorder, many: int) -> None:
    """The first thousand items of a generator are recorded, and how many there were."""
    list(recorder.tool(lambda: (yield from range(many)), name="many")())

    [_, (_, result, yielded)] = facts(recorder, "result", "yielded")
    assert (len(result), yielded) == (1000, many)


def test_a_closed_generator_is_recorded_as_closed(recorder: TrajectoryRecorder) -> None:
    """A generator that is closed early has no error, and sees that it is closed."""
    heard: list[str] = []

    @recorder.tool
    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            heard.append("closed")

    running = endless()
    next(running)
    running.close()  # type: ignore[attr-defined]

    assert heard == ["closed"]
    assert facts(recorder, "success", "ended_by", "result")[1] == ("tool_result", None, "it was closed", [1])


def test_an_exception_thrown_into_a_generator_reaches_it(recorder: TrajectoryRecorder) -> None:
    """An exception that the caller throws into a generator reaches it, and the generator may yield another item."""

    @recorder.tool
    def stubborn() -> Iterator[str]:
        try:
            yield "first"
        except KeyError:
            yield "second"

    running = stubborn()
    items = [next(running), running.throw(KeyError("k"))]  # type: ignore[attr-defined]

    assert (items, list(running)) == (["first", "second"], [])
    assert facts(recorder, "result")[1] == ("tool_result", ["first", "second"])


def test_an_async_generator_is_recorded(recorder: TrajectoryRecorder) -> None:
    """An async generator's items, sent values, thrown exceptions and closing work as without a recorder."""
    heard: list[object] = []

    @recorder.tool
    async def talk() -> AsyncGenerator[str, str]:
        try:
            heard.append((yield "one"))
            yield "two"
        except KeyError:
            yield "three"
        finally:
            heard.append("closed")

    async def listen() -> list[str]:
        talking = talk()
        items = [await anext(talking), await talking.asend("hi"), await talking.athrow(KeyError("k"))]
        await talking.aclose()
        return items + [item async for item in talk()]

    items = asyncio.run(listen())

    assert items == ["one", "two", "three", "one", "two"]
    assert heard == ["hi", "closed", None, "closed"]
    results = [one for one in facts(recorder, "result", "success", "ended_by") if one[0] == "tool_result"]
    assert results == [
        ("tool_result", ["one", "two", "three"], None, "it was closed"),
        ("tool_result", ["one", "two"], True, None),
    ]


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError("nothing")


def test_a_failure_of_recording_does_not_reach_the_tool(tmp_path: Path) -> None:
    """If a record cannot be written, the tool goes on, and the file says which record is missing."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    broken = Broken()
    tool = recorder.tool(lambda value: value, name="echo")
    with limit(resource.RLIMIT_FSIZE, (tmp_path / "run.jsonl").stat().st_size):
        first = tool(broken)

    assert (first is broken, tool(broken) is broken) == (True, True)
    recorder.finalize()
    assert [gap.what for gap in load(recorder.trajectory_path).gaps] == ["record a tool call"]
    assert [one[0] for one in facts(recorder)] == ["tool_call", "tool_result"]


def test_a_tool_of_an_ended_run_runs_unrecorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A tool after the run's end works with one warning. Of a tool that runs at the end, only the call is recorded."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)

    @recorder.tool
    def end() -> str:
        recorder.finalize()
        return "ended"

    assert [end(), recorder.tool(plain)(1), recorder.tool(plain)(1)] == ["ended", "1x", "1x"]
    assert [one[0] for one in facts(recorder)] == ["tool_call"]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["a tool goes on unrecorded"]


def test_a_tool_that_follows_the_context_needs_no_recorder(tmp_path: Path) -> None:
    """A tool without a recorder of its own is recorded by the active recorder, if any."""
    marked = trace_recorder.tool(plain)
    alone = marked(1)
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        marked(2)

    assert alone == "1x"
    assert facts(recorder, "arguments", "result") == [("tool_call", {"a": 2}, None), ("tool_result", None, "2x")]


def test_a_disabled_recorder_does_not_change_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool of a disabled recorder works, and nothing is recorded."""
    monkeypatch.setenv("TRACE_RECORDER_DISABLED", "1")
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)

    with recorder.agent("a"), recorder.step() as first, recorder.tool_call("plain"):
        result = recorder.tool(plain)(1)
    with recorder.step() as second:
        pass

    assert (result, first.step_number, second.step_number) == ("1x", 1, 2)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from trace_recorder import TrajectoryRecorder
recorder = TrajectoryRecorder(sys.argv[1])

@recorder.tool
def die(how):
    os.kill(os.getpid(), signal.SIGKILL)

with recorder.step():
    die("hard")
"""


def test_a_process_killed_in_a_tool_shows_the_tool(tmp_path: Path) -> None:
    """The step in which a process was killed is shown as in flight, with the tool that was running."""
    path = tmp_path / "run.json"
    ended = subprocess.run([sys.executable, "-c", KILLED, path], check=False, env=os.environ)

    [step] = load(path).agent_steps
    assert (ended.returncode, step.state, step.tool_results) == (-signal.SIGKILL, "thinking", ())
    assert [(tool_call.name, tool_call.arguments) for tool_call in step.tool_calls] == [("die", {"how": "hard"})]


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("locked", [True, False])
def test_a_generator_may_be_collected_during_a_record(tmp_path: Path, marked: bool, locked: bool) -> None:
    """The end of a collected generator is recorded at once, or after the present record if a thread holds the run's
    lock.
    """
    running: list[Iterator[int]] = []

    class Value:
        def __repr__(self) -> str:
            running.clear()
            return "value"

    def redact(text: str) -> str:  # this is called while the lock is held
        if text == "the answer":
            running.clear()
        return text

    with TrajectoryRecorder(tmp_path / "run.json", strict=True, redact=redact) as recorder:

        @(recorder.tool if marked else lambda function: function)
        def endless() -> Iterator[int]:
            with recorder.step():
                while True:
                    yield 1

        running.append(endless())
        next(running[0])
        recorder.record_llm_interaction(["a" if locked else Value()], {"content": "the answer"}, "p", "m")
        kinds = [record.kind for record in records_of(recorder.trajectory_path) if record.kind != "item"]

    ends = ["agent_step", *(["tool_result"] if marked else [])]
    ends = ["llm_interaction", *ends] if locked else [*ends, "llm_interaction"]
    assert (kinds[-len(ends) :], running) == (ends, [])


def test_a_name_in_place_of_a_function_is_a_misuse(recorder: TrajectoryRecorder) -> None:
    """A string in place of the function raises an error that says how to give a name."""
    with pytest.raises(TypeError, match=r"given 'bash', and takes a function.*tool\(name="):
        recorder.tool("bash")  # type: ignore[type-var]


def test_a_failed_tool_block_raises_its_exception(recorder: TrajectoryRecorder) -> None:
    """An exception in a `tool_call` block is raised further, also in async code."""

    async def fail() -> None:
        async with recorder.tool_call("bash"):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(fail())

    assert facts(recorder, "error")[1] == ("tool_result", {"type": "OSError", "message": "gone"})
