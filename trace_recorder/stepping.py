"""Derived steps: where a loop marks none, each LLM call is a step.

The tool results are found in the requests that follow, by call id; ids that were made up because the provider gives
none count within one conversation, so the newest open call of that id, of the same agent where possible, is the one
that was answered. Steps are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trace_recorder.conversation import ToolCall, ToolResult
from trace_recorder.trajectory import AgentStep, LLMInteraction


def derive_steps(interactions: Sequence[LLMInteraction]) -> list[AgentStep]:
    """Make the steps of a run that records none."""
    answers = _answers(interactions)
    steps: list[AgentStep] = []
    for number, one in enumerate((one for one in interactions if one.api != "embeddings"), start=1):
        calls = one.response.tool_calls if one.response else ()
        results = tuple(
            answers[one.interaction_id, call.call_id] for call in calls if (one.interaction_id, call.call_id) in answers
        )
        steps.append(
            AgentStep(
                step_number=number,
                timestamp=one.timestamp,
                state=_state(one),
                llm_response=one.response,
                tool_calls=calls,
                tool_results=results,
                error=f"{one.error.type}: {one.error.message}" if one.error else None,
                agent=one.agent,
                interaction=one,
                derived=True,
            )
        )
    return steps


def _state(one: LLMInteraction) -> str:
    if one.error:
        return "error"
    if one.response is None or not one.complete:
        return "thinking"
    return "calling_tool" if one.response.tool_calls else "completed"


def _answers(interactions: Sequence[LLMInteraction]) -> dict[tuple[str, str], ToolResult]:
    """Find the results of tool calls: (interaction id, call id) → the first that came."""
    open_calls: dict[tuple[str | None, str], tuple[str, ToolCall]] = {}
    answers: dict[tuple[str, str], ToolResult] = {}
    for one in interactions:
        for result in one.source.new_results:
            found = open_calls.get((one.agent, result.call_id)) or open_calls.get((None, result.call_id))
            if found is not None and (found[0], result.call_id) not in answers:
                interaction_id, call = found
                answers[interaction_id, call.call_id] = replace(result, name=call.name)
        for call in one.response.tool_calls if one.response else ():
            open_calls[one.agent, call.call_id] = open_calls[None, call.call_id] = one.interaction_id, call
    return answers
