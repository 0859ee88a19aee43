"""Computes the metrics of a run from its interactions and steps.

A figure that no provider stated is left out, and never 0. Two token counts are counted in the same way for all
dialects: `total_input_tokens`, all tokens of the prompts with cached tokens, and `output_tokens`, all tokens that the
models made with their reasoning. The other token counts are the sums of the providers' own counts.
`cached_input_tokens` is how many of these were read from a cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE, completion_tokens, counting_of, prompt_tokens, stated_cost
from trace_recorder.values.trajectory import AgentStep

_TOKEN_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "reasoning_tokens",
)
_OWN_COUNTS = tuple(name for name in _TOKEN_COUNTS if name != "output_tokens")
_ALWAYS = ("llm_calls", "failed_llm_calls", "attempts", "agent_steps", "tool_calls", "failed_tool_calls")
_UNITS = {"llm_seconds": 1_000_000, "cost": 1_000_000_000_000}
"""Seconds are summed in millionths and dollars in trillionths, as integers.

A sum of floats would depend on the order of the calls.
"""
_MAX_VALUE = 1e12
"""Seconds and costs beyond this value are left out of the sums."""
_COMPUTED = ("total_input_tokens", "cached_input_tokens")
_ORDER = (*_ALWAYS, "replayed_llm_calls", "llm_seconds", *_TOKEN_COUNTS, *_COMPUTED, "cost", "redactions")


def metrics_of(
    interactions: Iterable[LLMInteraction], steps: Iterable[AgentStep], redactions: int | None = None
) -> dict[str, Payload]:
    """Return the metrics of a run: counts of calls, attempts, tokens and steps, and the seconds and costs of LLM calls.

    `replayed_llm_calls` is how many LLM calls were answered from a recording. No other figure of LLM calls includes
    them. Tool calls are counted whether the tool ran or its result was replayed.

    `redactions` is the number of masked secrets, if it is known.
    """
    tally = Tally()
    for interaction in interactions:
        tally.add_interaction(interaction)
    for step in steps:
        tally.add_step(step)
    return tally.metrics(redactions)


class Tally:
    """The sums of a run's figures. A figure that no interaction states is absent.

    `_sums` has the sum of each metric by its name, as an integer. A metric in `_UNITS` is summed in a smaller unit,
    such as microseconds.
    """

    def __init__(self) -> None:
        self._sums: defaultdict[str, int] = defaultdict(int)

    def add_interaction(self, interaction: LLMInteraction) -> None:
        """Add the figures of an interaction. A replayed call costs nothing, and only increases `replayed_llm_calls`."""
        sums = self._sums
        if interaction.replayed_from is not None:
            sums["replayed_llm_calls"] += 1
            return
        sums["llm_calls"] += 1
        sums["attempts"] += len(interaction.attempts)
        sums["failed_llm_calls"] += interaction.error is not None
        usage = interaction.response.usage
        for name in _OWN_COUNTS:
            if (value := getattr(usage, name)) is not None:
                sums[name] += value
        is_whole = interaction.api is not None and counting_of(interaction.api) is WHOLE
        if is_whole:
            total, made = usage.input_tokens, usage.output_tokens
        else:
            total, made = prompt_tokens(interaction), completion_tokens(interaction)
        if total is not None:
            sums["total_input_tokens"] += total
        if made is not None:
            sums["output_tokens"] += made
        cost = None
        if usage.cost is not None:
            cost = stated_cost(interaction)
        for name, fraction in (("llm_seconds", interaction.duration_seconds), ("cost", cost)):
            if fraction is not None and abs(fraction) < _MAX_VALUE:
                sums[name] += round(fraction * _UNITS[name])

    def add_step(self, step: AgentStep) -> None:
        """Add a step."""
        self._sums["agent_steps"] += 1
        self._sums["tool_calls"] += len(step.tool_calls)
        self._sums["failed_tool_calls"] += sum([result.success is False for result in step.tool_results])

    def metrics(self, redactions: int | None) -> dict[str, Payload]:
        """Return the metrics in the order of the document. `redactions` is left out if it is None."""
        sums: dict[str, float] = {**dict.fromkeys(_ALWAYS, 0), **self._sums}
        if "cache_read_input_tokens" in sums:
            sums["cached_input_tokens"] = sums["cache_read_input_tokens"]
        if redactions is not None:
            sums["redactions"] = redactions
        for name, unit in _UNITS.items():
            if name in sums:
                sums[name] /= unit
        return {name: sums[name] for name in _ORDER if name in sums}
