"""Shared by the tests of tools: a call in which the model asks for tools, a plain tool, and readers of the records."""

from __future__ import annotations

import json

from tests.chat_calls import TOOL, asked, call, said
from tests.journals import records_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import AgentStep


def facts(recorder: TrajectoryRecorder, *names: str) -> list[Payload]:
    """Return the given members of each record of a tool, in order."""
    tools = [record for record in records_of(recorder.trajectory_path) if record.kind.startswith("tool_")]
    return [(tool.kind, *(tool.data.get(name) for name in names)) for tool in tools]


def steps(recorder: TrajectoryRecorder) -> list[AgentStep]:
    """Return the steps of a run, after a check that its document equals its journal."""
    recorder.save_trajectory()
    trajectory = load(recorder.trajectory_path)
    assert json.loads(recorder.trajectory_path.read_bytes())["agent_steps"] == [
        step.to_document() for step in trajectory.agent_steps
    ]
    return list(trajectory.agent_steps)


def ask(recorder: TrajectoryRecorder, *calls: tuple[str, str, str], **answers: str) -> None:
    """Record a call with these answers in its request, and these tool calls in its response."""
    told = [{"role": "tool", "tool_call_id": name, "content": text} for name, text in answers.items()]
    call(recorder, asked("go", *told, tools=[TOOL]), said(None if calls else "done", calls=calls))


def plain(a: int, *, b: str = "x") -> str:
    """Do a thing."""
    return f"{a}{b}"
