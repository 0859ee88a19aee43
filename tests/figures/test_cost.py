"""Prices from rates: the same prices as from genai-prices, without asking the package for each call."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import islice
from types import FrameType

import pytest

from trace_recorder.figures.price_table import MAX_MODELS, MAX_TOKENS, PriceTable
from trace_recorder.values.token_counts import Counts

prices = pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
AT = datetime(2026, 3, 1, 15, tzinfo=UTC)
COUNTS = (
    Counts(0, 0),
    Counts(1234, 77),
    Counts(1234, 77, cache_read=1000, cache_write=200),
    Counts(1234, 77, cache_read=1200),
    Counts(199_999, 77, cache_read=120_001),
    Counts(200_001, 77, cache_read=120_001),
    Counts(700_001, 9, cache_write=650_001),
    Counts(10, 1, cache_read=11),
    Counts(MAX_TOKENS * 3 + 1, 1),
    Counts(-1, 1),
    Counts(5, None),
)


def asked(provider: str, model: str, counts: Counts, time: datetime | None) -> float | None:
    """Return the price that the package calculates."""
    if counts.prompt is None or counts.completion is None:
        return None
    try:
        usage = prices.Usage(
            input_tokens=counts.prompt,
            output_tokens=counts.completion,
            cache_read_tokens=counts.cache_read,
            cache_write_tokens=counts.cache_write,
        )
        found = prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=time)
    except (LookupError, ValueError):
        return None
    return float(found.total_price)


def test_prices_equal_those_of_the_package() -> None:
    """Prices are equal to the last digit, also for models whose prices depend on the time or the number of tokens."""
    table = PriceTable()
    snapshot = pytest.importorskip("genai_prices.data_snapshot").get_snapshot()
    models = [(provider.id, model.id) for provider in snapshot.providers for model in provider.models]
    sample = [
        *islice(models, 0, None, 9),
        ("google", "gemini-2.5-pro"),
        ("anthropic", "claude-sonnet-4-5"),
        ("deepseek", "deepseek-chat"),
    ]

    wrong = [
        (provider, model, counts)
        for provider, model in sample
        for counts in COUNTS
        for at in (AT, datetime(2025, 1, 1, tzinfo=UTC))
        if table(provider, model, counts, at) != asked(provider, model, counts, at)
    ]

    assert len(sample) > 50
    assert wrong == []


def package_calls(table: PriceTable, provider: str, model: str, calls: int) -> int:
    """Return how many functions of the package are called to price this many calls of a model."""
    counted = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal counted
        counted += event == "call" and frame.f_globals.get("__name__", "").startswith("genai_prices")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for number in range(calls):
            table(provider, model, Counts(1000 + number, number), AT)
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", "gpt-4o"), ("openai", "no-such-model"), ("anthropic", "claude-sonnet-4-5")]
)
def test_further_calls_hardly_ask_the_package(provider: str, model: str) -> None:
    """A further call asks only whether the prices are unchanged, and which prices apply at that time."""
    table = PriceTable()
    package_calls(table, provider, model, 1)

    assert package_calls(table, provider, model, 100) <= 2 * 100


def test_the_cache_of_prices_is_bounded() -> None:
    """The cache does not grow with the number of unknown model names."""
    table = PriceTable()
    for number in range(MAX_MODELS + 5):
        table("openai", f"no-such-model-{number}", Counts(1, 1), AT)

    assert 0 < len(table._models) <= MAX_MODELS
