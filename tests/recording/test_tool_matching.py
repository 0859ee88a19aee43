"""Which tool call of the model an execution belongs to, and what a step shows of both."""

from __future__ import annotations

import json
from contextlib import ExitStack

import httpx
import pytest
from msgspec.structs import replace

from tests.chat_calls import CHAT, TOOL, Answer, Wire, asked
from tests.recording.tool_runs import ask, facts, plain, steps
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.formats.atif.writing import to_atif
from trace_recorder.formats.toolbrain.turns import to_turns
from trace_recorder.values.messages import Payload, ToolResult
from trace_recorder.values.trajectory import AgentStep


def test_views_have_the_object_and_the_text(recorder: TrajectoryRecorder) -> None:
    """ToolBrain's `action_output` and ATIF's `extra` have the tool's result object; their text members have the model's
    text.
    """
    ask(recorder, ("c1", "bash", '{"command": "ls"}'))
    recorder.tool(lambda command: {"out": [command]}, name="bash")("ls")
    ask(recorder, c1="out: ls")

    trajectory = load(recorder.trajectory_path)
    [turn, _] = to_turns(trajectory)
    [result] = next(step for step in to_atif(trajectory)["steps"] if "tool_calls" in step)["observation"]["results"]
    assert (turn["action_output"], turn["tool_output"]) == ({"out": ["ls"]}, "out: ls")
    assert (result["content"], result["extra"]["result"]) == ("out: ls", {"out": ["ls"]})


def results(step: AgentStep) -> list[Payload]:
    """Return the call id, the result and the model's text of each tool result."""
    return [(result.call_id, result.result, result.sent) for result in step.tool_results]


def test_a_derived_step_has_the_object_and_the_text(recorder: TrajectoryRecorder) -> None:
    """A derived step has the tool's result object next to the text that the model got."""

    @recorder.tool
    def bash(command: str) -> dict[str, object]:
        return {"code": 0, "out": command}

    ask(recorder, ("c1", "bash", '{"command": "ls"}'))
    bash("ls")
    ask(recorder, c1="code 0")

    first, second = steps(recorder)
    [result] = first.tool_results
    told = ToolResult("c1", name="bash", success=True, result={"code": 0, "out": "ls"}, sent="code 0")
    assert result.timestamp is not None
    assert replace(result, duration_seconds=None, timestamp=None) == told
    assert (first.state, first.derived, second.state, second.tool_calls) == ("calling_tool", True, "completed", ())


ASKING = {"index": 0, "id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}


@pytest.mark.parametrize("delta", [{"tool_calls": [ASKING]}, {"content": "I run it myself."}])
def test_a_stream_that_is_closed_late_has_asked_before_its_tool(recorder: TrajectoryRecorder, delta: Payload) -> None:
    """A tool that runs before the model's stream was closed still belongs to the stream's call."""
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


def test_an_unrequested_result_waits_once_for_each_open_stream(recorder: TrajectoryRecorder) -> None:
    """A result that no open stream asked for is kept in memory once for each open stream."""
    events = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'
    transport = Wire(Answer(events, media="text/event-stream", size=len(events)))
    with recorder.wrap(httpx.Client(transport=transport, trust_env=False)) as client, ExitStack() as streams:
        for _ in range(30):
            streams.enter_context(client.stream("POST", CHAT, json=asked("go", stream=True)))
        ask(recorder, nobody="asked for this")

    assert [step.tool_results for step in steps(recorder)] == [()] * 31


def test_parallel_calls_are_distinguished_by_their_arguments(recorder: TrajectoryRecorder) -> None:
    """Executions in another order than that of the calls are matched by arguments, and equal calls in their order."""
    echo = recorder.tool(lambda **given: given, name="bash")
    ask(recorder, ("c1", "bash", '{"n": 1}'), ("c2", "bash", '{"n": 2}'), ("c3", "bash", '{"n": 1}'))

    for number in (2, 1, 1):
        echo(n=number)

    [step] = steps(recorder)
    assert results(step) == [("c1", {"n": 1}, None), ("c2", {"n": 2}, None), ("c3", {"n": 1}, None)]


def test_a_call_whose_result_the_model_has_is_not_a_later_tool_s(recorder: TrajectoryRecorder) -> None:
    """A call whose result the model already has is not matched; a later tool belongs to the other open call."""
    echo = recorder.tool(lambda **arguments: arguments, name="bash")
    ask(recorder, ("c1", "bash", '{"n": 1}'), ("c2", "bash", '{"n": 1}'))
    ask(recorder, c1="one")

    echo(n=1)

    first = steps(recorder)[0]
    assert results(first) == [("c1", "one", None), ("c2", {"n": 1}, None)]


def test_a_single_call_is_found_with_changed_arguments(recorder: TrajectoryRecorder) -> None:
    """A tool with converted arguments belongs to the only open call of its name; of several, none is chosen."""
    echo = recorder.tool(lambda n: n, name="bash")
    ask(recorder, ("c1", "bash", '{"n": "1"}'))
    echo(1)
    ask(recorder, ("c2", "bash", '{"n": "2"}'), ("c3", "bash", '{"n": "3"}'), c1="1")
    echo(2)

    first, second = steps(recorder)
    assert results(first) == [("c1", 1, "1")]
    assert [(tool_call.call_id, tool_call.call_id_made_up) for tool_call in second.tool_calls][2:] == [("tool_2", True)]


def test_a_failed_tool_may_be_run_again(recorder: TrajectoryRecorder) -> None:
    """Two executions for the same call both belong to it, and the result of the last counts."""
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


def test_a_tool_that_no_model_asked_for_gets_an_id(recorder: TrajectoryRecorder) -> None:
    """A tool that no model asked for gets a new id, and is shown with the last call of its agent."""
    ask(recorder)
    recorder.tool(plain)(1)

    [step] = steps(recorder)
    assert [
        (tool_call.call_id, tool_call.name, tool_call.arguments, tool_call.call_id_made_up)
        for tool_call in step.tool_calls
    ] == [("tool_1", "plain", {"a": 1}, True)]
    assert (step.state, results(step)) == ("calling_tool", [("tool_1", "1x", None)])


def test_a_call_id_can_be_given(recorder: TrajectoryRecorder) -> None:
    """A tool can be announced with its call id, and a decorated tool inside is the same execution."""
    ask(recorder, ("c1", "bash", '{"n": 1}'), ("c2", "bash", '{"n": 1}'))

    with recorder.tool_call("bash", {"n": 1}, call_id="c2") as told:
        told.result = {"by": "hand"}
    with recorder.tool_call("bash", call_id="c1"):
        recorder.tool(lambda n: [n], name="bash")(1)

    [step] = steps(recorder)
    assert results(step) == [("c1", [1], None), ("c2", {"by": "hand"}, None)]
    assert [one[0] for one in facts(recorder)] == ["tool_call", "tool_result"] * 2
