"""Steps as calls to a model, for a run that recorded its steps and no calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction, WithoutRawData
from trace_recorder.values.messages import NO_RESPONSE, LLMResponse, Message, RequestReading, ToolResult
from trace_recorder.values.trajectory import AgentStep


@dataclass(frozen=True, slots=True)
class _Source(WithoutRawData):
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
    """Make an interaction of the nth step of a run, with an id made of that number."""
    response = step.llm_response
    if step.tool_calls and not (response and response.tool_calls):
        response = LLMResponse(response.content if response else None, tool_calls=tuple(step.tool_calls))
    return LLMInteraction(
        interaction_id=f"step_{number}",
        timestamp=step.timestamp,
        provider=None,
        model=response.model if response else None,
        source=_Source(list(step.messages or ())),
        step_number=step.step_number,
        agent=step.agent,
        agent_id=step.agent_id,
        parent_agent_id=step.parent_agent_id,
        response=response or NO_RESPONSE,
        error=ErrorInfo("error", step.error) if step.error else None,
    )
