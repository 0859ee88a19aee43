"""Spans with a `context`, as console exporters of OpenTelemetry print them, and as Phoenix and MLflow list them."""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.spans.otlp import attributes_of, failed_by, identity
from trace_recorder.imports.foreign.spans.span import Span, SpanEvent, utc
from trace_recorder.values.messages import Payload

_READ = {
    *("context", "name", "parent_id", "start_time", "end_time", "status", "status_code", "status_message"),
    *("attributes", "events", "links", "resource", "span_kind", "kind", "instrumentation_scope"),
}


def has_context(value: Payload) -> bool:
    """Whether a value is a span with a context."""
    context = as_dict(as_dict(value).get("context"))
    return isinstance(context.get("trace_id"), str) and isinstance(context.get("span_id"), str)


def read_span(members: Members) -> Span:
    """Read one span. Its ids may be no hex, as those of fixtures are; then they are taken as they are."""
    context, status = as_dict(members.get("context")), as_dict(members.get("status"))
    scope = as_dict(members.get("instrumentation_scope"))
    code = as_text(status.get("status_code")) or as_text(members.get("status_code")) or ""
    remaining = {name: value for name, value in members.items() if name not in _READ and value}
    links = as_list(members.get("links"))
    return Span(
        _id(context.get("trace_id"), 16),
        _id(context.get("span_id"), 8),
        _id(members.get("parent_id"), 8) or None,
        as_text(members.get("name")) or "",
        utc(members.get("start_time")),
        utc(members.get("end_time")),
        failed_by(code.rpartition(".")[2]),
        as_text(status.get("description")) or as_text(members.get("status_message")) or None,
        attributes_of(members.get("attributes")),
        [_event(as_dict(event)) for event in as_list(members.get("events"))],
        f"{as_text(scope.get('name')) or ''} {as_text(scope.get('version')) or ''}".strip(),
        remaining | ({"links": links} if links else {}),
    )


def _id(value: Payload, size: int) -> str:
    """Return an id. One of zeros only is one here: lists of spans have null where there is none."""
    return identity(value, size) or as_text(value) or ""


def _event(members: Members) -> SpanEvent:
    time = next((members[name] for name in ("timestamp", "time_unix_nano", "time") if members.get(name)), None)
    return SpanEvent(as_text(members.get("name")) or "", utc(time), attributes_of(members.get("attributes")))
