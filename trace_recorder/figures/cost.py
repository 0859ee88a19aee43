"""The costs of calls and of runs: costs that the provider stated, or else estimates from a table of prices.

`Cost.estimated` marks an estimate. A model is looked up only under the provider that served it, because the same
weights have different prices at different providers. A model on the user's machine has no price. An unknown cost never
counts as 0.

`price_table.py` has the table of `genai-prices` (the extra `prices`), and `own_prices.py` the user's own prices.
`billed_units.py` finds what a call used beside plain tokens. `Cost.without_rate` names what has no rate in the table.
The amount leaves it out, so the cost is unknown in part.

`costs_of_calls` sums the costs of a whole run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from msgspec import Struct

from trace_recorder.dialects.dialect import Operation, operation_of
from trace_recorder.dialects.json_access import as_dict, as_int, as_list
from trace_recorder.figures.billed_units import with_billed_units
from trace_recorder.figures.own_prices import OwnPrices, own_prices
from trace_recorder.figures.price_table import PriceTable
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import replace as counts_with
from trace_recorder.values.token_counts import Counts, counts_of, stated_cost

CURRENCY = "USD"
Price = Callable[[str, str, Counts, datetime | None], float | None]
"""Returns the price of tokens, or None if the price is unknown.

The arguments are the provider, the model, the tokens and the time.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one call in US dollars.

    `estimated` is True if the amount is from a table of prices, and not from the provider.
    """

    amount: float
    estimated: bool
    without_rate: tuple[str, ...] = ()
    """What the amount leaves out, because the table has no rate for it, such as "web_searches"."""


def cost_of(call: LLMInteraction, price: Price | None = None, counts: Counts | None = None) -> Cost | None:
    """Return the cost of a call, or None if it is unknown.

    `price` replaces the table of genai-prices. `counts` are the call's tokens from `counts_of`, if the caller has them
    already.
    """
    stated = stated_cost(call)
    if stated is not None:
        return Cost(stated, estimated=False)
    if counts is None:
        counts = counts_of(call)
    look_up = price or prices()
    if price is None and operation_of(call.api) == "transcription" and (counts is None or counts.prompt is None):
        counts = _without_tokens(call)
    if counts is None or look_up is None or not isinstance(call.provider, str) or not call.provider:
        return None  # a file may have any JSON value as the provider
    if counts.completion is None and operation_of(call.api) in _WITHOUT_OUTPUT:
        counts = counts_with(counts, completion=0)
    others = _counts_of_other_models(call)
    if others:
        counts = _less(counts, others)
    whole = with_billed_units(call, counts)
    models = [call.response.model]
    if call.model != call.response.model:
        models.append(call.model)
    cost = _estimate(call, models, whole, look_up)
    for model, other in others:
        cost = _sum_of(cost, model, _estimate(call, (model,), other, look_up))
    return cost


def _without_tokens(call: LLMInteraction) -> Counts | None:
    """Return the counts of a call that is billed by units other than tokens, or None if none are known."""
    counts = with_billed_units(call, Counts(0, 0))
    if not counts.units:
        return None
    return counts


_WITHOUT_OUTPUT: frozenset[Operation] = frozenset({"embeddings", "rerank", "moderation"})
"""The operations for which a model makes no tokens, so that no provider states how many it has made."""


def _estimate(call: LLMInteraction, models: Iterable[str | None], counts: Counts, price: Price) -> Cost | None:
    """Return the price for the first of these models that has one."""
    provider, time = str(call.provider), _time(call)
    for model in models:
        if not model or not isinstance(model, str):  # a file may have any JSON value as a model
            continue
        amount = price(provider, model, counts, time)
        if amount is not None and isinstance(price, PriceTable | OwnPrices):
            return Cost(amount, estimated=True, without_rate=price.without_rate(provider, model, counts, time))
        if amount is not None:
            return Cost(amount, estimated=True)
    return None


def _sum_of(cost: Cost | None, model: str, other: Cost | None) -> Cost | None:
    """Return a cost with the cost of another model, which may be unknown."""
    if cost is None:
        return None
    if other is None:
        return replace(cost, without_rate=(*cost.without_rate, f"tokens of {model}"))
    return Cost(cost.amount + other.amount, estimated=True, without_rate=cost.without_rate + other.without_rate)


def _counts_of_other_models(call: LLMInteraction) -> list[tuple[str, Counts]]:
    """Return the counts of the iterations that another model made, such as Anthropic's advisor."""
    others = []
    for iteration in map(as_dict, as_list(call.response.usage.extra.get("iterations"))):
        model, sent = iteration.get("model"), as_int(iteration.get("input_tokens"))
        if isinstance(model, str) and model not in (call.model, call.response.model) and sent is not None:
            read = as_int(iteration.get("cache_read_input_tokens")) or 0
            written = as_int(iteration.get("cache_creation_input_tokens")) or 0
            made = as_int(iteration.get("output_tokens")) or 0
            others.append((model, Counts(sent + read + written, made, read, written)))
    return others


def _less(counts: Counts, others: Iterable[tuple[str, Counts]]) -> Counts:
    """Return counts without those of other models."""
    for _, other in others:
        counts = Counts(
            (counts.prompt or 0) - (other.prompt or 0),
            (counts.completion or 0) - (other.completion or 0),
            (counts.cache_read or 0) - (other.cache_read or 0),
            (counts.cache_write or 0) - (other.cache_write or 0),
            counts.reasoning,
        )
    return counts


@cache
def prices() -> Price | None:
    """Return the user's own prices with those of genai-prices.

    Return None if the user has none, and the extra `prices` is not installed. Raises PriceFileError.
    """
    own = own_prices()
    if own is not None:
        return own
    try:
        return PriceTable()
    except ImportError:
        return None


@cache
def table_name() -> str | None:
    """Return the name of the user's file of prices and of the table of prices, which are shown with an estimate."""
    names, own = [], own_prices()
    if own is not None:
        names.append(own.name)
    with suppress(PackageNotFoundError):
        names.append(f"genai-prices {version('genai-prices')}")
    return ", ".join(names) or None


def _time(call: LLMInteraction) -> datetime | None:
    try:
        time = datetime.fromisoformat(call.timestamp)
    except (ValueError, TypeError):
        return None
    if time.tzinfo is None:
        return None
    return time


class CostSums(NamedTuple):
    """The sums of `Costs` as a list of JSON."""

    stated: float
    estimated: float
    stated_calls: int
    estimated_calls: int
    unknown_calls: int
    without_rate: Mapping[str, int]


@dataclass(slots=True)
class Costs:
    """The costs of several calls: stated costs, estimated costs, and the number of calls with an unknown cost."""

    stated: float = 0.0
    estimated: float = 0.0
    stated_calls: int = 0
    estimated_calls: int = 0
    unknown_calls: int = 0
    without_rate: Counter[str] = field(default_factory=Counter)
    """For each unit or term without a rate, how many estimates leave it out."""
    _price: Price | None = field(default=None, repr=False)

    def add(self, cost: Cost | None) -> None:
        """Add the cost of a call, as `cost_of` returns it."""
        if cost is None:
            self.unknown_calls += 1
        elif cost.estimated:
            self.estimated, self.estimated_calls = self.estimated + cost.amount, self.estimated_calls + 1
            self.without_rate.update(set(cost.without_rate))
        else:
            self.stated, self.stated_calls = self.stated + cost.amount, self.stated_calls + 1

    def merge(self, other: Costs) -> None:
        """Add the sums over the calls in `other`."""
        self.add_sums(other.sums())

    def sums(self) -> CostSums:
        """Return the sums, for JSON."""
        return CostSums(
            self.stated,
            self.estimated,
            self.stated_calls,
            self.estimated_calls,
            self.unknown_calls,
            self.without_rate,
        )

    def add_sums(self, sums: CostSums) -> None:
        """Add sums that `sums` returned."""
        self.stated += sums.stated
        self.estimated += sums.estimated
        self.stated_calls += sums.stated_calls
        self.estimated_calls += sums.estimated_calls
        self.unknown_calls += sums.unknown_calls
        self.without_rate.update(sums.without_rate)

    def to_json(self) -> dict[str, Payload]:
        """Return the sums as JSON, without unknown members."""
        stated_sum = estimated_sum = estimated_with = None
        if self.stated_calls:
            stated_sum = round(self.stated, 9)
        if self.estimated_calls:
            estimated_sum = round(self.estimated, 9)
            if self._price is None:
                estimated_with = table_name()
        return without_none(
            currency=CURRENCY,
            stated=stated_sum,
            stated_calls=self.stated_calls,
            estimated=estimated_sum,
            estimated_calls=self.estimated_calls,
            estimated_with=estimated_with,
            unknown_calls=self.unknown_calls,
            without_rate=dict(sorted(self.without_rate.items())) or None,
        )


def lacks_price(call: LLMInteraction, cost: Cost | None) -> bool:
    """Return whether a call with known tokens has a cost that is unknown, in whole or in part."""
    if cost is None:
        return call.response.usage.is_known
    return bool(cost.without_rate)


# ── whole runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


class RunCosts(Struct, frozen=True):
    """The cost of a run in US dollars, and whether the cost includes an estimate.

    `amount` and `estimated` are None if no call has a known cost. `calls_without_price` is the number of calls with
    known tokens whose cost is unknown, in whole or in part.
    """

    amount: float | None = None
    estimated: bool | None = None
    calls_without_price: int = 0


def may_have_price(status: Payload, calls: Payload) -> bool:
    """Whether a run with this status and this number of calls may have a price.

    A run that is still being recorded gets no price before its end.
    """
    return bool(calls) and status != "running" and prices() is not None


def costs_of_calls(calls: Sequence[LLMInteraction], known: Iterable[Cost | None] | None = None) -> RunCosts:
    """Return the sum of the costs of calls. A replayed answer costs nothing.

    `known` are the costs of all calls in the same order, from `cost_of`, if the caller has them.
    """
    costs, without_price = Costs(), 0
    for call, cost in zip(calls, known or map(cost_of, calls), strict=True):
        if call.is_replayed:
            continue
        costs.add(cost)
        without_price += lacks_price(call, cost)
    if not costs.stated_calls + costs.estimated_calls:
        return RunCosts(calls_without_price=without_price)
    return RunCosts(round(costs.stated + costs.estimated, 9), costs.estimated_calls > 0, without_price)
