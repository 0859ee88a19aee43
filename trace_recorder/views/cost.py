"""The costs of calls and of runs: costs that the provider stated, or else estimates from a table of prices.

`Cost.estimated` marks an estimate. A model is looked up only under the provider that served it, because the same
weights have different prices at different providers. A model on the user's machine has no price. An unknown cost never
counts as 0.

`PriceTable` is the table of `genai-prices` (the extra `prices`). That package takes longer to compute a price than our
code takes to read the call. So `PriceTable` keeps the rates of a model if they do not depend on the number of tokens.
The price is then a sum over the kinds of tokens, each at a fixed rate. Otherwise the package computes the price of each
call.

`run_costs` sums the costs of a whole run. Lists of runs show this sum. If the run has ended, the function decodes only
the members of the document that affect the price. Decoding these members is much faster than loading the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import cast

from msgspec import MsgspecError, Struct, json

from trace_recorder.guard import try_call
from trace_recorder.values.llm_interaction import InteractionSource, LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload, Usage, without_none
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.token_counts import Counts, counts_of, stated_cost
from trace_recorder.views.call_facts import made_calls

MAX_MODELS = 1024
"""A `PriceTable` keeps at most this many models, and at most this many rates.

If there are more, the table forgets all of them.
"""
MAX_TOKENS = 10**12
"""If a call has more tokens of one kind than this, genai-prices computes the price. Our own sum would not be exact."""
_PROVIDER_IDS = {"xai": "x-ai", "moonshot": "moonshotai", "voyage": "voyageai", "bedrock": "aws"}
"""Maps the names of providers to their names in genai-prices, if the names differ."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class _Rates:
    """The price of a call without tokens, and of a million tokens of each kind.

    `prompt` is the rate of uncached tokens.
    """

    call: Decimal
    prompt: Decimal
    completion: Decimal
    cache_read: Decimal
    cache_write: Decimal

    def price(self, prompt: int, completion: int, cache_read: int, cache_write: int) -> Decimal:
        """Return the price of a call with these token counts."""
        tokens = prompt * self.prompt + completion * self.completion
        tokens += cache_read * self.cache_read + cache_write * self.cache_write
        return self.call + tokens / _MILLION


class PriceTable:
    """A `Price` that uses the table of genai-prices.

    The constructor raises ImportError if the package is not installed.
    """

    def __init__(self) -> None:
        self._prices: Payload = import_module("genai_prices")
        self._snapshot_now: Payload = import_module("genai_prices.data_snapshot").get_snapshot
        self._snapshot: Payload = None
        self._models: dict[tuple[str, str], Payload] = {}
        self._rates: dict[int, tuple[Payload, _Rates | None]] = {}

    def __call__(self, provider: str, model: str, counts: Counts, time: datetime | None) -> float | None:
        """Return the price in US dollars, or None if the table cannot price this provider, model or count."""
        if counts.prompt is None or counts.completion is None:
            return None
        kinds_of_tokens = counts.prompt, counts.completion, counts.cache_read, counts.cache_write
        read, written = counts.cache_read or 0, counts.cache_write or 0
        kinds = counts.prompt - read - written, counts.completion, read, written
        try:
            rates = self._rates_of(provider, model, time or datetime.now(tz=UTC))
            if rates is None or min(kinds) < 0 or max(kinds) > MAX_TOKENS:
                return float(self._ask(provider, model, kinds_of_tokens, time).total_price)
        except (LookupError, ValueError):  # an unknown provider or model, or counts that contradict each other
            return None
        return float(rates.price(*kinds))

    def _rates_of(self, provider: str, model: str, time: datetime) -> _Rates | None:
        """Return the rates of a model at a time, or None if it has no fixed rates.

        Raises LookupError for an unknown model.
        """
        self._forget_other_prices()
        key = provider, model
        if key not in self._models:
            try:
                self._models[key] = self._ask(provider, model, (0, 0, None, None), None).model
            except LookupError:
                self._models[key] = None
        model_prices = self._models[key]
        if model_prices is None:
            raise LookupError(model)
        prices = model_prices.get_prices(time)
        if id(prices) not in self._rates:
            self._rates[id(prices)] = prices, self._compute_rates(provider, model, prices, time)
        return self._rates[id(prices)][1]

    def _forget_other_prices(self) -> None:
        """Forget the kept rates if genai-prices has new prices, or if too many rates are kept."""
        snapshot = self._snapshot_now()
        if snapshot is not self._snapshot or max(len(self._models), len(self._rates)) >= MAX_MODELS:
            self._snapshot = snapshot
            self._models.clear()
            self._rates.clear()

    def _compute_rates(self, provider: str, model: str, prices: Payload, time: datetime) -> _Rates | None:
        """Compute the rates of a model from the price that genai-prices states for a million tokens of each kind.

        Return None if the rates depend on the number of tokens.
        """
        if not all(isinstance(price, Decimal | None) for price in vars(prices).values()):
            return None
        of_call = self._ask(provider, model, (0, 0, None, None), time).total_price
        million = _MILLION
        kinds = (million, 0, None, None), (0, million, None, None), (million, 0, million, 0), (million, 0, 0, million)
        return _Rates(of_call, *(self._ask(provider, model, kind, time).total_price - of_call for kind in kinds))

    def _ask(self, provider: str, model: str, counts: tuple[int | None, ...], time: datetime | None) -> Payload:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        usage = self._prices.Usage(**dict(zip(names, counts, strict=True)))
        provider_id = _PROVIDER_IDS.get(provider, provider)
        return self._prices.calc_price(usage, model, provider_id=provider_id, genai_request_timestamp=time)


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


def cost_of(call: LLMInteraction, price: Price | None = None, counts: Counts | None = None) -> Cost | None:
    """Return the cost of a call, or None if it is unknown.

    `price` replaces the table of genai-prices. `counts` are the call's tokens from `counts_of`, if the caller has them
    already.
    """
    stated = stated_cost(call)
    if stated is not None:
        return Cost(stated, estimated=False)
    counts = counts_of(call) if counts is None else counts
    amount = None if counts is None else _estimate(call, counts, price or table())
    return None if amount is None else Cost(amount, estimated=True)


def _estimate(call: LLMInteraction, counts: Counts, price: Price | None) -> float | None:
    """Return the price for the model that answered, or else for the requested model."""
    provider, answered = call.provider, call.response.model
    if price is None or not isinstance(provider, str) or not provider:  # a file may have any JSON value here
        return None
    time = _time(call)
    for model in (answered, call.model if call.model != answered else None):
        if model and isinstance(model, str) and (amount := price(provider, model, counts, time)) is not None:
            return amount
    return None


@cache
def table() -> Price | None:
    """Return the table of genai-prices, or None if the extra `prices` is not installed."""
    try:
        return PriceTable()
    except ImportError:
        return None


@cache
def table_name() -> str | None:
    """Return the name and version of the table of prices, which is shown with an estimate."""
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
        """Add the sums over the calls in `other`."""
        self.add_sums(*other.sums())

    def sums(self) -> tuple[float, float, int, int, int]:
        """Return the stated and the estimated costs, and how many calls have a stated, estimated or unknown cost."""
        return self.stated, self.estimated, self.stated_calls, self.estimated_calls, self.unknown_calls

    def add_sums(
        self, stated_cost: float, estimated: float, stated_calls: int, estimated_calls: int, unknown: int
    ) -> None:
        """Add sums that `sums` returned."""
        self.stated += stated_cost
        self.estimated += estimated
        self.stated_calls += stated_calls
        self.estimated_calls += estimated_calls
        self.unknown_calls += unknown

    def to_json(self) -> dict[str, Payload]:
        """Return the sums as JSON, without unknown members."""
        return without_none(
            currency=CURRENCY,
            stated=round(self.stated, 9) if self.stated_calls else None,
            stated_calls=self.stated_calls,
            estimated=round(self.estimated, 9) if self.estimated_calls else None,
            estimated_calls=self.estimated_calls,
            estimated_with=table_name() if self.estimated_calls and self._price is None else None,
            unknown_calls=self.unknown_calls,
        )


# ── whole runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


class RunCosts(Struct, frozen=True):
    """The cost of a run in US dollars, and whether the cost includes an estimate.

    `amount` and `estimated` are None if no call has a known cost. `calls_without_price` is the number of calls with
    known tokens and an unknown cost.
    """

    amount: float | None = None
    estimated: bool | None = None
    calls_without_price: int = 0


class _AnswerInDocument(Struct):
    model: str | None = None
    usage: dict[str, Payload] | None = None


class _CallInDocument(Struct):
    """A call in a document, with only the members that affect its price. All other members are skipped."""

    timestamp: str
    provider: str | None = None
    model: str | None = None
    api: str | None = None
    response: _AnswerInDocument | None = None
    replayed_from: Payload = None

    def to_interaction(self, read_usage: Callable[[dict[str, Payload]], Usage]) -> LLMInteraction:
        """Return an interaction with the members that `cost_of` needs."""
        answer = self.response or _AnswerInDocument()
        return LLMInteraction(
            interaction_id="",
            timestamp=self.timestamp,
            provider=self.provider,
            model=self.model,
            source=cast(InteractionSource, None),  # messages do not affect the price
            api=self.api,
            response=LLMResponse(model=answer.model, usage=read_usage(answer.usage or {})),
            replayed_from=ReplayedFrom.of_document(self.replayed_from),
        )


class _EndedDocument(Struct):
    status: str
    llm_interactions: list[_CallInDocument]


_DECODER = json.Decoder(_EndedDocument)


def may_have_price(status: Payload, *tokens: Payload) -> bool:
    """Whether calls of a run with this status and these token counts may have a price.

    A run that is still being recorded gets no price before its end.
    """
    return any(tokens) and status != "running" and table() is not None


def run_costs_or_unknown(path: Path) -> RunCosts:
    """Return the cost of a run, or an unknown cost if the run cannot be read."""
    return try_call(lambda: run_costs(path), lambda _: RunCosts())


def run_costs(path: Path) -> RunCosts:
    """Return the cost of a run. Raises the same errors as `load`."""
    calls = _calls_of_document(path)
    if calls is None:
        from trace_recorder.imports.loader import load  # noqa: PLC0415 - not needed for runs that have ended

        calls = load(path).llm_interactions
    return costs_of_calls(calls)


def costs_of_calls(calls: Iterable[LLMInteraction]) -> RunCosts:
    """Return the sum of the costs of calls. A replayed answer costs nothing."""
    costs, without_price = Costs(), 0
    for call in made_calls(calls):
        cost = cost_of(call)
        costs.add(cost)
        without_price += cost is None and call.response.usage.is_known
    if not costs.stated_calls + costs.estimated_calls:
        return RunCosts(calls_without_price=without_price)
    return RunCosts(round(costs.stated + costs.estimated, 9), costs.estimated_calls > 0, without_price)


def _calls_of_document(path: Path) -> Sequence[LLMInteraction] | None:
    """Return the calls of an ended run's document, or None for any other file."""
    if path.suffix != ".json":
        return None
    try:
        document = _DECODER.decode(path.read_bytes())
    except (OSError, MsgspecError, RecursionError):
        return None
    if document.status == "running":
        return None
    from trace_recorder.dialects.manual import read_usage  # noqa: PLC0415 - it imports all dialects

    return [call.to_interaction(read_usage) for call in document.llm_interactions]
