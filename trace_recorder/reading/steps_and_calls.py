"""The steps and LLM calls of a run in the order of time. Each derived step comes together with its call."""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.clocks import parse_time
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, ToolCall, ToolResult
from trace_recorder.values.structs import Struct
from trace_recorder.values.trajectory import AgentStep, Trajectory


class StepOrCall(Struct, frozen=True, gc=False):
    """A step that the agent recorded, a call that belongs to no derived step, or a derived step with its call."""

    step: AgentStep | None
    call: LLMInteraction | None

    @property
    def step_number(self) -> int | None:
        """The number of the step."""
        if self.step is not None:
            return self.step.step_number
        if self.call is not None:
            return self.call.step_number
        return None

    @property
    def timestamp(self) -> str | None:
        """When the step or call began, in ISO 8601."""
        if self.step is not None:
            return self.step.timestamp
        if self.call is not None:
            return self.call.timestamp
        return None

    @property
    def response(self) -> LLMResponse | None:
        """The answer of the model."""
        if self.call is not None:
            return self.call.response
        if self.step is not None:
            return self.step.llm_response
        return None

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The tool calls of the step, or of the call if it has no step."""
        if self.step is not None:
            return self.step.tool_calls
        if self.call is not None:
            return self.call.response.tool_calls
        return ()

    @property
    def tool_results(self) -> Sequence[ToolResult]:
        """The tool results of the step."""
        if self.step is not None:
            return self.step.tool_results
        return ()

    @property
    def seconds(self) -> float:
        """When the step or call began, in seconds since 1970, or 0 if that is unknown."""
        began = parse_time(self.timestamp)
        if began is None:
            return 0.0
        return began.timestamp()


def steps_and_calls(trajectory: Trajectory) -> list[StepOrCall]:
    """Return the steps and calls of a run, in the order of time."""
    in_steps = {step.interaction.interaction_id for step in trajectory.agent_steps if step.interaction}
    entries = [StepOrCall(step, step.interaction) for step in trajectory.agent_steps]
    entries += [StepOrCall(None, call) for call in trajectory.llm_interactions if call.interaction_id not in in_steps]
    return sorted(entries, key=lambda entry: entry.seconds)
