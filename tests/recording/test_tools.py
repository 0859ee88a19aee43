"""Tools: what is recorded of them, and that they behave as they would without."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import trace_recorder
from tests.run_fixtures import CHAT, TOOL, Answer, Payload, Wire, asked, call, records_of, said
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.messages import ToolResult
from trace_recorder.values.trajectory import AgentStep
from trace_recorder.views.atif.document import to_atif
from trace_recorder.views.toolbrain.turns import to_turns


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[TrajectoryRecorder]:
    """A recorder that runs, and raises what goes wrong in recording."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        yield recorder


def facts(recorder: TrajectoryRecorder, *names: str) -> list[Payload]:
    """These members of the records of tools, in order."""
    tools = [one for one in records_of(recorder.trajectory_path) if one.kind.startswith("tool_")]
    return [(one.kind, *(one.data.get(name) for name in names)) for one in tools]


def steps(recorder: TrajectoryRecorder) -> list[AgentStep]:
    """The steps, of which the document says what the journal says."""
    recorder.save_trajectory()
    trajectory = load(recorder.trajectory_path)
    assert json.loads(recorder.trajectory_path.read_bytes())["agent_steps"] == [
        step.to_document() for step in trajectory.agent_steps
    ]
    return list(trajectory.agent_steps)


def ask(recorder: TrajectoryRecorder, *calls: tuple[str, str, str], **answers: str) -> None:
    """A call whose request brings these answers back, and whose response asks for these tools."""
    told = [{"role": "tool", "tool_call_id": name, "content": text} for name, text in answers.items()]
    call(recorder, asked("go", *told, tools=[TOOL]), said(None if calls else "done", calls=calls))


# ── what is recorded ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_leaves_its_arguments_before_and_its_result_after(recorder: TrajectoryRecorder) -> None:
    """The call is on file while the tool runs; then what it gave, and how long that took."""
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


def test_what_changes_later_changes_nothing_on_file(recorder: TrajectoryRecorder) -> None:
    """Arguments and results are copied when they are there."""

    @recorder.tool
    def grow(values: list[int]) -> list[int]:
        values.append(2)
        return values

    grow([1]).append(3)

    assert facts(recorder, "arguments", "result") == [
        ("tool_call", {"values": [1]}, None),
        ("tool_result", None, [1, 2]),
    ]


def test_a_secret_in_a_tool_is_masked(recorder: TrajectoryRecorder) -> None:
    """Arguments and results are masked like everything that is said."""
    secret = "sk-proj-" + "a1B2" * 12

    @recorder.tool
    def show(text: str) -> str:
        return text

    assert show(secret) == secret
    assert secret not in recorder.trajectory_path.with_suffix(".jsonl").read_text()


def test_an_exception_is_the_error_and_passes(recorder: TrajectoryRecorder) -> None:
    """The caller gets the very exception; the file has its class and message."""
    raised = ValueError("no such file")

    @recorder.tool
    def fail() -> None:
        raise raised

    with pytest.raises(ValueError, match="no such") as caught:
        fail()

    assert caught.value is raised
    error = {"type": "ValueError", "message": "no such file"}
    assert facts(recorder, "success", "error")[1] == ("tool_result", False, error)


def test_arguments_that_do_not_fit_raise_as_ever(recorder: TrajectoryRecorder) -> None:
    """A wrong call is the tool's own TypeError, and on file as it was made."""

    @recorder.tool
    def one(value: int) -> int:
        return value

    with pytest.raises(TypeError, match="positional argument"):
        one(1, 2)  # type: ignore[call-arg]

    assert facts(recorder, "arguments")[0] == ("tool_call", {"args": [1, 2]})


def test_a_coroutine_is_recorded(recorder: TrajectoryRecorder) -> None:
    """What it gives when it is awaited is its result."""

    @recorder.tool(name="fetch")
    async def fetch_page(url: str) -> str:
        await asyncio.sleep(0)
        return f"page {url}"

    assert asyncio.run(fetch_page("x")) == "page x"
    assert facts(recorder, "name", "result") == [("tool_call", "fetch", None), ("tool_result", "fetch", "page x")]


def test_a_cancelled_tool_says_so(recorder: TrajectoryRecorder) -> None:
    """Cancellation is recorded as such, and goes on."""

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


def test_a_generator_is_recorded_by_what_it_yields(recorder: TrajectoryRecorder) -> None:
    """Nothing is on file before it runs; then its items, and what it returned."""

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
def test_of_endless_output_the_beginning_is_kept(recorder: TrajectoryRecorder, many: int) -> None:
    """A generator's first thousand items are on file, and the number of all."""
    list(recorder.tool(lambda: (yield from range(many)), name="many")())

    [_, (_, result, yielded)] = facts(recorder, "result", "yielded")
    assert (len(result), yielded) == (1000, many)


def test_a_closed_generator_says_so(recorder: TrajectoryRecorder) -> None:
    """Whoever stops listening has not made the tool fail; the tool itself hears that it is closed."""
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


def test_what_is_thrown_into_a_generator_reaches_it(recorder: TrajectoryRecorder) -> None:
    """A generator may answer an exception with another item."""

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
    """Items, values that are sent in, exceptions that are thrown in, closing: all of it passes through."""
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


# ── the tool itself ──────────────────────────────────────────────────────────────────────────────────────────────────


def plain(a: int, *, b: str = "x") -> str:
    """Do a thing."""
    return f"{a}{b}"


async def coroutine(a: int) -> int:
    return a


def generator(a: int) -> Iterator[int]:
    yield a


async def asynchronous(a: int) -> AsyncIterator[int]:
    yield a


@pytest.mark.parametrize("function", [plain, coroutine, generator, asynchronous])
def test_a_tool_is_of_its_own_kind(recorder: TrajectoryRecorder, function: Callable[..., object]) -> None:
    """Name, signature, documentation and kind are those of the function."""
    marked = recorder.tool(function)

    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    assert [kind(marked) for kind in kinds] == [kind(function) for kind in kinds]
    assert inspect.signature(marked) == inspect.signature(function)
    assert (marked.__name__, marked.__doc__, marked.__wrapped__) == (function.__name__, function.__doc__, function)  # type: ignore[attr-defined]


def with_defaults(a: int, b: int = 2, *, c: int = 3) -> int:
    return a + b + c


async def async_with_defaults(a: int, b: int = 2, *, c: int = 3) -> int:
    return a + b + c


@pytest.mark.parametrize("function", [with_defaults, async_with_defaults])
def test_a_tool_has_the_function_s_defaults(recorder: TrajectoryRecorder, function: Callable[..., object]) -> None:
    """Who reads them finds them, with the signature, followed or not; a call has them once."""
    marked: Payload = recorder.tool(function)

    assert (marked.__defaults__, marked.__kwdefaults__) == ((2,), {"c": 3})
    assert inspect.signature(marked) == inspect.signature(function)
    assert str(inspect.signature(marked, follow_wrapped=False)).startswith("(*args")
    result = marked(1, c=5)
    assert (asyncio.run(result) if inspect.iscoroutine(result) else result) == 8


def test_a_result_is_the_same_object(recorder: TrajectoryRecorder) -> None:
    """What JSON has no word for is described on file, and given as it is."""
    result = object()

    assert recorder.tool(lambda: result, name="make")() is result
    assert facts(recorder, "result")[1][1]["__type__"] == "object"


class Box:
    """Tools that are methods."""

    def __init__(self, recorder: TrajectoryRecorder) -> None:
        self.recorder = recorder

    @trace_recorder.tool
    def method(self, a: int) -> int:
        return a

    @trace_recorder.tool
    @classmethod
    def above(cls, a: int) -> str:
        return f"{cls.__name__} {a}"

    @classmethod
    @trace_recorder.tool
    def below(cls, a: int) -> str:
        return f"{cls.__name__} {a}"

    @trace_recorder.tool
    @staticmethod
    def outside(a: int) -> int:
        return a

    @staticmethod
    @trace_recorder.tool(name="renamed")
    def inside(a: int) -> int:
        return a


def test_methods_are_tools_without_their_object(recorder: TrajectoryRecorder) -> None:
    """On either side of @staticmethod and @classmethod; self and cls are no arguments."""
    box = Box(recorder)
    results = [box.method(1), box.above(2), Box.below(3), box.outside(4), Box.inside(5)]

    assert results == [1, "Box 2", "Box 3", 4, 5]
    names = ["method", "above", "below", "outside", "renamed"]
    calls = [one for one in facts(recorder, "name", "arguments") if one[0] == "tool_call"]
    assert calls == [("tool_call", name, {"a": number}) for number, name in enumerate(names, start=1)]


class Fetcher:
    async def __call__(self, a: int) -> int:
        return a


def test_partials_and_objects_that_can_be_called_are_tools(recorder: TrajectoryRecorder) -> None:
    """Whatever can be called can be marked."""
    partly = recorder.tool(functools.partial(plain, 1), name="partly")
    called = recorder.tool(Fetcher())

    assert (partly(b="y"), asyncio.run(called(3))) == ("1y", 3)
    assert [one for one in facts(recorder, "name", "arguments") if one[0] == "tool_call"] == [
        ("tool_call", "partly", {"b": "y"}),
        ("tool_call", "Fetcher", {"a": 3}),
    ]


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError("nothing")


def test_a_failure_of_recording_never_reaches_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written, the tool goes on, and the file says what is missing."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    broken = Broken()
    tool = recorder.tool(lambda value: value, name="echo")
    run = recorder._lifecycle.run_for("the test")
    with monkeypatch.context() as patch:
        patch.setattr(run, "append", lambda *_: 1 / 0)
        first = tool(broken)

    assert (first is broken, tool(broken) is broken) == (True, True)
    recorder.finalize()
    assert [gap.what for gap in load(recorder.trajectory_path).gaps] == ["record a tool call"]
    assert [one[0] for one in facts(recorder)] == ["tool_call", "tool_result"]


def test_a_tool_of_an_ended_run_goes_on_unrecorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With one warning; and a run that ends while a tool runs has only its call."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)

    @recorder.tool
    def end() -> str:
        recorder.finalize()
        return "ended"

    assert [end(), recorder.tool(plain)(1), recorder.tool(plain)(1)] == ["ended", "1x", "1x"]
    assert [one[0] for one in facts(recorder)] == ["tool_call"]
    assert [one.getMessage().partition(":")[0] for one in caplog.records] == ["a tool goes on unrecorded"]


def test_a_tool_that_follows_the_context_needs_no_recorder(tmp_path: Path) -> None:
    """Without one it just runs; with one it is recorded there, also in a thread of its own."""
    marked = trace_recorder.tool(plain)
    alone = marked(1)
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        thread = threading.Thread(target=marked, args=(2,))
        thread.start()
        thread.join()

    assert alone == "1x"
    assert facts(recorder, "arguments", "result") == [("tool_call", {"a": 2}, None), ("tool_result", None, "2x")]


def test_a_disabled_recorder_leaves_tools_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is on file, and everything works."""
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


def test_a_process_killed_in_a_tool_shows_which(tmp_path: Path) -> None:
    """The step is in flight, with the tool that it was in."""
    path = tmp_path / "run.json"
    ended = subprocess.run([sys.executable, "-c", KILLED, path], check=False, env=os.environ)

    [step] = load(path).agent_steps
    assert (ended.returncode, step.state, step.tool_results) == (-signal.SIGKILL, "thinking", ())
    assert [(one.name, one.arguments) for one in step.tool_calls] == [("die", {"how": "hard"})]


@pytest.mark.parametrize("marked", [True, False])
def test_a_generator_that_is_collected_while_something_is_recorded(recorder: TrajectoryRecorder, marked: bool) -> None:
    """Its end is on file behind what is being recorded, and nothing is torn."""

    @(recorder.tool if marked else lambda function: function)
    def endless() -> Iterator[int]:
        with recorder.step():
            while True:
                yield 1

    running = [endless()]
    next(running[0])

    class Value:
        def __repr__(self) -> str:
            running.clear()
            return "value"

    recorder.record_llm_interaction([Value()], {"content": "x"}, "p", "m")

    kinds = [one.kind for one in records_of(recorder.trajectory_path)]
    ends = ["llm_interaction", "agent_step", *(["tool_result"] if marked else [])]
    assert kinds[-len(ends) :] == ends


def test_a_name_in_the_place_of_a_function_is_misuse(recorder: TrajectoryRecorder) -> None:
    """It says how a name is given."""
    with pytest.raises(TypeError, match=r"given 'bash', and takes a function.*tool\(name="):
        recorder.tool("bash")  # type: ignore[type-var]


# ── in other formats ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_views_have_the_object_and_the_text(recorder: TrajectoryRecorder) -> None:
    """ToolBrain's action_output and ATIF's extra have the object, and the model's text stands where text stands."""
    ask(recorder, ("c1", "bash", '{"command": "ls"}'))
    recorder.tool(lambda command: {"out": [command]}, name="bash")("ls")
    ask(recorder, c1="out: ls")

    trajectory = load(recorder.trajectory_path)
    [turn, _] = to_turns(trajectory)
    [result] = next(step for step in to_atif(trajectory)["steps"] if "tool_calls" in step)["observation"]["results"]
    assert (turn["action_output"], turn["tool_output"]) == ({"out": ["ls"]}, "out: ls")
    assert (result["content"], result["extra"]["result"]) == ("out: ls", {"out": ["ls"]})


# ── which call it was ────────────────────────────────────────────────────────────────────────────────────────────────


def results(step: AgentStep) -> list[Payload]:
    """Call id, result and what the model was told, of each result."""
    return [(one.call_id, one.result, one.sent) for one in step.tool_results]


def test_a_derived_step_has_the_object_and_the_text(recorder: TrajectoryRecorder) -> None:
    """The tool's result keeps its structure; what the agent made of it for the model stands beside it."""

    @recorder.tool
    def bash(command: str) -> dict[str, object]:
        return {"code": 0, "out": command}

    ask(recorder, ("c1", "bash", '{"command": "ls"}'))
    bash("ls")
    ask(recorder, c1="code 0")

    first, second = steps(recorder)
    [result] = first.tool_results
    told = ToolResult("c1", "bash", True, {"code": 0, "out": "ls"}, sent="code 0")
    assert replace(result, duration_seconds=None) == told
    assert (first.state, first.derived, second.state, second.tool_calls) == ("calling_tool", True, "completed", ())


ASKING = {"index": 0, "id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}


@pytest.mark.parametrize("delta", [{"tool_calls": [ASKING]}, {"content": "I run it myself."}])
def test_a_stream_that_is_closed_late_has_asked_before(recorder: TrajectoryRecorder, delta: Payload) -> None:
    """An agent that goes on before it has closed a stream has its tool and its answer where they belong."""
    events = f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\ndata: [DONE]\n\n"
    transport = Wire(Answer(events.encode(), media="text/event-stream", size=len(events)))
    bash = recorder.tool(lambda command: {"out": command}, name="bash")
    ask(recorder)
    with recorder.wrap(httpx.Client(transport=transport, trust_env=False)) as client:
        with client.stream("POST", CHAT, json=asked("go", stream=True, tools=[TOOL])) as response:
            next(response.iter_bytes())
            bash("ls")
            ask(recorder, c1="ls")

    _, streamed, last = steps(recorder)
    [result] = streamed.tool_results
    assert (result.result, last.tool_results) == ({"out": "ls"}, ())
    assert (result.call_id, result.sent) == (("c1", "ls") if "tool_calls" in delta else ("tool_1", None))


def test_what_no_open_stream_asked_for_waits_once_with_each(recorder: TrajectoryRecorder) -> None:
    """However many streams are open when a result comes that none of them asked for, it costs its bytes in each."""
    events = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'
    transport = Wire(Answer(events, media="text/event-stream", size=len(events)))
    with recorder.wrap(httpx.Client(transport=transport, trust_env=False)) as client, ExitStack() as streams:
        for _ in range(30):
            streams.enter_context(client.stream("POST", CHAT, json=asked("go", stream=True)))
        ask(recorder, nobody="asked for this")

    assert [step.tool_results for step in steps(recorder)] == [()] * 31


def test_parallel_calls_are_told_apart_by_their_arguments(recorder: TrajectoryRecorder) -> None:
    """Run in another order than asked for, equal ones in their order."""
    echo = recorder.tool(lambda **given: given, name="bash")
    ask(recorder, ("c1", "bash", '{"n": 1}'), ("c2", "bash", '{"n": 2}'), ("c3", "bash", '{"n": 1}'))

    for number in (2, 1, 1):
        echo(n=number)

    [step] = steps(recorder)
    assert results(step) == [("c1", {"n": 1}, None), ("c2", {"n": 2}, None), ("c3", {"n": 1}, None)]


def test_a_single_call_is_found_whatever_became_of_its_arguments(recorder: TrajectoryRecorder) -> None:
    """An agent may convert them; where several of that name are open, nothing is guessed."""
    echo = recorder.tool(lambda n: n, name="bash")
    ask(recorder, ("c1", "bash", '{"n": "1"}'))
    echo(1)
    ask(recorder, ("c2", "bash", '{"n": "2"}'), ("c3", "bash", '{"n": "3"}'), c1="1")
    echo(2)

    first, second = steps(recorder)
    assert results(first) == [("c1", 1, "1")]
    assert [(one.call_id, one.call_id_made_up) for one in second.tool_calls][2:] == [("tool_2", True)]


def test_a_tool_that_failed_may_be_tried_again(recorder: TrajectoryRecorder) -> None:
    """Both executions are of the one call; the last counts."""
    tries: list[int] = []

    @recorder.tool
    def bash() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("busy")
        return "ok"

    ask(recorder, ("c1", "bash", "{}"))
    with pytest.raises(OSError, match="busy"):
        bash()
    bash()

    [step] = steps(recorder)
    assert (results(step), len(step.tool_calls)) == ([("c1", "ok", None)], 1)


def test_a_tool_that_no_model_asked_for_has_an_id_of_ours(recorder: TrajectoryRecorder) -> None:
    """It stands with the last call of its agent."""
    ask(recorder)
    recorder.tool(plain)(1)

    [step] = steps(recorder)
    assert [(one.call_id, one.name, one.arguments, one.call_id_made_up) for one in step.tool_calls] == [
        ("tool_1", "plain", {"a": 1}, True)
    ]
    assert (step.state, results(step)) == ("calling_tool", [("tool_1", "1x", None)])


def test_a_call_id_can_be_stated(recorder: TrajectoryRecorder) -> None:
    """A tool that no decorator sees is told of; one that is marked, inside, is the same execution."""
    ask(recorder, ("c1", "bash", '{"n": 1}'), ("c2", "bash", '{"n": 1}'))

    with recorder.tool_call("bash", {"n": 1}, call_id="c2") as told:
        told.result = {"by": "hand"}
    with recorder.tool_call("bash", call_id="c1"):
        recorder.tool(lambda n: [n], name="bash")(1)

    [step] = steps(recorder)
    assert results(step) == [("c1", [1], None), ("c2", {"by": "hand"}, None)]
    assert [one[0] for one in facts(recorder)] == ["tool_call", "tool_result"] * 2


def test_a_told_tool_that_fails_passes_its_exception_on(recorder: TrajectoryRecorder) -> None:
    """As a block of its own, in async code too."""

    async def fail() -> None:
        async with recorder.tool_call("bash"):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(fail())

    assert facts(recorder, "error")[1] == ("tool_result", {"type": "OSError", "message": "gone"})
