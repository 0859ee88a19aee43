"""Tools that ran though no model had asked for them: a retriever before the first call, a linter after each edit.

The recorder gives them steps of their own, or has them stand in the step in whose time they ran. What a model was sent
says nothing of them, so that a format which is made of that has no place for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.conversations.call_chains import interactions_of


@dataclass(frozen=True, slots=True)
class UnrequestedTools:
    """A step's calls of tools for which no model had asked, and what came of them."""

    step: AgentStep
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]

    def tools_step(self) -> AgentStep:
        """The step as one of these tools alone."""
        step = self.step
        error = step.error if alone(step) else None
        return replace(step, tool_calls=self.calls, tool_results=self.results, error=error)

    def remaining_step(self) -> AgentStep:
        """The step without them."""
        left, step = {call.call_id for call in self.calls}, self.step
        calls = tuple(call for call in step.tool_calls if call.call_id not in left)
        return replace(
            step, tool_calls=calls, tool_results=tuple(one for one in step.tool_results if one.call_id not in left)
        )


def unrequested_tools_of(trajectory: Trajectory) -> list[UnrequestedTools]:
    """Give what ran without a model's asking, step by step; of steps that the agent told itself, it is not known."""
    responses = [one.response for one in interactions_of(trajectory)]
    asked = {call.call_id for response in responses for call in response.tool_calls}
    asked |= {call.call_id for response in responses for choice in response.choices for call in choice.tool_calls}
    found = []
    for step in trajectory.agent_steps:
        calls = [call for call in step.tool_calls if call.call_id not in asked]
        calls = [call for call in calls if step.derived or call.call_id_made_up]
        if calls:
            ids = {call.call_id for call in calls}
            found.append(
                UnrequestedTools(step, tuple(calls), tuple(one for one in step.tool_results if one.call_id in ids))
            )
    return found


def alone(step: AgentStep) -> bool:
    """Whether a step is of tools alone, which ran outside every step of the agent's."""
    return step.derived and step.interaction is None
