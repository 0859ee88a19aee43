"""What calls took: tokens, cost, and seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import counts_of
from trace_recorder.views.cost import Costs, cost_of
from trace_recorder.views.tokens import sum_known


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over calls, of those for which they are known; None if of none. Costs are in US dollars.

    `estimated_cost` is the part of `cost` that is from a table of prices. `llm_seconds` are the durations of the calls.
    """

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    estimated_cost: float | None = None
    llm_seconds: float | None = None

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON, without what is unknown."""
        return without_none(**asdict(self))


def figures_of(calls: Iterable[LLMInteraction]) -> Figures:
    """Sum what calls took."""
    calls = [*calls]
    costs = Costs()
    for one in calls:
        costs.add(cost_of(one))
    counts = [found for one in calls if (found := counts_of(one))]
    seconds = sum_known(one.duration_seconds for one in calls)
    known_costs = costs.stated_calls + costs.estimated_calls
    return Figures(
        calls=len(calls),
        input_tokens=sum_known(one.prompt for one in counts),
        output_tokens=sum_known(one.completion for one in counts),
        cost=round(costs.stated + costs.estimated, 9) if known_costs else None,
        estimated_cost=round(costs.estimated, 9) if costs.estimated_calls else None,
        llm_seconds=None if seconds is None else round(seconds, 6),
    )
