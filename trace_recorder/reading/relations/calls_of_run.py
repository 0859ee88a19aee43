"""The calls of a run. If a run recorded its steps and no calls, each step that the agent recorded is a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects.dialect import is_turn
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction, WithoutRawData
from trace_recorder.values.messages import NO_RESPONSE, LLMResponse, Message, RequestReading, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory


def calls_of(trajectory: Trajectory) -> Sequence[LLMInteraction]:
    """Return the calls of a run. If no calls were recorded, return the agent's own steps as calls."""
    if trajectory.llm_interactions:
        return trajectory.llm_interactions
    steps = enumerate(trajectory.agent_steps, start=1)
    return [call_of_step(number, step) for number, step in steps if not step.derived]


def interactions_of(trajectory: Trajectory) -> list[LLMInteraction]:
    """Return the calls of a run that are turns of a conversation: embeddings, for example, are not."""
    calls = calls_of(trajectory)
    turns = {*filter(is_turn, {call.api for call in calls})}
    return [call for call in calls if call.api in turns]


@dataclass(frozen=True, slots=True)
class _StepCall(WithoutRawData):
    """The source of a call that is only known from its step."""

    messages: list[Message]
    new_tool_results: list[ToolResult] = field(default_factory=list)

    def request(self) -> RequestReading:
        return RequestReading(self.messages)

    def request_without_messages(self) -> RequestReading:
        return self.request()

    def has_request(self) -> bool:
        return bool(self.messages)


def call_of_step(number: int, step: AgentStep) -> LLMInteraction:
    """Return a step as an interaction. `number` counts all steps of the run from 1, and is a part of the id."""
    response = step.llm_response or NO_RESPONSE
    if step.tool_calls and not response.tool_calls:
        response = LLMResponse(response.content, tool_calls=tuple(step.tool_calls))
    error = None
    if step.error:
        error = ErrorInfo("error", step.error)
    return LLMInteraction(
        interaction_id=f"step_{number}",
        timestamp=step.timestamp,
        provider=None,
        model=response.model,
        source=_StepCall(list(step.messages or ())),
        step_number=step.step_number,
        agent=step.agent,
        agent_id=step.agent_id,
        parent_agent_id=step.parent_agent_id,
        response=response,
        error=error,
    )
