"""Converts values of other tools: times to ISO 8601 with an offset, token counts to a usage, contents to text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain

from trace_recorder import clocks
from trace_recorder.clocks import parse_time
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_int, as_text, join_texts
from trace_recorder.facts import Json
from trace_recorder.values.messages import Payload, Usage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = (1, 1_000, 1_000_000, 1_000_000_000)
"""How many seconds, milliseconds, microseconds and nanoseconds a second has."""


def stated_time(value: Payload) -> str:
    """Return a time of a source as ISO 8601, or "" if the value is not a time.

    A number, or a text of digits, counts seconds, milli-, micro- or nanoseconds since 1970. The size of the number
    shows the unit. A text without an offset is a local time in an unknown time zone, and is taken as UTC.
    """
    if isinstance(value, str) and not value.isdecimal():
        time = parse_time(value)
        aware = time if time is None or time.tzinfo else time.replace(tzinfo=UTC)
        return "" if aware is None else aware.isoformat(timespec="microseconds")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    if isinstance(value, str):
        value = int(value[:_MAX_DIGITS])
    if not 0 < value < 10**_MAX_DIGITS:  # a larger whole number may be too large for a float
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
"""This many seconds after 1970 is the year 2286. So a larger number does not count seconds, but a smaller unit."""


def seconds_between(start: str, end: str) -> float | None:
    """Return the seconds between two times, at least 0, or None if one of the times is unknown."""
    seconds = clocks.seconds_between(stated_time(start), stated_time(end))
    return None if seconds is None else max(0.0, seconds)


def time_after(time: str, seconds: float | None) -> str:
    """Return the time that is `seconds` after `time`, or "" if `time` or `seconds` is unknown."""
    start = parse_time(stated_time(time))
    if start is None or seconds is None or not abs(seconds) < _MAX_PLAUSIBLE_SECONDS:
        return ""
    try:
        return (start + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
    except OverflowError:
        return ""


CountNames = Mapping[str, str]
"""For each count, the names of the members that may have the count, separated by spaces.

The first member with a whole number is taken. `a/b` is the member `b` of the member `a`.
"""


def counts_at(members: Json, names: CountNames) -> dict[str, Payload]:
    """Return the counts in `names` that an object states."""
    counts = ((name, _first_count(members, alternatives.split(" "))) for name, alternatives in names.items())
    return {name: count for name, count in counts if count is not None}


def usage_at(remaining: Remaining, names: CountNames, extra: Json | None = None, **more: Payload) -> Usage:
    """Return a usage with the counts in `names`, and with the members `more`.

    The usage's `extra` gets all other members of `remaining`, and the members of the argument `extra`.
    """
    counts: dict[str, Payload] = {name: remaining.integer(member) for name, member in names.items()}
    return Usage(**counts, **more, extra=remaining.rest() | (extra or {}))


def _first_count(members: Json, names: Iterable[str]) -> int | None:
    for name in names:
        outer, slash, inner = name.partition("/")
        value = as_dict(members.get(outer)).get(inner) if slash else members.get(outer)
        if (count := as_int(value)) is not None:
            return count
    return None


def other_counts(members: Json, details: Iterable[str], names: CountNames) -> Json:
    """Return the counts of the objects `details` that `names` does not read. Counts of 0 are left out."""
    known = {name.partition("/")[2] for alternatives in names.values() for name in alternatives.split(" ")}
    counts = chain.from_iterable(as_dict(members.get(detail)).items() for detail in details)
    return {name: count for name, count in counts if name not in known and count}


def text_of(content: Payload, between: str = "\n\n") -> str | None:
    """Return a content as text: the text itself, or the joined texts of its parts.

    Return None if the content has no text.
    """
    if isinstance(content, list):
        return join_texts((as_text(as_dict(part).get("text")) for part in content), between)
    return as_text(content)
