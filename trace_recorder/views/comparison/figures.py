"""The tokens, costs and durations of calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import counts_of
from trace_recorder.views.cost import Costs, cost_of
from trace_recorder.views.replayed_calls import made_calls
from trace_recorder.views.tokens import sum_known


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over the calls that were made, as far as they are known.

    A sum is None if no call has the figure. Costs are in US dollars.

    `replayed_calls` were answered from a recording, and are in no other figure; None if there are none.
    `estimated_cost` is the part of `cost` that is from a table of prices. `llm_seconds` are the durations of the calls.
    """

    calls: int = 0
    replayed_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    estimated_cost: float | None = None
    llm_seconds: float | None = None

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON, without unknown figures."""
        return without_none(**asdict(self))


def figures_of(calls: Iterable[LLMInteraction]) -> Figures:
    """Sum the figures of calls."""
    every = [*calls]
    calls = made_calls(every)
    costs = Costs()
    for call in calls:
        costs.add(cost_of(call))
    counts = [found for call in calls if (found := counts_of(call))]
    seconds = sum_known(call.duration_seconds for call in calls)
    known_costs = costs.stated_calls + costs.estimated_calls
    return Figures(
        calls=len(calls),
        replayed_calls=len(every) - len(calls) or None,
        input_tokens=sum_known(call.prompt for call in counts),
        output_tokens=sum_known(call.completion for call in counts),
        cost=round(costs.stated + costs.estimated, 9) if known_costs else None,
        estimated_cost=round(costs.estimated, 9) if costs.estimated_calls else None,
        llm_seconds=None if seconds is None else round(seconds, 6),
    )
