"""The time as it is written in files."""

from __future__ import annotations

from datetime import UTC, datetime

from trace_recorder.signal_handlers import ours


def now() -> str:
    """Return the current time as ISO 8601 in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def parse_time(timestamp: str | None) -> datetime | None:
    """Parse an ISO 8601 timestamp. Return None if the timestamp is None, empty, or not ISO 8601."""
    try:
        return datetime.fromisoformat(timestamp or "")
    except ours(ValueError, TypeError):
        return None


def seconds_between(begin: str | None, end: str | None) -> float | None:
    """Return the seconds from `begin` to `end`, which are ISO 8601 timestamps.

    Return None if `parse_time` cannot read one of them, or if only one of them has a UTC offset.
    """
    begun, ended = parse_time(begin), parse_time(end)
    if begun is None or ended is None or (begun.tzinfo is None) is not (ended.tzinfo is None):
        return None
    return (ended - begun).total_seconds()
