"""Figures over a run, from its interactions and steps. What no provider stated is left out, never 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
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
"""What has fractions is summed in these parts of its unit, so that a sum does not depend on its order."""
_MAX_VALUE = 1e12
_ORDER = (*_ALWAYS, "llm_seconds", *_TOKEN_COUNTS, "cost", "redactions")

Counts = Mapping[str, int]
"""Counts, by the name of a metric, and what has fractions in the parts of `_UNITS`. What is unknown is not there."""


def metrics_of(
    interactions: Iterable[LLMInteraction], steps: Iterable[AgentStep], *others: Tally
) -> dict[str, Payload]:
    """Count calls, attempts, tokens as the providers state them, tool calls, and the seconds spent with models.

    `others` are counts of what interactions and steps do not tell, such as the secrets that were masked.
    """
    tally = Tally()
    for one in interactions:
        tally.add(interaction_counts(one))
    for step in steps:
        tally.add(step_counts(step))
    return tally.metrics(*others)


def interaction_counts(one: LLMInteraction) -> Counts:
    """What one interaction adds."""
    figures = {"llm_calls": 1, "attempts": len(one.attempts)}
    if one.error is not None:
        figures["failed_llm_calls"] = 1
    if one.duration_seconds is not None:
        _put_fraction(figures, "llm_seconds", one.duration_seconds)
    usage = one.response.usage
    figures.update((name, value) for name in _TOKEN_COUNTS if (value := getattr(usage, name)) is not None)
    if usage.cost is not None:
        _put_fraction(figures, "cost", usage.cost)
    return figures


def _put_fraction(figures: dict[str, int], name: str, value: float) -> None:
    """Put what has fractions; what is beyond all measure is no figure."""
    if abs(value) < _MAX_VALUE:
        figures[name] = round(value * _UNITS[name])


def step_counts(step: AgentStep) -> Counts:
    """What one step adds."""
    failed = sum(result.success is False for result in step.tool_results)
    return {"agent_steps": 1, "tool_calls": len(step.tool_calls), "failed_tool_calls": failed}


class Tally:
    """Sums of figures, to which may be added, and from which may be taken what was added."""

    def __init__(self, first: Counts | None = None) -> None:
        self._sums: dict[str, int] = defaultdict(int)
        self._times: dict[str, int] = defaultdict(int)
        self.add(first or {})

    def add(self, figures: Counts, times: int = 1) -> None:
        """Add figures; with `times` -1, take them away."""
        sums, stated = self._sums, self._times
        for name, value in figures.items():
            sums[name] += times * value
            stated[name] += times

    def exchange(self, old: Counts, new: Counts) -> Counts:
        """Take figures away, add others, and return these."""
        if old != new:
            if old:
                self.add(old, -1)
            self.add(new)
        return new

    def metrics(self, *others: Tally) -> dict[str, Payload]:
        """The sums, with those of others that count other things, in the document's order."""
        found: dict[str, int] = dict.fromkeys(_ALWAYS, 0)
        for tally in (self, *others):
            found.update((name, tally._sums[name]) for name, times in tally._times.items() if times)
        return {name: _in_units(name, found[name]) for name in _ORDER if name in found}


def _in_units(name: str, value: int) -> int | float:
    return value / _UNITS[name] if name in _UNITS else value
