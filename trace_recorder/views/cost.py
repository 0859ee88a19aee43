"""What calls cost: the cost that the provider states, else an estimate from a table of prices, else unknown.

The table is that of `genai-prices` (the extra `prices`), which is imported with the first request for a price. A figure
from it is marked as an estimate. A model is looked up only under the provider that served it, because the same weights
have different prices at different providers, and none on the user's machine. An unknown cost never counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.metadata import version

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.views.cost_table import PriceTable

CURRENCY = "USD"
Price = Callable[[str, str, Counts, datetime | None], float | None]
"""Returns the price of tokens of a provider's model at a time, or None if it knows no price."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one call in US dollars. `estimated` is True if it is from a table and not from the provider."""

    amount: float
    estimated: bool


def cost_of(call: LLMInteraction, price: Price | None = None, counts: Counts | None = None) -> Cost | None:
    """Return what a call cost, or None if that is unknown.

    `price` replaces the table of genai-prices. `counts` are the call's tokens from `counts_of`, if the caller has them
    already.
    """
    usage = call.response.usage
    if usage.cost is not None:
        return Cost(usage.cost, estimated=False)
    counts = counts_of(call) if counts is None else counts
    amount = None if counts is None else _estimate(call, counts, price or table())
    return None if amount is None else Cost(amount, estimated=True)


def _estimate(call: LLMInteraction, counts: Counts, price: Price | None) -> float | None:
    """Look up the model that answered, or else the requested one."""
    provider, answered = call.provider, call.response.model
    if price is None or not isinstance(provider, str) or not provider:  # a file may have any JSON here here
        return None
    time = _time(call)
    for model in (answered, call.model if call.model != answered else None):
        if model and isinstance(model, str) and (amount := price(provider, model, counts, time)) is not None:
            return amount
    return None


@cache
def table() -> Price | None:
    """Return the prices of genai-prices, or None if the extra `prices` is not installed."""
    try:
        return PriceTable()
    except ImportError:
        return None


@cache
def table_name() -> str | None:
    """Return the name and version of the table, which is shown with an estimate."""
    return f"genai-prices {version('genai-prices')}" if table() is not None else None


def _time(call: LLMInteraction) -> datetime | None:
    try:
        time = datetime.fromisoformat(call.timestamp)
    except (ValueError, TypeError):
        return None
    return time if time.tzinfo else None


@dataclass(slots=True)
class Costs:
    """The costs of several calls: stated costs, estimated costs, and the number of calls with an unknown cost."""

    stated: float = 0.0
    estimated: float = 0.0
    stated_calls: int = 0
    estimated_calls: int = 0
    unknown_calls: int = 0
    _price: Price | None = field(default=None, repr=False)

    def add(self, cost: Cost | None) -> None:
        """Add the cost of a call, as `cost_of` returns it."""
        if cost is None:
            self.unknown_calls += 1
        elif cost.estimated:
            self.estimated, self.estimated_calls = self.estimated + cost.amount, self.estimated_calls + 1
        else:
            self.stated, self.stated_calls = self.stated + cost.amount, self.stated_calls + 1

    def merge(self, other: Costs) -> None:
        """Add the sums of other calls."""
        self.add_sums(*other.sums())

    def sums(self) -> tuple[float, float, int, int, int]:
        """Return the stated and the estimated costs, and the numbers of calls with each kind of cost."""
        return self.stated, self.estimated, self.stated_calls, self.estimated_calls, self.unknown_calls

    def add_sums(self, stated: float, estimated: float, stated_calls: int, estimated_calls: int, unknown: int) -> None:
        """Add what `sums` returned."""
        self.stated += stated
        self.estimated += estimated
        self.stated_calls += stated_calls
        self.estimated_calls += estimated_calls
        self.unknown_calls += unknown

    def to_json(self) -> dict[str, Payload]:
        """Return the sums, without unknown members."""
        return without_none(
            currency=CURRENCY,
            stated=round(self.stated, 9) if self.stated_calls else None,
            stated_calls=self.stated_calls,
            estimated=round(self.estimated, 9) if self.estimated_calls else None,
            estimated_calls=self.estimated_calls,
            estimated_with=table_name() if self.estimated_calls and self._price is None else None,
            unknown_calls=self.unknown_calls,
        )
