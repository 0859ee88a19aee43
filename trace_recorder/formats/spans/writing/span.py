"""A span as a value, without any OpenTelemetry library: its ids, its times, its attributes.

Ids are derived from the run and from the operation that a span represents. So the same run always has the same spans,
and a span that is sent twice is one span. Times are integers of nanoseconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Literal

from trace_recorder.clocks import parse_time
from trace_recorder.values.origins import PARENT_CONTEXT
from trace_recorder.values.trajectory import Trajectory

SpanKind = Literal["internal", "client"]
AttributeValue = str | bool | int | float | list[str]
"""The value of an attribute. A structured value is JSON text."""
Attributes = Mapping[str, AttributeValue]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) * 1_000
"""The last time that ISO 8601 and Python can express, in nanoseconds since 1970."""
_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event at one moment of a span, such as an exception or a reward."""

    name: str
    time: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of a run, such as a call to a model or the execution of a tool.

    `error` is the message of the failure, "" if the failure has no message, and None if the operation did not fail.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind
    start: int
    end: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SpanIds:
    """The ids of a run's spans. `parent_id` is the id of the application's span in which the run began."""

    run: str
    trace_id: str
    parent_id: str | None = None

    @classmethod
    def of(cls, trajectory: Trajectory) -> SpanIds:
        """Return the ids of a run. If the run has no id, the ids are derived from its task and start."""
        run = trajectory.trajectory_id or f"{trajectory.task} {trajectory.start_time}"
        context = trajectory.annotations.get(PARENT_CONTEXT)
        if isinstance(context, str):
            parent = _PARENT.fullmatch(context)
            if parent is not None:
                return cls(run, parent[1], parent[2])
        if _TRACE_ID.fullmatch(run) is not None and int(run, 16) > 0:
            return cls(run, run)
        return cls(run, _digest(run, 16))

    def span_id(self, kind: str, *identity: str) -> str:
        """Return the id of the span for an operation of this kind with this identity."""
        return _digest("\0".join((self.run, kind, *identity)), 8)


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def nanoseconds(timestamp: str | None) -> int | None:
    """Return a time in nanoseconds since 1970, exact to the microsecond, or None if the text is not a time."""
    time = parse_time(timestamp)
    if time is None:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return min(max(0, (time - _EPOCH) // timedelta(microseconds=1) * 1_000), _LAST)


def iso(time: int) -> str:
    """Return a time in nanoseconds as ISO 8601."""
    return (_EPOCH + timedelta(microseconds=time // 1000)).isoformat(timespec="microseconds")


def after(start: int, seconds: float | None) -> int:
    """Return the time that is this many seconds after `start`, or the last time of ISO 8601 if that is earlier."""
    stated = min(seconds or 0.0, _LAST / 1e9)
    return min(start + round(stated * 1_000_000) * 1_000, _LAST)
