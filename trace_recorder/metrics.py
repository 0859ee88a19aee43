"""Figures over a run, from its interactions and steps. What no provider stated is left out, never 0."""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.conversation import Payload, Usage, known
from trace_recorder.trajectory import AgentStep, LLMInteraction

_COUNTED = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "reasoning_tokens",
    "cost",
)


def metrics_of(interactions: Sequence[LLMInteraction], steps: Sequence[AgentStep]) -> dict[str, Payload]:
    """Count calls, attempts, tokens as the providers state them, tool calls, and the seconds spent with models."""
    usages = [one.response.usage for one in interactions if one.response and one.response.usage]
    results = [result for step in steps for result in step.tool_results]
    return known(
        llm_calls=len(interactions),
        failed_llm_calls=sum(one.error is not None for one in interactions),
        attempts=sum(len(one.attempts) for one in interactions),
        agent_steps=len(steps),
        tool_calls=sum(len(step.tool_calls) for step in steps),
        failed_tool_calls=sum(result.success is False for result in results),
        llm_seconds=round(sum(one.duration_seconds or 0.0 for one in interactions), 6),
        **{name: _total(usages, name) for name in _COUNTED},
    )


def _total(usages: Sequence[Usage], name: str) -> Payload:
    stated = [value for usage in usages if (value := getattr(usage, name)) is not None]
    return sum(stated) if stated else None
