"""Reads spans from files: OTLP as JSON, spans with a `context`, and lists of traces.

OTLP has `resourceSpans`, and `resourceLogs` whose records belong to spans, in a document or in each line. Ids are hex
as in OTLP, or base64 as in protobuf's own JSON. Enums are numbers or names. Names of members may be in snake_case.
Parts of a file in any other form are ignored. Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
and `opentelemetry/proto/trace/v1`.

Console exporters print spans with a `context`, and Phoenix and MLflow list such spans. A file of MLflow or Langfuse has
one trace, a list of traces, or a trace in each line.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.spans.reading.span import ForeignSpan, ForeignSpanEvent, utc_time
from trace_recorder.values.messages import Payload, without_none

_FAILED = {2, "2", "STATUS_CODE_ERROR", "ERROR"}
_SUCCEEDED = {1, "1", "STATUS_CODE_OK", "OK"}
_HEX = set("0123456789abcdef")
_MAX_DEPTH = 50
_NUMBERS = {"intValue": int, "int_value": int, "doubleValue": float, "double_value": float}


@dataclass(slots=True)
class Telemetry:
    """The content of OTLP files: spans, the log records of each span, other log records, and resources of traces."""

    spans: list[ForeignSpan] = field(default_factory=list)
    logs: dict[tuple[str, str], list[ForeignSpanEvent]] = field(default_factory=dict)
    other_logs: list[ForeignSpanEvent] = field(default_factory=list)
    resources: dict[str, Members] = field(default_factory=dict)

    def add(self, value: Payload) -> None:
        """Add the spans and log records of one OTLP request. Other members of the request are ignored."""
        members = as_dict(value)
        for of_resource in _listed(members, "resourceSpans", "resource_spans"):
            resource = attributes_of(as_dict(of_resource.get("resource")).get("attributes"))
            scopes = _listed(of_resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
            for of_scope in scopes:
                for members_of_span in _listed(of_scope, "spans"):
                    span = _span(members_of_span, _scope_name(of_scope))
                    if span is not None:
                        self.spans.append(span)
                        self.resources.setdefault(span.trace_id, resource)
        for of_resource in _listed(members, "resourceLogs", "resource_logs"):
            for of_scope in _listed(of_resource, "scopeLogs", "scope_logs"):
                for record in _listed(of_scope, "logRecords", "log_records"):
                    self._add_log(record)

    def _add_log(self, members: Members) -> None:
        event = _log(members)
        trace_id = identity(_first(members, "traceId", "trace_id"), 16)
        span_id = identity(_first(members, "spanId", "span_id"), 8)
        if trace_id and span_id:
            self.logs.setdefault((trace_id, span_id), []).append(event)
        else:
            self.other_logs.append(event)

    def joined(self) -> list[ForeignSpan]:
        """Return the spans with their log records.

        If the files lack the span of some log records, also return a span that has only these records.
        """
        known = {(span.trace_id, span.span_id) for span in self.spans}
        missing_spans = [_span_of_logs(key, events) for key, events in self.logs.items() if key not in known]
        for span in self.spans:
            events = [*span.events, *self.logs.get((span.trace_id, span.span_id), [])]
            _lift_details(span, events)
        return [*self.spans, *missing_spans]


def _span_of_logs(key: tuple[str, str], events: list[ForeignSpanEvent]) -> ForeignSpan:
    span = ForeignSpan(*key)
    _lift_details(span, events)
    span.start = min((event.time for event in events if event.time), default="")
    return span


def _lift_details(span: ForeignSpan, events: Iterable[ForeignSpanEvent]) -> None:
    """Set the events of a span.

    If the event is `gen_ai.client.inference.operation.details`, its attributes are added to the span's, and the event
    is dropped. If both have an attribute, the value of the span stays.
    """
    span.events = []
    for event in events:
        if event.name == "gen_ai.client.inference.operation.details":
            span.attributes = {**event.attributes, **span.attributes}
        else:
            span.events.append(event)


def is_otlp(value: Payload) -> bool:
    """Return whether a value is an OTLP request with spans or logs."""
    names = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
    return isinstance(value, dict) and any(isinstance(value.get(name), list) for name in names)


def _listed(members: Members, *names: str) -> Iterator[Members]:
    """Yield the objects in the first of the members `names` that is a list."""
    elements: list[Payload] = next((members[name] for name in names if isinstance(members.get(name), list)), [])
    return (element for element in elements if isinstance(element, dict))


def _scope_name(of_scope: Members) -> str:
    scope = as_dict(of_scope.get("scope") or of_scope.get("instrumentationLibrary"))
    name, version = as_text(scope.get("name")) or "", as_text(scope.get("version")) or ""
    return f"{name} {version}".strip()


def _span(members: Members, scope: str) -> ForeignSpan | None:
    trace_id = identity(_first(members, "traceId", "trace_id"), 16)
    span_id = identity(_first(members, "spanId", "span_id"), 8)
    if not trace_id or not span_id:
        return None
    status = as_dict(members.get("status"))
    return ForeignSpan(
        trace_id,
        span_id,
        identity(_first(members, "parentSpanId", "parent_span_id"), 8) or None,
        as_text(members.get("name")) or "",
        utc_time(_first(members, "startTimeUnixNano", "start_time_unix_nano")),
        utc_time(_first(members, "endTimeUnixNano", "end_time_unix_nano")),
        failed_by(status.get("code")),
        as_text(status.get("message")) or None,
        attributes_of(members.get("attributes")),
        [_event(event) for event in _listed(members, "events")],
        scope,
        without_none(links=as_list(members.get("links")) or None),
    )


def failed_by(code: Payload) -> bool | None:
    """Return whether a status code says that a span failed, or None if the code is unset or unknown."""
    if not isinstance(code, int | str):
        return None
    if code in _FAILED:
        return True
    if code in _SUCCEEDED:
        return False
    return None


def _event(members: Members) -> ForeignSpanEvent:
    time = utc_time(_first(members, "timeUnixNano", "time_unix_nano"))
    return ForeignSpanEvent(as_text(members.get("name")) or "", time, attributes_of(members.get("attributes")))


def _log(members: Members) -> ForeignSpanEvent:
    attributes = attributes_of(members.get("attributes"))
    name = as_text(_first(members, "eventName", "event_name")) or as_text(attributes.get("event.name")) or "log"
    time = _first(members, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano")
    return ForeignSpanEvent(name, utc_time(time), attributes, any_value(members.get("body")))


def _first(members: Members, *names: str) -> Payload:
    return next((members[name] for name in names if members.get(name) not in (None, "", "0", 0)), None)


def identity(value: Payload, size: int) -> str:
    """Return an id of `size` bytes in hex, from hex or base64.

    Return any other text unchanged. Return "" for an id of zeros, and for a value that is not a text.
    """
    text = (as_text(value) or "").removeprefix("0x")
    if len(text) == 2 * size and _HEX.issuperset(text.lower()):
        if not text.strip("0"):
            return ""
        return text.lower()
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    if len(data) != size:
        return text
    return data.hex()


def attributes_of(listed: Payload) -> Members:
    """Return attributes as an object, from OTLP's list of keys and values or from an object."""
    if isinstance(listed, dict):
        return listed
    pairs = map(as_dict, as_list(listed))
    return {pair["key"]: any_value(pair.get("value")) for pair in pairs if isinstance(pair.get("key"), str)}


def any_value(value: Payload, depth: int = 0) -> Payload:
    """Return the value in an `AnyValue`. OTLP writes integers as texts; they become numbers."""
    if not isinstance(value, dict) or len(value) != 1 or depth > _MAX_DEPTH:
        return value
    ((kind, inner),) = value.items()
    if kind in _NUMBERS:
        return _number(inner, _NUMBERS[kind])
    if kind in {"arrayValue", "array_value"}:
        return [any_value(element, depth + 1) for element in as_list(as_dict(inner).get("values"))]
    if kind in {"kvlistValue", "kvlist_value"}:
        pairs = map(as_dict, as_list(as_dict(inner).get("values")))
        return {str(pair.get("key")): any_value(pair.get("value"), depth + 1) for pair in pairs}
    if kind.endswith(("Value", "_value")):
        return inner
    return value


def _number(value: Payload, convert: type[int | float]) -> Payload:
    """Convert a number, which may be a text. Return any other text unchanged, and None for any other value."""
    if not isinstance(value, str):
        return as_number(value)
    try:
        return convert(value)
    except ValueError:
        return value


_READ = {
    *("context", "name", "parent_id", "start_time", "end_time", "status", "status_code", "status_message"),
    *("attributes", "events", "links", "resource", "span_kind", "kind", "instrumentation_scope"),
}


def has_context(value: Payload) -> bool:
    """Return whether a value is a span with a context."""
    context = as_dict(as_dict(value).get("context"))
    return isinstance(context.get("trace_id"), str) and isinstance(context.get("span_id"), str)


def read_context_span(members: Members) -> ForeignSpan:
    """Read a span with a `context`. An id that is not hex, such as in test data, stays unchanged."""
    context, status = as_dict(members.get("context")), as_dict(members.get("status"))
    scope = as_dict(members.get("instrumentation_scope"))
    code = as_text(status.get("status_code")) or as_text(members.get("status_code")) or ""
    remaining = {name: value for name, value in members.items() if name not in _READ and value}
    if as_list(members.get("links")):
        remaining["links"] = members["links"]
    return ForeignSpan(
        _id(context.get("trace_id"), 16),
        _id(context.get("span_id"), 8),
        _id(members.get("parent_id"), 8) or None,
        as_text(members.get("name")) or "",
        utc_time(members.get("start_time")),
        utc_time(members.get("end_time")),
        failed_by(code.rpartition(".")[2]),
        as_text(status.get("description")) or as_text(members.get("status_message")) or None,
        attributes_of(members.get("attributes")),
        [_context_event(as_dict(event)) for event in as_list(members.get("events"))],
        f"{as_text(scope.get('name')) or ''} {as_text(scope.get('version')) or ''}".strip(),
        remaining,
    )


def _id(value: Payload, size: int) -> str:
    """Return an id in hex. An id of zeros is returned, too, because lists of spans write null for a missing id."""
    return identity(value, size) or as_text(value) or ""


def _context_event(members: Members) -> ForeignSpanEvent:
    time = next((members[name] for name in ("timestamp", "time_unix_nano", "time") if members.get(name)), None)
    return ForeignSpanEvent(
        as_text(members.get("name")) or "", utc_time(time), attributes_of(members.get("attributes"))
    )


def has_trace(source: Source, is_trace: Callable[[Payload], bool]) -> bool:
    """Return whether the document, its first element, or one of the first lines is a trace."""
    first = source.document
    if isinstance(first, list) and first:
        first = first[0]
    return is_trace(first) or any(is_trace(line.value) for line in source.first_lines)


def read_traces(
    source: Source, is_trace: Callable[[Payload], bool], run_of: Callable[[Members], ForeignRun]
) -> Iterator[ForeignRun]:
    """Yield the run of each trace.

    A part of the file that is not a readable trace becomes a gap of the next run, or of the last run if no run follows.
    Raises TrajectoryFormatError if no trace can be read.
    """
    missing: list[TimedFact] = []
    first_reason = ""
    last: ForeignRun | None = None
    for part in _parts(source):
        run = part.why or _read(part.value, is_trace, run_of)
        if isinstance(run, str):
            missing.append(TimedFact.gap(what=part.name, why=run))
            first_reason = first_reason or run
            continue
        if last is not None:
            yield last
        last, run.events, missing = run, [*run.events, *missing], []
    if last is None:
        raise TrajectoryFormatError(f"{source.path} has no trace that can be read: {first_reason}")
    last.events += missing
    yield last


def _read(
    value: Payload, is_trace: Callable[[Payload], bool], run_of: Callable[[Members], ForeignRun]
) -> ForeignRun | str:
    """Return the run of a trace, or the reason why there is no run."""
    if not is_trace(value):
        return "it is not a trace"
    try:
        return run_of(value)
    except TrajectoryFormatError as error:
        return str(error)


class _FilePart(NamedTuple):
    """A part of a file: its name, and its value or the reason why it has no value."""

    name: str
    value: Payload
    why: str | None = None


def _parts(source: Source) -> Iterator[_FilePart]:
    """Yield the elements of the document, or the lines of the file."""
    document = source.document
    if document is None:
        yield from (_FilePart(f"line {line.number}", line.value, line.why) for line in source.each_line())
        return
    if not isinstance(document, list):
        document = [document]
    yield from (_FilePart(f"element {number}", value) for number, value in enumerate(document, start=1))
