"""Estimates with 95 % confidence intervals, from the standard library alone.

| of | interval | source |
|---|---|---|
| a share | Wilson's score interval | Wilson 1927 |
| a median | two order statistics, by the binomial distribution: exact, for values of any distribution | Thompson 1936 |
| a difference of two groups | square and add, from the intervals above | Newcombe 1998 (10), Zou and Donner 2008 |
| a difference of two shares of the same pairs | adjusted Wald interval | Bonett and Price 2012 |

An interval is None if there are too few values for it. An interval by order statistics covers the median with at least
95 %, so it needs six values. All other intervals cover the true value with about 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

from trace_recorder.values.structs import Struct

CONFIDENCE = 0.95
_TAIL = (1 - CONFIDENCE) / 2
_Z = NormalDist().inv_cdf(1 - _TAIL)
_MAX_DEVIATIONS = 10
"""Binomial probabilities that are more standard deviations away from the mean than this are negligible (1e-23)."""


class Estimate(Struct, frozen=True):
    """A value, with its 95 % confidence interval from `low` to `high`.

    Both ends are None if there are too few values for an interval.
    """

    value: float
    low: float | None = None
    high: float | None = None


def share_of(successes: int, trials: int) -> Estimate | None:
    """Return the share of successes, with Wilson's interval. Return None if there are no trials."""
    if not trials:
        return None
    share, weight = successes / trials, _Z**2 / trials
    center = (share + weight / 2) / (1 + weight)
    half = _Z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    low, high = center - half, center + half
    if successes == 0:
        low = 0.0  # without an error of rounding
    if successes == trials:
        high = 1.0
    return Estimate(share, low, high)


def median_of(ordered: Sequence[float]) -> Estimate | None:
    """Return the median of sorted values, with its exact interval. Return None if there are no values."""
    count = len(ordered)
    if not count:
        return None
    value = quantile_of(ordered, 0.5)
    rank = _rank_of_low_end(count)
    if not rank:
        return Estimate(value)
    return Estimate(value, ordered[rank - 1], ordered[count - rank])


def quantile_of(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, with linear interpolation between two values (type 7, as in numpy)."""
    place = (len(ordered) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@cache
def _rank_of_low_end(count: int) -> int:
    """Return the rank of the order statistic at the low end of the median's interval, or 0 if there is none.

    Fewer than `rank` of `count` values are below the median with a probability of at most 2.5 %.
    """
    first = max(0, math.floor(count / 2 - _MAX_DEVIATIONS * math.sqrt(count) / 2))
    logarithm = math.lgamma(count + 1) - math.lgamma(first + 1) - math.lgamma(count - first + 1)
    probability = total = math.exp(logarithm - count * math.log(2))
    rank = first
    while total <= _TAIL:
        probability *= (count - rank) / (rank + 1)
        total += probability
        rank += 1
    return rank


def difference_of(estimate: Estimate | None, reference: Estimate | None) -> Estimate | None:
    """Return the difference between the estimates of two groups that have no run in common.

    Return None if one of the estimates is unknown. Without both intervals, the difference has no interval.
    """
    if estimate is None or reference is None:
        return None
    value = estimate.value - reference.value
    if estimate.low is None or estimate.high is None or reference.low is None or reference.high is None:
        return Estimate(value)
    down = math.hypot(estimate.value - estimate.low, reference.high - reference.value)
    up = math.hypot(estimate.high - estimate.value, reference.value - reference.low)
    return Estimate(value, value - down, value + up)


def paired_difference_of(better: int, worse: int, pairs: int) -> Estimate | None:
    """Return the share of the pairs that are better, less the share of those that are worse.

    If each side of a pair is a success or a failure, this is the difference of the two shares of successes. Return None
    if there are no pairs.
    """
    if not pairs:
        return None
    adjusted_better, adjusted_worse = (better + 1) / (pairs + 2), (worse + 1) / (pairs + 2)
    center = adjusted_better - adjusted_worse
    half = _Z * math.sqrt((adjusted_better + adjusted_worse - center**2) / (pairs + 2))
    return Estimate((better - worse) / pairs, max(-1.0, center - half), min(1.0, center + half))
