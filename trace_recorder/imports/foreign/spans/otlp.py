"""OTLP as JSON, in one document or one a line: `resourceSpans`, and `resourceLogs` whose records belong to spans.

Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding and `opentelemetry/proto/trace/v1`. Ids are hex
as OTLP has them, or base64 as protobuf's own JSON has them; enums are numbers or names; names of members may be in
snake_case. A part of another form is passed over, and the others are read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.spans.span import Span, SpanEvent, utc
from trace_recorder.values.messages import Payload

_FAILED = {2, "2", "STATUS_CODE_ERROR", "ERROR"}
_SUCCEEDED = {1, "1", "STATUS_CODE_OK", "OK"}
_HEX = set("0123456789abcdef")
_MAX_DEPTH = 50
_NUMBERS = {"intValue": int, "int_value": int, "doubleValue": float, "double_value": float}


@dataclass(slots=True)
class Telemetry:
    """What files have: spans, the log records by the span that they belong to, those of no span, and resources."""

    spans: list[Span] = field(default_factory=list)
    logs: dict[tuple[str, str], list[SpanEvent]] = field(default_factory=dict)
    loose_logs: list[SpanEvent] = field(default_factory=list)
    resources: dict[str, Members] = field(default_factory=dict)

    def add(self, value: Payload) -> None:
        """Add the spans and log records of one OTLP request, or of one in an envelope."""
        members = as_dict(value)
        for of_resource in _listed(members, "resourceSpans", "resource_spans"):
            resource = attributes_of(as_dict(of_resource.get("resource")).get("attributes"))
            scopes = _listed(of_resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
            for of_scope in scopes:
                for span in _listed(of_scope, "spans"):
                    self._add_span(span, _scope_name(of_scope), resource)
        for of_resource in _listed(members, "resourceLogs", "resource_logs"):
            for of_scope in _listed(of_resource, "scopeLogs", "scope_logs"):
                for record in _listed(of_scope, "logRecords", "log_records"):
                    self._add_log(record)

    def _add_span(self, members: Members, scope: str, resource: Members) -> None:
        span = _span(members, scope)
        if span is not None:
            self.spans.append(span)
            self.resources.setdefault(span.trace_id, resource)

    def _add_log(self, members: Members) -> None:
        event, trace_id, span_id = _log(members)
        if trace_id and span_id:
            self.logs.setdefault((trace_id, span_id), []).append(event)
        else:
            self.loose_logs.append(event)

    def joined(self) -> list[Span]:
        """Return the spans with their log records. Records of a span that is in no file make one without times."""
        known = {(span.trace_id, span.span_id) for span in self.spans}
        lost = [_span_of_logs(key, events) for key, events in self.logs.items() if key not in known]
        for span in self.spans:
            events = [*span.events, *self.logs.get((span.trace_id, span.span_id), [])]
            _lift_details(span, events)
        return [*self.spans, *lost]


def _span_of_logs(key: tuple[str, str], events: list[SpanEvent]) -> Span:
    span = Span(*key)
    _lift_details(span, events)
    span.start = min((event.time for event in events if event.time), default="")
    return span


def _lift_details(span: Span, events: Iterable[SpanEvent]) -> None:
    """Set the events of a span; the attributes of an event that only carries them are those of the span."""
    span.events = []
    for event in events:
        if event.name == "gen_ai.client.inference.operation.details":
            span.attributes = {**event.attributes, **span.attributes}
        else:
            span.events.append(event)


def is_otlp(value: Payload) -> bool:
    """Whether a value is an OTLP request for spans or logs."""
    names = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
    return isinstance(value, dict) and any(isinstance(value.get(name), list) for name in names)


def _listed(members: Members, *names: str) -> Iterator[Members]:
    """Yield the objects of the first of these lists that is there."""
    found: list[Payload] = next((members[name] for name in names if isinstance(members.get(name), list)), [])
    return (element for element in found if isinstance(element, dict))


def _scope_name(of_scope: Members) -> str:
    scope = as_dict(of_scope.get("scope") or of_scope.get("instrumentationLibrary"))
    name, version = as_text(scope.get("name")) or "", as_text(scope.get("version")) or ""
    return f"{name} {version}".strip()


def _span(members: Members, scope: str) -> Span | None:
    found = _first(members, "spanId", "span_id")
    trace_id, span_id = identity(_first(members, "traceId", "trace_id"), 16), identity(found, 8)
    if not trace_id or not span_id:
        return None
    status = as_dict(members.get("status"))
    code = status.get("code")
    links = as_list(members.get("links"))
    return Span(
        trace_id,
        span_id,
        identity(_first(members, "parentSpanId", "parent_span_id"), 8) or None,
        as_text(members.get("name")) or "",
        utc(_first(members, "startTimeUnixNano", "start_time_unix_nano")),
        utc(_first(members, "endTimeUnixNano", "end_time_unix_nano")),
        failed_by(code),
        as_text(status.get("message")) or None,
        attributes_of(members.get("attributes")),
        [_event(event) for event in _listed(members, "events")],
        scope,
        {"links": links} if links else {},
    )


def failed_by(code: Payload) -> bool | None:
    """Return whether a status code says that a span failed; None if it is unset, or not hashable."""
    if not isinstance(code, int | str):
        return None
    return True if code in _FAILED else False if code in _SUCCEEDED else None


def _event(members: Members) -> SpanEvent:
    time = utc(_first(members, "timeUnixNano", "time_unix_nano"))
    return SpanEvent(as_text(members.get("name")) or "", time, attributes_of(members.get("attributes")))


def _log(members: Members) -> tuple[SpanEvent, str, str]:
    attributes = attributes_of(members.get("attributes"))
    name = as_text(_first(members, "eventName", "event_name")) or as_text(attributes.get("event.name")) or "log"
    time = _first(members, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano")
    event = SpanEvent(name, utc(time), attributes, any_value(members.get("body")))
    trace_id = identity(_first(members, "traceId", "trace_id"), 16)
    return event, trace_id, identity(_first(members, "spanId", "span_id"), 8)


def _first(members: Members, *names: str) -> Payload:
    return next((members[name] for name in names if members.get(name) not in (None, "", "0", 0)), None)


def identity(value: Payload, size: int) -> str:
    """Return an id of `size` bytes in hex, whether it is hex or base64; any other text as it is, "" if it is none."""
    text = (as_text(value) or "").removeprefix("0x")
    if len(text) == 2 * size and _HEX.issuperset(text.lower()):
        return text.lower() if text.strip("0") else ""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    return data.hex() if len(data) == size else text


def attributes_of(listed: Payload) -> Members:
    """Return attributes as an object, whether they are OTLP's list of keys and values, or an object already."""
    if isinstance(listed, dict):
        return listed
    pairs = [as_dict(one) for one in as_list(listed)]
    return {one["key"]: any_value(one.get("value")) for one in pairs if isinstance(one.get("key"), str)}


def any_value(value: Payload, depth: int = 0) -> Payload:
    """Return what an `AnyValue` holds. Integers are texts in OTLP, and numbers here."""
    if not isinstance(value, dict) or len(value) != 1 or depth > _MAX_DEPTH:
        return value
    ((kind, held),) = value.items()
    if kind in _NUMBERS:
        return _number(held, _NUMBERS[kind])
    if kind in {"arrayValue", "array_value"}:
        return [any_value(one, depth + 1) for one in as_list(as_dict(held).get("values"))]
    if kind in {"kvlistValue", "kvlist_value"}:
        pairs = [as_dict(one) for one in as_list(as_dict(held).get("values"))]
        return {str(one.get("key")): any_value(one.get("value"), depth + 1) for one in pairs}
    return held if kind.endswith(("Value", "_value")) else value


def _number(held: Payload, convert: type[int | float]) -> Payload:
    """Return a number that may be a text; what is none stays as it is."""
    if not isinstance(held, str):
        return held if as_number(held) is not None else None
    try:
        return convert(held)
    except ValueError:
        return held
