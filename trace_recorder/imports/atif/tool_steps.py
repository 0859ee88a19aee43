"""Tool steps in an ATIF document of ours: no model asked for these tools, and none saw their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep

TOOL_STEP_FLAG = "tools_alone"
"""The member of `extra` that marks such a step."""


def is_tool_step(step: Mapping[str, Payload]) -> bool:
    """Whether a step of a document is a tool step."""
    return step.get("llm_call_count") == 0 and (step.get("extra") or {}).get(TOOL_STEP_FLAG) is True


def tool_steps(document: Mapping[str, Payload]) -> Iterator[AgentStep]:
    """Yield the tool steps of the main agent and of its sub-agents. They are not numbered yet."""
    for step in filter(is_tool_step, document["steps"]):
        yield _tool_step(step, document["agent"])
    for sub in document.get("subagent_trajectories") or ():
        yield from tool_steps(sub)


def _tool_step(step: Mapping[str, Payload], agent: Mapping[str, Payload]) -> AgentStep:
    calls = tuple(map(call_of, step.get("tool_calls") or ()))
    names = {call.call_id: call.name for call in calls}
    results = (step.get("observation") or {}).get("results") or ()
    error = step["extra"].get("error")
    return AgentStep(
        0,
        step["timestamp"],
        "error" if error else "calling_tool",
        tool_calls=calls,
        tool_results=tuple(_result(result, names) for result in results),
        error=error,
        **agent_members(agent),
        derived=True,
    )


def agent_members(agent: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the main agent of a document, or another one, as our view wrote it."""
    name, stated = agent.get("name"), agent.get("extra") or {}
    return {
        "agent": None if name == "agent" else name,
        "agent_id": stated.get("agent_id"),
        "parent_agent_id": stated.get("parent_agent_id"),
    }


def call_of(call: Mapping[str, Payload]) -> ToolCall:
    """Read a tool call."""
    extra = {**(call.get("extra") or {})}
    made_up = extra.pop("call_id_made_up", None) is True
    return ToolCall(call["tool_call_id"], call["function_name"], call["arguments"], made_up, extra)


def _result(result: Mapping[str, Payload], names: Mapping[str, str]) -> ToolResult:
    extra, call_id = result.get("extra") or {}, result["source_call_id"]
    failed = extra.get("success") is False
    return ToolResult(
        call_id,
        name=names.get(call_id),
        success=extra.get("success"),
        result=None if failed else extra.get("result", result.get("content")),
        error=extra.get("error") or result.get("content") if failed else None,
        duration_seconds=extra.get("duration_seconds"),
    )
