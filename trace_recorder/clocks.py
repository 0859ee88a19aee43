"""The two clocks: the time as it is written in files, and the clock by which durations are measured.

A test of the agent may freeze or move the time, as freezegun and time-machine do. The time in files follows, because it
is the agent's time. Durations do not follow: freezegun replaces the functions of the module `time`, so the clock of
durations comes from a second instance of that module.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from importlib.machinery import BuiltinImporter
from importlib.util import module_from_spec

from trace_recorder.signal_handlers import ours


def now() -> str:
    """Return the current time as ISO 8601 in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _clock_of_durations() -> Callable[[], float]:
    spec = BuiltinImporter.find_spec("time")
    if spec is None or spec.loader is None:
        raise ImportError("Python has no built-in module `time`")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    clock: Callable[[], float] = module.perf_counter
    return clock


monotonic_seconds = _clock_of_durations()
"""Returns seconds on a clock that is never set, moved or frozen. Only differences have a meaning."""


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
