"""The time as it is written in files."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the current time as ISO 8601 in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def parse_time(timestamp: str | None) -> datetime | None:
    """Return an ISO 8601 time as a datetime; None if there is none, or if it is not ISO 8601."""
    try:
        return datetime.fromisoformat(timestamp or "")
    except (ValueError, TypeError):
        return None
