"""The time as it is written in files."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the current time as ISO 8601 in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
