"""Derived steps: if the agent records no steps, each LLM call is a step. They are numbered from 1."""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.derive.tool_matching import Answers, ToolExecution, tool_calls_and_results
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import AgentStep


def is_step(one: LLMInteraction) -> bool:
    """Whether an interaction is a decision of an agent."""
    return one.api != "embeddings"


def step_of(number: int, one: LLMInteraction, answers: Answers, executions: Iterable[ToolExecution] = ()) -> AgentStep:
    """Make the step of one interaction. `executions` are the executions of tools that are attached to it."""
    calls, results = tool_calls_and_results([one], {one.interaction_id: answers}, executions)
    return AgentStep(
        step_number=number,
        timestamp=one.timestamp,
        state=_state(one, calls_tools=bool(calls)),
        llm_response=one.response if one.answered else None,
        tool_calls=calls,
        tool_results=results,
        error=f"{one.error.type}: {one.error.message}" if one.error else None,
        agent=one.agent,
        agent_id=one.agent_id,
        parent_agent_id=one.parent_agent_id,
        interaction=one,
        derived=True,
    )


def _state(one: LLMInteraction, *, calls_tools: bool) -> str:
    if one.error:
        return "error"
    if not one.answered or not one.complete:
        return "thinking"
    return "calling_tool" if calls_tools else "completed"
