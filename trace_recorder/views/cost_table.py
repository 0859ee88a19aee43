"""The table of prices of `genai-prices` (the extra `prices`), with the rates of each model looked up once.

The package computes each price from units and their overlaps, which takes longer than reading the call. If the prices
of a model do not depend on the number of tokens, a price is a sum over kinds of tokens, each at a fixed rate. These
rates are the package's prices for a million tokens of each kind. Otherwise the package is asked for each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module

from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import Counts

MAX_MODELS = 1024
"""The number of models, and of prices, that are kept."""
MAX_TOKENS = 10**12
"""With more tokens than this, a price would not be exact."""
_NAMES_THERE = {"xai": "x-ai", "moonshot": "moonshotai", "voyage": "voyageai", "bedrock": "aws"}
"""Providers that have another name in genai-prices."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class _Rates:
    """The price of a call, and of a million tokens of each kind. `prompt` is the rate of tokens that are not cached."""

    call: Decimal
    prompt: Decimal
    completion: Decimal
    cache_read: Decimal
    cache_write: Decimal

    def price(self, prompt: int, completion: int, cache_read: int, cache_write: int) -> Decimal:
        """Return the price of a call with these numbers of tokens."""
        tokens = prompt * self.prompt + completion * self.completion
        tokens += cache_read * self.cache_read + cache_write * self.cache_write
        return self.call + tokens / _MILLION


class PriceTable:
    """Prices tokens, as `cost.Price` defines it. Raises ImportError if genai-prices is not installed."""

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
        except (
            LookupError,
            ValueError,
        ):  # an unknown provider or model, or counts that are missing or contradict each other
            return None
        return float(rates.price(*kinds))

    def _rates_of(self, provider: str, model: str, time: datetime) -> _Rates | None:
        """Return the rates of a model at a time, or None if it has no fixed rates.

        Raises LookupError for an unknown model.
        """
        self._forget_other_prices()
        key = provider, model
        if key not in self._models:
            self._models[key] = self._look_up(provider, model)
        found = self._models[key]
        if found is None:
            raise LookupError(model)
        prices = found.get_prices(time)
        if id(prices) not in self._rates:
            self._rates[id(prices)] = prices, self._worked_out(provider, model, prices, time)
        return self._rates[id(prices)][1]

    def _forget_other_prices(self) -> None:
        """Forget the kept rates if the package has new prices, or if there are too many."""
        snapshot = self._snapshot_now()
        if snapshot is not self._snapshot or max(len(self._models), len(self._rates)) >= MAX_MODELS:
            self._snapshot = snapshot
            self._models.clear()
            self._rates.clear()

    def _look_up(self, provider: str, model: str) -> Payload:
        try:
            return self._ask(provider, model, (0, 0, None, None), None).model
        except LookupError:
            return None

    def _worked_out(self, provider: str, model: str, prices: Payload, time: datetime) -> _Rates | None:
        """Ask for the rates of prices. Returns None if they depend on the number of tokens."""
        if not all(isinstance(price, Decimal | None) for price in vars(prices).values()):
            return None
        of_call = self._ask(provider, model, (0, 0, None, None), time).total_price
        million = _MILLION
        kinds = (million, 0, None, None), (0, million, None, None), (million, 0, million, 0), (million, 0, 0, million)
        return _Rates(of_call, *(self._ask(provider, model, kind, time).total_price - of_call for kind in kinds))

    def _ask(self, provider: str, model: str, given: tuple[int | None, ...], at: datetime | None) -> Payload:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        usage = self._prices.Usage(**dict(zip(names, given, strict=True)))
        there = _NAMES_THERE.get(provider, provider)
        return self._prices.calc_price(usage, model, provider_id=there, genai_request_timestamp=at)
