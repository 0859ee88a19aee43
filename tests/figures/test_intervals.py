"""Confidence intervals: equal to those of scipy, or to published examples, and honest about few values."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from trace_recorder.figures.intervals import (
    Estimate,
    difference_of,
    median_of,
    paired_difference_of,
    quantile_of,
    share_of,
)

SIZES = (*range(1, 40), 57, 100, 999, 1000, 10_007)


def ends(estimate: Estimate | None) -> tuple[float | None, float | None]:
    assert estimate is not None
    return estimate.low, estimate.high


def test_shares_have_the_wilson_interval_of_scipy() -> None:
    """Each share of up to 40 trials, and some larger ones, have scipy's interval."""
    cases = [(successes, trials) for trials in range(1, 41) for successes in range(trials + 1)]
    for successes, trials in [*cases, (0, 5000), (4999, 5000), (123_456, 1_000_000)]:
        expected = stats.binomtest(successes, trials).proportion_ci(0.95, "wilson")
        assert ends(share_of(successes, trials)) == pytest.approx([*expected], abs=1e-12)


def test_medians_have_the_exact_interval_of_scipy() -> None:
    """The interval has the order statistics that scipy chooses, and there is none where scipy has none."""
    chosen = random.Random(1)
    for size in SIZES:
        values = sorted(chosen.choice([chosen.lognormvariate(0, 2), chosen.randint(0, 3)]) for _ in range(size))
        result = stats.quantile_test(values, q=0, p=0.5).confidence_interval(0.95)
        estimate = median_of(values)
        assert estimate is not None
        assert estimate.value == pytest.approx(np.median(values))
        if size < 6:
            assert ends(estimate) == (None, None)
            assert np.isnan(result.low)
        else:
            assert ends(estimate) == (result.low, result.high)


def test_quartiles_are_those_of_numpy() -> None:
    """Quartiles are interpolated as numpy interpolates them."""
    chosen = random.Random(2)
    for size in SIZES:
        values = sorted(chosen.gauss(0, 1) for _ in range(size))
        expected = np.percentile(values, [25, 75])
        assert [quantile_of(values, 0.25), quantile_of(values, 0.75)] == pytest.approx([*expected], abs=1e-12)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_differences_of_shares_are_those_of_newcombe(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    """The examples in table II of Newcombe's article, method 10, have his intervals."""
    assert ends(difference_of(share_of(*one), share_of(*other))) == pytest.approx((low, high), abs=5e-5)


def test_few_values_have_wide_intervals_or_none() -> None:
    """A single run says nearly nothing, and nothing says nothing."""
    assert (share_of(0, 0), median_of([]), paired_difference_of(0, 0, 0)) == (None, None, None)
    assert ends(share_of(1, 1)) == pytest.approx((0.2065, 1.0), abs=5e-5)
    assert median_of([3.0]) == Estimate(3.0)
    assert difference_of(Estimate(3.0), Estimate(1.0, 0.5, 2.0)) == Estimate(2.0)
    assert difference_of(None, Estimate(1.0)) is None
    assert ends(paired_difference_of(1, 0, 1)) == pytest.approx((-0.7335, 1.0), abs=5e-5)


def successes(chosen: random.Random, share: float, trials: int) -> int:
    return sum(chosen.random() < share for _ in range(trials))


def values(chosen: random.Random, spread: float, count: int) -> Sequence[float]:
    """Return sorted values of a skewed distribution with the median 1."""
    return sorted(chosen.lognormvariate(0, spread) for _ in range(count))


def of_shares(chosen: random.Random) -> Estimate | None:
    return difference_of(share_of(successes(chosen, 0.9, 12), 12), share_of(successes(chosen, 0.6, 25), 25))


def of_medians(chosen: random.Random) -> Estimate | None:
    return difference_of(median_of(values(chosen, 1.5, 9)), median_of(values(chosen, 0.5, 30)))


def of_pairs(chosen: random.Random) -> Estimate | None:
    """Return the difference in 15 tasks, of which some are harder than others for both sides."""
    hard = [chosen.choice([0.2, 0.5, 0.9]) for _ in range(15)]
    one = [chosen.random() < min(share + 0.1, 1.0) for share in hard]
    other = [chosen.random() < share for share in hard]
    better = sum(a > b for a, b in zip(one, other, strict=True))
    worse = sum(a < b for a, b in zip(one, other, strict=True))
    return paired_difference_of(better, worse, 15)


@pytest.mark.parametrize(("estimate", "truth"), [(of_shares, 0.3), (of_medians, 0.0), (of_pairs, 0.1)])
def test_intervals_cover_the_truth(estimate: Callable[[random.Random], Estimate | None], truth: float) -> None:
    """Of 2,000 intervals for small groups of a known difference, at least 94 % have the difference in them."""
    chosen = random.Random(3)
    covered = 0
    for _ in range(2000):
        low, high = ends(estimate(chosen))
        assert low is not None
        assert high is not None
        covered += low <= truth <= high
    assert covered >= 1880
