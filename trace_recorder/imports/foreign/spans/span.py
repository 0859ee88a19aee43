"""A span as its file states it, and the access to its attributes.

An attribute that a vocabulary has read is marked as read. What is left of a span at the end has no place in a run, and
is kept as it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, timedelta

from trace_recorder.clocks import parse_time
from trace_recorder.dialects.json_access import as_number, as_text
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.run import Members
from trace_recorder.values.json_text import check_depth
from trace_recorder.values.messages import Payload

MAX_ATTRIBUTE_DEPTH = 100
"""How deeply JSON in the text of an attribute may be nested; a deeper one stays a text."""


def parsed(value: Payload) -> Payload:
    """Return the JSON object or array that a text is; any other value, and any other text, as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        check_depth(value, MAX_ATTRIBUTE_DEPTH)
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def utc(value: Payload) -> str:
    """Return a time of a source in UTC, so that times can be compared as texts; "" if it is none."""
    found = parse_time(stated_time(value))
    if found is None:
        return ""
    try:
        return found.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        return ""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span, or a log record that belongs to it. `body` is the record's own."""

    name: str
    time: str = ""
    attributes: Members = field(default_factory=dict)
    body: Payload = None

    def to_members(self) -> Members:
        """Return it as JSON."""
        shown: Members = {"name": self.name, "time": self.time, "attributes": self.attributes}
        return shown if self.body is None else shown | {"body": self.body}


@dataclass(slots=True)
class Span:
    """One span. Times are ISO 8601 with an offset, or ""; an `end` of "" means that the span did not end.

    `failed` is None where the source does not say whether the operation succeeded.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    start: str = ""
    end: str = ""
    failed: bool | None = None
    status_message: str | None = None
    attributes: Members = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    scope: str = ""
    more: Members = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    read_events: set[int] = field(default_factory=set)

    def take(self, *names: str) -> Payload:
        """Return the first of these attributes that is there; all of them count as read."""
        self.read.update(names)
        return next((self.attributes[name] for name in names if self.attributes.get(name) is not None), None)

    def take_text(self, *names: str) -> str | None:
        """Return the first of these attributes, if it is a text."""
        return as_text(self.take(*names))

    def take_json(self, *names: str) -> Payload:
        """Return the first of these attributes; if it is a text that is a JSON object or array, that."""
        return parsed(self.take(*names))

    def take_number(self, *names: str) -> float | None:
        """Return the first of these attributes as a number.

        The attribute must be a number, or a text that spells a number.
        """
        value = self.take(*names)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        return as_number(value)

    def mark_read(self, *prefixes: str) -> None:
        """Count all attributes whose names begin so as read: they repeat what was read elsewhere."""
        self.read.update(name for name in self.attributes if name.startswith(prefixes))

    def take_event(self, position: int) -> SpanEvent:
        """Return an event, which counts as read."""
        self.read_events.add(position)
        return self.events[position]

    def left(self) -> Members:
        """Return what nobody has read: attributes and events."""
        attributes = {name: value for name, value in self.attributes.items() if name not in self.read}
        events = [one.to_members() for at, one in enumerate(self.events) if at not in self.read_events]
        found = {"attributes": attributes, "events": events, **self.more}
        return {name: value for name, value in found.items() if value}

    def seconds_until(self, time: str) -> float | None:
        """Return the seconds from the start to another time; None where one of them is unknown."""
        begun, ended = parse_time(self.start), parse_time(time)
        if begun is None or ended is None:
            return None
        return max(0.0, (ended - begun) / timedelta(seconds=1))
