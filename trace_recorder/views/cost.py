"""What calls cost: the provider's own bill where there is one, else an estimate from a table of prices, else unknown.

The table is that of `genai-prices` (the extra `prices`), which is imported when a price is asked for. A figure from it
is marked as an estimate. A model is looked up under the provider that served it and under no other: the same weights
cost different things at different places, and nothing on one's own machine. An unknown cost never counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.metadata import version

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.views.token_counts import Counts, counts_of

CURRENCY = "USD"
Price = Callable[[str, str, Counts, datetime | None], float | None]
"""Prices tokens: of a provider and a model, at a time; None where it knows no price."""

_NAMES_THERE = {"xai": "x-ai", "moonshot": "moonshotai", "voyage": "voyageai", "bedrock": "aws"}
"""The names of providers in genai-prices, where they differ from ours."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call cost, in US dollars; `estimated` is whether a table says so, and not the provider."""

    amount: float
    estimated: bool


def cost_of(one: LLMInteraction, price: Price | None = None) -> Cost | None:
    """Return what a call cost; None where that is unknown. `price` replaces the table of genai-prices."""
    usage = one.response.usage
    if usage.cost is not None:
        return Cost(usage.cost, estimated=False)
    amount = _estimate(one, price or table())
    return None if amount is None else Cost(amount, estimated=True)


def _estimate(one: LLMInteraction, price: Price | None) -> float | None:
    """Look up the model that answered, or else the one that was asked for."""
    counts = counts_of(one)
    provider = one.provider
    if counts is None or price is None or not isinstance(provider, str) or not provider:  # a file may have any JSON
        return None
    models = dict.fromkeys(name for name in (one.response.model, one.model) if name and isinstance(name, str))
    found = (price(provider, name, counts, _time(one)) for name in models)
    return next((amount for amount in found if amount is not None), None)


@cache
def table() -> Price | None:
    """The prices of genai-prices; None where the extra `prices` is not installed."""
    try:
        prices = import_module("genai_prices")
    except ImportError:
        return None

    def price(provider: str, model: str, counts: Counts, at: datetime | None) -> float | None:
        if counts.prompt is None or counts.completion is None:
            return None
        try:
            usage = prices.Usage(
                input_tokens=counts.prompt,
                output_tokens=counts.completion,
                cache_read_tokens=counts.cache_read,
                cache_write_tokens=counts.cache_write,
            )
            name = _NAMES_THERE.get(provider, provider)
            found = prices.calc_price(usage, model, provider_id=name, genai_request_timestamp=at)
        except (LookupError, ValueError):  # no such provider or model, or counts that are none or contradict
            return None
        return float(found.total_price)

    return price


@cache
def table_name() -> str | None:
    """Return the name and version of the table, to be shown with an estimate."""
    return f"genai-prices {version('genai-prices')}" if table() is not None else None


def _time(one: LLMInteraction) -> datetime | None:
    try:
        at = datetime.fromisoformat(one.timestamp)
    except (ValueError, TypeError):
        return None
    return at if at.tzinfo else None


@dataclass(slots=True)
class Costs:
    """What several calls cost, what was stated apart from what is estimated. `unknown` counts calls."""

    stated: float = 0.0
    estimated: float = 0.0
    stated_calls: int = 0
    estimated_calls: int = 0
    unknown_calls: int = 0
    _price: Price | None = field(default=None, repr=False)

    def add(self, cost: Cost | None) -> None:
        """Add what a call cost, as `cost_of` gives it."""
        if cost is None:
            self.unknown_calls += 1
        elif cost.estimated:
            self.estimated, self.estimated_calls = self.estimated + cost.amount, self.estimated_calls + 1
        else:
            self.stated, self.stated_calls = self.stated + cost.amount, self.stated_calls + 1

    def merge(self, other: Costs) -> None:
        """Take the sums of others."""
        self.stated += other.stated
        self.estimated += other.estimated
        self.stated_calls += other.stated_calls
        self.estimated_calls += other.estimated_calls
        self.unknown_calls += other.unknown_calls

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
