"""The user's own prices, in a file that the variable `TRACE_RECORDER_PRICES` names: for models that the user serves.

    [[prices]]
    provider = "vllm"       # a pattern; every provider if it is missing
    model = "qwen3-*"       # a pattern: * stands for any characters, ? for one character
    input = 0.20            # US dollars for a million tokens
    output = 0.60
    cache_read = 0.02       # as `input` if it is missing
    cache_write = 0.25      # as `input` if it is missing

The first table whose patterns match has the price. The table of genai-prices has all other models. The file is read
once in each process. Only estimates use it: a cost that the provider states stays as it is.
"""

from __future__ import annotations

import math
import os
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from trace_recorder.errors import PriceFileError
from trace_recorder.figures.price_table import PriceTable
from trace_recorder.storage.paths import PRICES_VARIABLE
from trace_recorder.values.token_counts import Counts

_MILLION = 1_000_000
_TOKENS = "_tokens"


class OwnRates(Struct, frozen=True, forbid_unknown_fields=True):
    """The rates of the models that match, in US dollars for a million tokens."""

    model: str
    input: float
    output: float
    provider: str = "*"
    cache_read: float | None = None
    cache_write: float | None = None

    def matches(self, provider: str, model: str) -> bool:
        """Return whether these are the rates of a model."""
        return fnmatchcase(provider, self.provider) and fnmatchcase(model, self.model)

    def price(self, prompt: int, completion: int, cache_read: int, cache_write: int) -> float:
        """Return the price of a call. `prompt` includes the tokens that were read from a cache or written to it."""
        read_rate = self.input if self.cache_read is None else self.cache_read
        write_rate = self.input if self.cache_write is None else self.cache_write
        plain = prompt - cache_read - cache_write
        total = plain * self.input + completion * self.output + cache_read * read_rate + cache_write * write_rate
        return total / _MILLION


class PriceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a file of prices."""

    prices: list[OwnRates]


class OwnPrices:
    """A `Price` that uses the user's rates, and the table of genai-prices for other models.

    `others` is None if genai-prices is not installed. `digest` changes with the file.
    """

    def __init__(self, path: Path, others: PriceTable | None) -> None:
        """Read the file. Raises PriceFileError."""
        import tomllib  # noqa: PLC0415 - only programs with prices of their own need it

        try:
            data = path.read_bytes()
            file = msgspec.convert(tomllib.loads(data.decode()), PriceFile)
        except OSError as error:
            raise PriceFileError(f"{PRICES_VARIABLE} names {path}, which cannot be read: {error.strerror}") from error
        except ValueError as error:  # not UTF-8, not TOML, or not prices
            raise PriceFileError(f"{path}, which {PRICES_VARIABLE} names, is not a file of prices: {error}") from error
        self.name = path.name
        self.digest = blake2b(data, digest_size=8).hexdigest()
        self._rates = file.prices
        self._others = others
        for rates in file.prices:
            _check(path, rates)

    def __call__(self, provider: str, model: str, counts: Counts, time: datetime | None) -> float | None:
        """Return the price in US dollars, or None if there is none."""
        rates = self._rates_of(provider, model)
        if rates is None and self._others is not None:
            return self._others(provider, model, counts, time)
        if rates is None or counts.prompt is None or counts.completion is None:
            return None
        return rates.price(counts.prompt, counts.completion, counts.cache_read or 0, counts.cache_write or 0)

    def without_rate(self, provider: str, model: str, counts: Counts, time: datetime | None) -> tuple[str, ...]:
        """Return the units and terms of a call for which there is no rate. Own rates are only for tokens."""
        if self._rates_of(provider, model) is not None:
            return tuple(name for name, _ in counts.units if not name.endswith(_TOKENS))
        if self._others is None:
            return ()
        return self._others.without_rate(provider, model, counts, time)

    def _rates_of(self, provider: str, model: str) -> OwnRates | None:
        return next((rates for rates in self._rates if rates.matches(provider, model)), None)


def _check(path: Path, rates: OwnRates) -> None:
    """Raise PriceFileError if a rate is negative or not finite."""
    for name in ("input", "output", "cache_read", "cache_write"):
        rate = getattr(rates, name)
        if rate is not None and not 0 <= rate < math.inf:
            raise PriceFileError(
                f"{path}: the rate `{name}` of {rates.provider}/{rates.model} is {rate}; "
                "it must be US dollars for a million tokens, 0 or more"
            )


@cache
def own_prices() -> OwnPrices | None:
    """Return the user's prices, or None if the environment names no file. Raises PriceFileError."""
    path = os.environ.get(PRICES_VARIABLE)
    if not path:
        return None
    try:
        others = PriceTable()
    except ImportError:
        others = None
    return OwnPrices(Path(path), others)
