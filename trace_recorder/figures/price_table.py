"""The prices of genai-prices (the extra `prices`).

That package takes longer to compute a price than our code takes to read the call. So `PriceTable` keeps the rates of a
model, below the number of input tokens from which the model has other rates. The price is then a sum over the kinds of
tokens, each at a fixed rate. Otherwise the package computes the price of each call: if a call has more tokens, used
other units, or was served on special terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module

from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import Counts

MAX_MODELS = 1024
"""A `PriceTable` keeps at most this many models, and at most this many rates.

If there are more, the table forgets all of them.
"""
MAX_TOKENS = 10**12
"""If a call has more tokens of one kind than this, genai-prices computes the price. Our own sum would not be exact."""
_PROVIDER_IDS = {"xai": "x-ai", "moonshot": "moonshotai", "voyage": "voyageai", "bedrock": "aws"}
"""Maps the names of providers to their names in genai-prices, if the names differ."""
_MILLION = 1_000_000
_HOUR_WRITES = "cache_write_1h_tokens"
_ADDED_TO_PRICE = "inference_geo"
"""A term that adds to the usual price. Without a rate for it, the rest of the price is known."""
_WITH_OWN_RATE = frozenset({_HOUR_WRITES, "web_searches", "storage_searches", "code_executions", "generated_images"})
"""Units that are not priced as other tokens are, if the table has no rate for them.

Tokens of sounds and images without a rate of their own have the rate of text, because many models have one rate.
"""
_SOUNDS = {"input_audio_tokens": "input_tokens", "output_audio_tokens": "output_tokens"}
"""Units of sound, each with the count that includes it."""
_SOUNDS_COST_MORE_AT = frozenset({"openai", "azure"})
"""Providers whose sounds never have the rate of text."""
_RATES_PER = {"tokens": "mtok", "seconds": "hours"}
"""How genai-prices names the rate of a unit. Units of another measure have a rate per thousand."""


def _rate(prices: Payload, unit: str) -> Payload:
    """Return the rate of a unit, or None if the table has no such rate."""
    things, _, measure = unit.rpartition("_")
    name = f"{unit}_kcount"
    if measure in _RATES_PER:
        name = f"{things}_{_RATES_PER[measure]}"
    return vars(prices).get(name)


def _lacks_rate(provider: str, prices: Payload, unit: str) -> bool:
    has_own_rate = unit in _WITH_OWN_RATE or (unit in _SOUNDS and provider in _SOUNDS_COST_MORE_AT)
    return has_own_rate and _rate(prices, unit) is None


@dataclass(frozen=True, slots=True)
class _Rates:
    """The price of a call without tokens, and of a million tokens of each kind.

    `prompt` is the rate of uncached tokens. The rates are those of calls with fewer than `prompt_end` input tokens.
    """

    prompt_end: int
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
        """Return the price in US dollars, or None if the table cannot price this provider, model or count.

        The price leaves out what `without_rate` returns.
        """
        if counts.prompt is None or counts.completion is None:
            return None
        if counts.units or counts.terms:
            return self._price_of_units(provider, model, counts, time)
        kinds_of_tokens = counts.prompt, counts.completion, counts.cache_read, counts.cache_write
        read, written = counts.cache_read or 0, counts.cache_write or 0
        kinds = counts.prompt - read - written, counts.completion, read, written
        try:
            rates = self._rates_of(provider, model, time or datetime.now(tz=UTC))
            is_usual = rates is not None and min(kinds) >= 0 and max(kinds) <= MAX_TOKENS
            if rates is None or not is_usual or counts.prompt >= rates.prompt_end:
                return float(self._ask(provider, model, kinds_of_tokens, time).total_price)
        except (LookupError, ValueError):  # an unknown provider or model, or counts that contradict each other
            return None
        return float(rates.price(*kinds))

    def without_rate(self, provider: str, model: str, counts: Counts, time: datetime | None) -> tuple[str, ...]:
        """Return the units and terms of a call for which the table has no rate."""
        if not counts.units and not counts.terms:
            return ()
        prices, unpriced_terms = self._prices_on_terms(provider, model, counts, time or datetime.now(tz=UTC))
        return (*(name for name, _ in counts.units if _lacks_rate(provider, prices, name)), *unpriced_terms)

    def _price_of_units(self, provider: str, model: str, counts: Counts, time: datetime | None) -> float | None:
        """Return the price of a call with other units or special terms.

        The package computes it. Units without a rate are left out. A call on a service tier without a rate has no price
        at all, nor has a call that has neither tokens nor a unit with a rate.
        """
        try:
            prices, unpriced = self._prices_on_terms(provider, model, counts, time or datetime.now(tz=UTC))
        except LookupError:
            return None
        if any(not term.startswith(_ADDED_TO_PRICE) for term in unpriced):
            return None
        usage = {
            "input_tokens": counts.prompt,
            "output_tokens": counts.completion,
            "cache_read_tokens": counts.cache_read,
            "cache_write_tokens": counts.cache_write,
        }
        units = dict(counts.units)
        for unit, whole in _SOUNDS.items():
            if _lacks_rate(provider, prices, unit):
                usage[whole] = (usage[whole] or 0) - units.pop(unit, 0)
        if _lacks_rate(provider, prices, _HOUR_WRITES):
            hour = units.pop(_HOUR_WRITES, 0)
            usage["input_tokens"] = (usage["input_tokens"] or 0) - hour
            usage["cache_write_tokens"] = (counts.cache_write or 0) - hour
        with_rate = {name: number for name, number in units.items() if _rate(prices, name) is not None}
        if counts.units and not (with_rate or usage["input_tokens"] or usage["output_tokens"]):
            return None
        try:
            return float(prices.calc_price(self._prices.Usage(**usage, **with_rate))["total_price"])
        except (LookupError, ValueError):  # counts that contradict each other
            return None

    def _prices_on_terms(
        self, provider: str, model: str, counts: Counts, time: datetime
    ) -> tuple[Payload, tuple[str, ...]]:
        """Return the prices of a model on the terms of a call, and the terms for which the table has no price.

        Raises LookupError for an unknown model.
        """
        info = self._model(provider, model)
        variants = [
            variant.when
            for variant in info.price_variants or ()
            if variant.constraint is None or variant.constraint.active(time)
        ]
        terms = dict(counts.terms)
        priced = {name for when in variants if when.items() <= terms.items() for name in when}
        unpriced = tuple(f"{name} {value}" for name, value in terms.items() if name not in priced)
        return info.get_prices(time, terms or None), unpriced

    def _rates_of(self, provider: str, model: str, time: datetime) -> _Rates | None:
        """Return the rates of a model at a time, or None if it has no fixed rates.

        Raises LookupError for an unknown model.
        """
        prices = self._model(provider, model).get_prices(time)
        if id(prices) not in self._rates:
            self._rates[id(prices)] = prices, self._compute_rates(provider, model, prices, time)
        return self._rates[id(prices)][1]

    def _model(self, provider: str, model: str) -> Payload:
        """Return what the package knows of a model. Raises LookupError for an unknown model."""
        self._forget_other_prices()
        key = provider, model
        if key not in self._models:
            try:
                self._models[key] = self._ask(provider, model, (0, 0, None, None), None).model
            except LookupError:
                self._models[key] = None
        if self._models[key] is None:
            raise LookupError(model)
        return self._models[key]

    def _forget_other_prices(self) -> None:
        """Forget the kept rates if genai-prices has new prices, or if too many rates are kept."""
        snapshot = self._snapshot_now()
        if snapshot is not self._snapshot or max(len(self._models), len(self._rates)) >= MAX_MODELS:
            self._snapshot = snapshot
            self._models.clear()
            self._rates.clear()

    def _compute_rates(self, provider: str, model: str, prices: Payload, time: datetime) -> _Rates | None:
        """Compute the rates of a model from the price that genai-prices states for a million tokens of each kind.

        If the rates depend on the number of input tokens, they are those below the first limit. Return None if they
        depend on anything else.
        """
        prompt_end = MAX_TOKENS
        for price in vars(prices).values():
            if isinstance(price, Decimal | None):
                continue
            starts = [tier.start for tier in getattr(price, "tiers", ())]
            if not starts:
                return None
            prompt_end = min(prompt_end, *starts)
        of_call = self._ask(provider, model, (0, 0, None, None), time).total_price
        many = min(_MILLION, prompt_end // 2)
        if many == 0:
            return None
        kinds = (many, 0, None, None), (0, many, None, None), (many, 0, many, 0), (many, 0, 0, many)
        prices_of_kinds = (self._ask(provider, model, kind, time).total_price - of_call for kind in kinds)
        return _Rates(prompt_end, of_call, *(price * _MILLION / many for price in prices_of_kinds))

    def _ask(self, provider: str, model: str, counts: tuple[int | None, ...], time: datetime | None) -> Payload:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        usage = self._prices.Usage(**dict(zip(names, counts, strict=True)))
        provider_id = _PROVIDER_IDS.get(provider, provider)
        return self._prices.calc_price(usage, model, provider_id=provider_id, genai_request_timestamp=time)
