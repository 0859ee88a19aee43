"""Tools that ran although no model requested them: a retriever before the first call, a linter after each edit.

The recorder gives them steps of their own, or they are in the step during which they ran. No request mentions them, so
a format that is made of requests and answers cannot show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.conversations.call_chains import interactions_of


@dataclass(frozen=True, slots=True)
class UnrequestedTools:
    """The tool calls of a step that no model requested, with their results."""

    step: AgentStep
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]

    def tools_step(self) -> AgentStep:
        """Return the step with only these tools."""
        error = self.step.error if is_tools_only(self.step) else None
        return replace(self.step, tool_calls=self.calls, tool_results=self.results, error=error)

    def remaining_step(self) -> AgentStep:
        """Return the step without these tools."""
        ids, step = {call.call_id for call in self.calls}, self.step
        calls = tuple(call for call in step.tool_calls if call.call_id not in ids)
        return replace(
            step, tool_calls=calls, tool_results=tuple(one for one in step.tool_results if one.call_id not in ids)
        )


def unrequested_tools_of(trajectory: Trajectory) -> list[UnrequestedTools]:
    """Return the unrequested tools, step by step. They are unknown for steps that the agent recorded itself."""
    requested = {*_requested_ids(trajectory)}
    unrequested = []
    for step in trajectory.agent_steps:
        calls = tuple(
            call for call in step.tool_calls if call.call_id not in requested and (step.derived or call.call_id_made_up)
        )
        if calls:
            ids = {call.call_id for call in calls}
            unrequested.append(
                UnrequestedTools(step, calls, tuple(one for one in step.tool_results if one.call_id in ids))
            )
    return unrequested


def _requested_ids(trajectory: Trajectory) -> Iterator[str]:
    for one in interactions_of(trajectory):
        yield from (call.call_id for call in one.response.tool_calls)
        yield from (call.call_id for choice in one.response.choices for call in choice.tool_calls)


def is_tools_only(step: AgentStep) -> bool:
    """Whether a step consists of tools that ran outside every step of the agent."""
    return step.derived and step.interaction is None
