"""Metrics of a run, from its interactions and steps.

A figure that no provider stated is left out, never 0. Token counts are as the providers state them, except
`total_input_tokens`: the prompts with their cached tokens, counted in one way for all dialects. `cached_input_tokens`
is the part of them that was read from a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE, counting_of, prompt_tokens
from trace_recorder.values.trajectory import AgentStep

_TOKEN_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "reasoning_tokens",
)
_ALWAYS = ("llm_calls", "failed_llm_calls", "attempts", "agent_steps", "tool_calls", "failed_tool_calls")
_UNITS = {"llm_seconds": 1_000_000, "cost": 1_000_000_000_000}
"""Fractions are summed as integers, in these parts of their units, so that the order does not change a sum."""
_MAX_VALUE = 1e12
"""Fractions beyond it are left out."""
COMPUTED = ("total_input_tokens", "cached_input_tokens")
_ORDER = (*_ALWAYS, "replayed_llm_calls", "llm_seconds", *_TOKEN_COUNTS, *COMPUTED, "cost", "redactions")

Counts = Mapping[str, int]
"""Integers by the name of a metric; fractions are counted in the units of `_UNITS`. Unknown metrics are absent."""


def metrics_of(
    interactions: Iterable[LLMInteraction], steps: Iterable[AgentStep], *others: Tally
) -> dict[str, Payload]:
    """Count calls, attempts, tokens as the providers state them, tool calls, and the seconds spent with models.

    `replayed_llm_calls` is the number of LLM calls that were answered from a recording. No other figure counts them.
    Tool calls are counted whether the tool ran or its result was replayed.

    `others` are counts of other things than interactions and steps, such as masked secrets.
    """
    tally = Tally()
    for one in interactions:
        tally.add(interaction_counts(one))
    for step in steps:
        tally.add(step_counts(step))
    return tally.metrics(*others)


def are_of_older_version(metrics: Mapping[str, object]) -> bool:
    """Whether metrics were written before prompts were counted in one way, so that calls have to be counted again."""
    return "input_tokens" in metrics and "total_input_tokens" not in metrics


def interaction_counts(interaction: LLMInteraction) -> Counts:
    """Return the counts that one interaction adds to the metrics.

    A replayed call costs nothing, and is counted apart.
    """
    if interaction.is_replayed:
        return {"replayed_llm_calls": 1}
    counts = {"llm_calls": 1, "attempts": len(interaction.attempts)}
    if interaction.error is not None:
        counts["failed_llm_calls"] = 1
    usage = interaction.response.usage
    for name in _TOKEN_COUNTS:
        value = getattr(usage, name)
        if value is not None:
            counts[name] = value
    is_whole = interaction.api is not None and counting_of(interaction.api) is WHOLE
    total = usage.input_tokens if is_whole else prompt_tokens(interaction)
    if total is not None:
        counts["total_input_tokens"] = total
    if usage.cache_read_input_tokens is not None:
        counts["cached_input_tokens"] = usage.cache_read_input_tokens
    for name, fraction in (("llm_seconds", interaction.duration_seconds), ("cost", usage.cost)):
        if fraction is not None and abs(fraction) < _MAX_VALUE:
            counts[name] = round(fraction * _UNITS[name])
    return counts


def step_counts(step: AgentStep) -> Counts:
    """Return what one step adds to the metrics."""
    failed = sum([result.success is False for result in step.tool_results])
    return {"agent_steps": 1, "tool_calls": len(step.tool_calls), "failed_tool_calls": failed}


class Tally:
    """Sums of counts. A metric is absent if it is in no counts."""

    def __init__(self, first: Counts | None = None) -> None:
        self._sums: dict[str, int] = {**(first or {})}

    def add(self, counts: Counts) -> None:
        """Add counts."""
        sums = self._sums
        for name, value in counts.items():
            sums[name] = sums.get(name, 0) + value

    def metrics(self, *others: Tally) -> dict[str, Payload]:
        """Return the sums, with those of other tallies, in the order of the document."""
        found: dict[str, int] = dict.fromkeys(_ALWAYS, 0)
        for tally in (self, *others):
            found |= tally._sums
        return {name: found[name] / _UNITS[name] if name in _UNITS else found[name] for name in _ORDER if name in found}
