"""The tree of agents in a run of the proxy, whose program names no sub-agent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.chat_calls import Answer, asked, call, said
from tests.viewer.recorded import SYSTEM, TASK
from trace_recorder import TrajectoryRecorder, agent, load
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.interface import RunAnswers

BOUNDS: Payload = {"role": "system", "content": "You are a sub-agent."}
OUTER, NESTED = "llm_1/c1 (inferred)", "llm_2/c2 (inferred)"


def user(text: str) -> Payload:
    return {"role": "user", "content": text}


def starts(call_id: str, prompt: str) -> Answer:
    """Return an answer that starts a sub-agent."""
    return said("I delegate.", calls=[(call_id, "task", json.dumps({"prompt": prompt}))])


def result(call_id: str, prompt: str, content: str) -> list[Payload]:
    """Return the messages with a call of the tool that starts a sub-agent, and with its result."""
    function = {"name": "task", "arguments": json.dumps({"prompt": prompt})}
    asks = {
        "role": "assistant",
        "content": "I delegate.",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return [asks, {"role": "tool", "tool_call_id": call_id, "content": content}]


CALLS: list[tuple[list[Payload], Answer]] = [
    ([SYSTEM, TASK], starts("c1", "Find the bug.")),
    ([BOUNDS, user("Find the bug.")], starts("c2", "Read a.py.")),
    ([BOUNDS, user("Read a.py.")], said("It is empty.")),
    ([BOUNDS, user("Find the bug."), *result("c2", "Read a.py.", "It is empty.")], said("a.py is empty.")),
    ([SYSTEM, TASK, *result("c1", "Find the bug.", "a.py is empty.")], said("Done.")),
]


def states(path: Path) -> list[RunAnswers]:
    """Record the calls, and return the answers about the run after each call, and an object that got all states."""
    recorder = TrajectoryRecorder(path)
    recorder.start(metadata={"session_from": "program"})
    made = []
    growing: RunAnswers | None = None
    for messages, answer in CALLS:
        call(recorder, asked(*messages), answer)
        run = load(recorder.trajectory_path)
        made.append(RunAnswers(run))
        if growing is None:
            growing = RunAnswers(run)
        else:
            growing.update(run)
            assert growing.outline() == made[-1].outline()
    recorder.finalize()
    return made


def test_the_tree_has_the_inferred_agents_with_a_mark(tmp_path: Path) -> None:
    """The agent, its parent and the tool that started it are as for a stated agent. A growing run has the same."""
    outline = states(tmp_path / "run.json")[-1].outline()
    assert outline["agents"] == [
        {"key": None, "name": None, "parent": None, "inferred": False},
        {"key": OUTER, "name": "task (inferred)", "parent": None, "inferred": True},
        {"key": NESTED, "name": "task (inferred)", "parent": OUTER, "inferred": True},
    ]
    marks = [(entry["agent"], entry["agent_inferred"]) for entry in outline["interactions"]]
    assert marks == [(None, False), (OUTER, True), (NESTED, True), (OUTER, True), (None, False)]
    assert [entry["agent"] for entry in outline["steps"]] == [None, OUTER, NESTED, OUTER, None]
    tools = [tool for step in outline["steps"] for tool in step["tool_calls"]]
    assert {tool["call_id"]: tool["sub_agents"] for tool in tools} == {"c1": [OUTER], "c2": [NESTED]}


def test_a_follower_gets_the_step_whose_tool_has_started_an_agent(tmp_path: Path) -> None:
    """The step did not change itself, but its tool has a sub-agent now."""
    first, second, *_ = states(tmp_path / "run.json")
    growing, before = first, first.version
    growing.update(second.trajectory)
    assert growing.since(before)["steps"][0]["tool_calls"][0]["sub_agents"] == [OUTER]


def test_a_stated_agent_is_not_marked(tmp_path: Path) -> None:
    with TrajectoryRecorder(tmp_path / "run.json", metadata={"session_from": "program"}) as recorder:
        call(recorder, asked(*CALLS[0][0]), CALLS[0][1])
        with agent("looker"):
            call(recorder, asked(*CALLS[1][0]), CALLS[1][1])
    outline = RunAnswers(load(recorder.trajectory_path)).outline()
    assert [entry["agent_inferred"] for entry in outline["interactions"]] == [False, False]
    assert [(each["name"], each["inferred"]) for each in outline["agents"]] == [(None, False), ("looker", False)]
