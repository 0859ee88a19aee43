"""Tools that ran before the first model call, or outside every step that the agent marked, are in steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.agreement import agrees_when_saved
from tests.chat_calls import CHAT, Wire, asked, call, said, streamed
from tests.cli.invoking import invoke
from tests.journals import journal_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.figures.stats import Stats
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import AgentStep


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[TrajectoryRecorder]:
    """A running recorder that raises failures of recording."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        yield recorder


def steps(recorder: TrajectoryRecorder) -> list[AgentStep]:
    """Return the steps of a run, after a check that its document equals its journal."""
    assert agrees_when_saved(recorder)
    return list(load(recorder.trajectory_path).agent_steps)


def shown(recorder: TrajectoryRecorder) -> list[Payload]:
    """Return for each step its number, whether it is derived, its interaction, and its tools by name and success."""
    return [
        (
            step.step_number,
            step.derived,
            step.interaction and step.interaction.interaction_id,
            [tool.name for tool in step.tool_calls],
            [result.success for result in step.tool_results],
        )
        for step in steps(recorder)
    ]


def use(recorder: TrajectoryRecorder, name: str, *, fails: bool = False, call_id: str | None = None) -> None:
    """Record a run of a tool with its outcome."""
    with suppress(OSError), recorder.tool_call(name, {"q": name}, call_id) as running:
        running.result = f"{name}'s result"
        if fails:
            raise OSError("no index")


def test_a_retrieval_before_the_first_call_is_a_step(recorder: TrajectoryRecorder) -> None:
    """The retrieval is step 1, with its arguments and its result. The call is step 2."""

    @recorder.tool
    def retrieve(query: str) -> list[str]:
        return [f"about {query}"]

    retrieve("tea")
    call(recorder, asked("about tea: what is it?"), said("a drink"))

    first, second = steps(recorder)
    [one], [result] = first.tool_calls, first.tool_results
    assert (first.step_number, first.state, first.derived, first.interaction) == (1, "calling_tool", True, None)
    assert (first.llm_response, first.llm_messages, first.error) == (None, None, None)
    assert (one.call_id, one.name, one.arguments, one.call_id_made_up) == ("tool_1", "retrieve", {"query": "tea"}, True)
    assert (result.call_id, result.success, result.result) == ("tool_1", True, ["about tea"])
    assert (second.step_number, second.state) == (2, "completed")
    assert first.timestamp < second.timestamp


def test_a_tool_that_fails_before_the_first_call_is_an_error(recorder: TrajectoryRecorder) -> None:
    """The tool is counted as failed, and the step has the error."""
    use(recorder, "retrieve", fails=True)
    call(recorder, asked("what is tea?"), said("a drink"))

    first, _ = steps(recorder)
    metrics = load(recorder.trajectory_path).metrics
    assert (first.state, first.error) == ("error", "OSError: no index")
    assert (metrics["agent_steps"], metrics["tool_calls"], metrics["failed_tool_calls"]) == (2, 1, 1)


def test_consecutive_tools_share_a_step(recorder: TrajectoryRecorder) -> None:
    """The tools of an agent share a step until the agent calls its model."""
    for name in ("embed", "retrieve", "rank"):
        use(recorder, name)
    call(recorder, asked("a"), said("b"))

    assert shown(recorder) == [
        (1, True, None, ["embed", "retrieve", "rank"], [True, True, True]),
        (2, True, "llm_1", [], []),
    ]


def test_a_tool_outside_the_only_marked_step_is_a_step(recorder: TrajectoryRecorder) -> None:
    """A tool before or after the marked step gets a derived step. Derived steps count from 1, and the agent's number
    stays.
    """
    use(recorder, "prepare")
    with recorder.step(7):
        call(recorder, asked("a"), said("b"))
        use(recorder, "inside")
    use(recorder, "clean", fails=True)

    assert shown(recorder) == [
        (1, True, None, ["prepare"], [True]),
        (7, False, "llm_1", ["inside"], [True]),
        (2, True, None, ["clean"], [False]),
    ]
    assert load(recorder.trajectory_path).metrics["tool_calls"] == 3


def test_a_tool_after_the_step_of_its_call_belongs_to_that_step(recorder: TrajectoryRecorder) -> None:
    """The tool belongs to the step whose call asked for it."""
    with recorder.step():
        call(recorder, asked("a"), said(None, calls=[("c1", "bash", '{"q": "bash"}')]))
    use(recorder, "bash")

    assert shown(recorder) == [(1, False, "llm_1", ["bash"], [True])]


def test_a_tool_whose_call_was_outside_every_step_has_a_step(recorder: TrajectoryRecorder) -> None:
    """The step has the id of the call, and the result that the model got."""
    call(recorder, asked("a"), said(None, calls=[("c1", "bash", '{"q": "bash"}')]))
    use(recorder, "bash")
    with recorder.step():
        told = {"role": "tool", "tool_call_id": "c1", "content": "short"}
        call(recorder, asked("a", told), said("done"))

    first, second = steps(recorder)
    assert [(tool_call.call_id, tool_call.call_id_made_up) for tool_call in first.tool_calls] == [("c1", False)]
    assert [(result.result, result.sent) for result in first.tool_results] == [("bash's result", "short")]
    assert (second.step_number, second.interaction_ids) == (1, ("llm_2",))


def test_a_marked_step_keeps_the_tools_of_earlier_calls(recorder: TrajectoryRecorder) -> None:
    """The first step that the agent marks replaces the derived steps, and no tool is lost."""
    for number in range(12):
        call(recorder, asked(str(number)), said(None, identity=f"r{number}", calls=[(f"c{number}", "bash", "{}")]))
        use(recorder, "bash", call_id=f"c{number}")
        assert agrees_when_saved(recorder)
    with recorder.step():
        call(recorder, asked("a"), said("b"))

    found = steps(recorder)
    assert [one.call_id for step in found for one in step.tool_calls] == [f"c{number}" for number in range(12)]
    assert load(recorder.trajectory_path).metrics["tool_calls"] == 12


def test_each_agent_has_its_own_steps(recorder: TrajectoryRecorder) -> None:
    """Two agents may have the same name, and an agent may run tools without calling a model."""
    use(recorder, "main")
    for _ in range(2):
        with recorder.agent("searcher"):
            use(recorder, "search")
    use(recorder, "main again")
    call(recorder, asked("a"), said("b"))

    agents_and_tools = [
        (step.agent, step.agent_id, [tool.name for tool in step.tool_calls]) for step in steps(recorder)
    ]
    assert agents_and_tools == [
        (None, None, ["main", "main again"]),
        ("searcher", "agent_1", ["search"]),
        ("searcher", "agent_2", ["search"]),
        (None, None, []),
    ]


def test_a_tool_of_an_open_stream_belongs_to_that_call(recorder: TrajectoryRecorder) -> None:
    """The call is unknown until the stream ends. Then the tool's own step disappears."""
    delta = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "bash", "arguments": '{"q": "bash"}'}}]}
    answer = streamed("x")
    events = json.dumps({"id": "s", "choices": [{"index": 0, "delta": delta}]})
    body = f"data: {events}\n\n".encode() + answer.body
    with httpx.Client(transport=Wire(type(answer)(body, media=answer.media, size=len(body)))) as client:
        with recorder.wrap(client).stream("POST", CHAT, json=asked("a", stream=True)) as response:
            use(recorder, "bash")
            during = shown(recorder)
            response.read()

    assert during == [(1, True, "llm_1", [], []), (2, True, None, ["bash"], [True])]
    assert shown(recorder) == [(1, True, "llm_1", ["bash"], [True])]


def test_a_tool_recorded_with_a_step_is_shown_once(recorder: TrajectoryRecorder) -> None:
    """An agent that records its steps afterwards names calls whose tools were recorded while they ran."""
    call(recorder, asked("a"), said(None, calls=[("c1", "bash", '{"q": "bash"}')]))
    use(recorder, "bash")
    before = shown(recorder)
    use(recorder, "unnamed")
    named = [{"call_id": "c1", "name": "bash", "arguments": {}}, {"name": "unnamed", "arguments": {"q": "unnamed"}}]
    recorder.record_agent_step(1, "calling_tool", tool_calls=named)
    use(recorder, "later")

    assert before == [(1, True, "llm_1", ["bash"], [True])]
    assert shown(recorder) == [
        (1, False, None, ["bash", "unnamed"], []),
        (1, True, None, ["later"], [True]),
    ]


def test_a_long_series_of_tools_is_several_steps(recorder: TrajectoryRecorder) -> None:
    """If an agent only runs tools, and its model calls are not recorded, no step grows without limit."""
    for number in range(150):
        use(recorder, f"t{number}")

    found = steps(recorder)
    assert [len(one.tool_calls) for one in found] == [64, 64, 22]
    assert [tool.name for one in found for tool in one.tool_calls] == [f"t{number}" for number in range(150)]


def test_a_running_tool_is_shown_without_a_result(tmp_path: Path) -> None:
    """If a process is killed in a tool before its first call, the run shows which tool it was."""
    code = """
import os, signal, sys
from trace_recorder import TrajectoryRecorder
recorder = TrajectoryRecorder(sys.argv[1])
with recorder.tool_call("retrieve", {"q": 1}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "run.json"], check=False, env=os.environ)

    [step] = load(tmp_path / "run.json").agent_steps
    assert killed.returncode == -signal.SIGKILL
    assert ([tool_call.name for tool_call in step.tool_calls], step.tool_results, step.state) == (
        ["retrieve"],
        (),
        "calling_tool",
    )


def test_a_damaged_beginning_of_a_tool_leaves_the_tool(tmp_path: Path) -> None:
    """The record of the result alone shows that the tool ran."""
    ended = {"execution_id": "tool_1", "name": "retrieve", "success": True, "result": 3}
    (tmp_path / "run.jsonl").write_bytes(journal_of(("start", {}), ("tool_result", ended)))

    [step] = load(tmp_path / "run.jsonl").agent_steps

    assert [(result.name, result.result) for result in step.tool_results] == [("retrieve", 3)]


def test_a_failed_tool_that_states_its_interaction_has_no_gap(tmp_path: Path) -> None:
    """A tool of a joined session file names the interaction, and the model's call of it stays the model's."""
    asks = {"tool_calls": [{"call_id": "c1", "name": "bash", "arguments": {}}]}
    manual = {"interaction_id": "llm_1", "provider": None, "model": None, "body": {}, "response": asks}
    tool = {"execution_id": "tool_1", "name": "bash", "call_id": "c1"}
    ended = {**tool, "success": False, "result": None, "error": {"type": "", "message": "no such file"}}
    records = (
        ("start", {}),
        ("llm_interaction", manual),
        ("tool_call", {**tool, "arguments": {}, "interaction_id": "llm_1"}),
        ("tool_result", ended),
    )
    (tmp_path / "run.jsonl").write_bytes(journal_of(*records))

    run = load(tmp_path / "run.jsonl")

    [step] = run.agent_steps
    assert run.gaps == ()
    assert [(result.call_id, result.success, result.error) for result in step.tool_results] == [
        ("c1", False, "no such file")
    ]


def test_a_document_has_the_tools_without_its_journal(recorder: TrajectoryRecorder) -> None:
    """The document has the same tools as the journal."""
    use(recorder, "retrieve")
    call(recorder, asked("a"), said("b"))
    recorder.finalize()
    expected = load(recorder.trajectory_path).agent_steps
    recorder.trajectory_path.with_suffix(".jsonl").unlink()

    found = load(recorder.trajectory_path).agent_steps

    assert [one.to_document() for one in found] == [one.to_document() for one in expected]


def test_show_and_stats_have_the_tools(recorder: TrajectoryRecorder) -> None:
    """`show` prints the step and counts it, and `stats` counts the tool."""
    use(recorder, "retrieve", fails=True)
    call(recorder, asked("a"), said("b"))
    recorder.finalize()

    told = invoke("show", recorder.trajectory_path)
    figures = Stats()
    figures.add(load(recorder.trajectory_path))

    [figure] = figures.to_json()["tools"]
    assert figure.pop("seconds") == figure.pop("mean_seconds") > 0
    assert figure == {"name": "retrieve", "calls": 1, "failed": 1, "unanswered": 0, "outcome_unknown": 0}
    assert "step 1 (tools), error" in told.output
    assert "2 steps" in told.output
    assert "1 tool call (1 failed)" in told.output


def test_a_summary_belongs_to_the_step_with_the_agent_s_number(recorder: TrajectoryRecorder) -> None:
    """If the agent marks steps, the summary does not belong to a derived step of the same number."""
    use(recorder, "prepare")
    with recorder.step(1):
        pass
    recorder.update_lakeview(1, "fine")

    assert [step.extra.get("lakeview_summary") for step in steps(recorder)] == [None, "fine"]
