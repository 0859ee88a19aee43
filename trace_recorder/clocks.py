"""The clock of records: what the time is, as files state it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """The time as records state it: ISO 8601, UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
