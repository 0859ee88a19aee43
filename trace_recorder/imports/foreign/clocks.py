"""Times of other tools' files as ISO 8601 with an offset: numbers that count from 1970, and texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from trace_recorder import clocks
from trace_recorder.clocks import parse_time
from trace_recorder.values.messages import Payload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = (1, 1_000, 1_000_000, 1_000_000_000)
"""The units that a number of some magnitude may count: seconds, milli-, micro- and nanoseconds."""


def stated_time(value: Payload) -> str:
    """Return a time of a source; "" if it is none.

    A number, or a text of digits, counts seconds, milli-, micro- or nanoseconds since 1970, by its size. A text without
    an offset is local time of an unknown place, and is taken as UTC.
    """
    if isinstance(value, str) and not value.isdecimal():
        return _from_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    if isinstance(value, str):
        value = int(value[:_MAX_DIGITS])
    if not 0 < value < 10**_MAX_DIGITS:  # as floats, larger whole numbers would overflow
        return ""
    number = float(value)
    unit = next((unit for unit in _PER_SECOND if number / unit < _MAX_PLAUSIBLE_SECONDS), None)
    if unit is None:
        return ""
    exact = (
        timedelta(microseconds=value * 1_000_000 // unit)
        if isinstance(value, int)
        else timedelta(seconds=number / unit)
    )
    return (_EPOCH + exact).isoformat(timespec="microseconds")


_MAX_DIGITS = 24
_MAX_PLAUSIBLE_SECONDS = 10_000_000_000
"""The year 2286: a larger number counts a smaller unit."""


def _from_text(text: str) -> str:
    found = parse_time(text)
    if found is None:
        return ""
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat(timespec="microseconds")


def seconds_between(start: str, end: str) -> float | None:
    """Return how many seconds are between two times, at least 0; None if one of them is not known."""
    seconds = clocks.seconds_between(stated_time(start), stated_time(end))
    return None if seconds is None else max(0.0, seconds)


def later(time: str, seconds: float | None) -> str:
    """Return the time so many seconds after another, before it if they are negative; "" if one is not known."""
    begun = parse_time(stated_time(time))
    if begun is None or seconds is None or not abs(seconds) < _MAX_PLAUSIBLE_SECONDS:
        return ""
    try:
        return (begun + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
    except OverflowError:
        return ""
