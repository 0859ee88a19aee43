"""Spans as OTLP JSON: a line for each span, in the form that OpenTelemetry's collector writes to files and reads.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, enumerations are numbers, and
integers of 64 bits are texts. Each line is complete, with the resource and the scope of its span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.version import __version__
from trace_recorder.views.export_format import ExportFormat, sessions
from trace_recorder.views.otlp.span import Attributes, Kind, Span, SpanEvent, Value
from trace_recorder.views.otlp.span_maker import Conventions
from trace_recorder.views.otlp.spans import to_spans
from trace_recorder.views.view import LeftOut, view

SCOPE = "trace_recorder"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
KINDS: Mapping[Kind, int] = {"internal": 1, "client": 3}
_FAILED = 2


@view
def to_otlp(
    left_out: LeftOut,
    trajectory: Trajectory,
    conventions: Conventions = "genai",
    *,
    content: bool = True,
    new_messages: bool = False,
    service_name: str = "trace_recorder",
) -> Iterator[dict[str, Payload]]:
    """Yield a run as OTLP JSON, an object for each span. The arguments are those of `to_spans`."""
    spans, report = to_spans.with_report(trajectory, conventions, content=content, new_messages=new_messages)
    resource = {"attributes": [_key_value("service.name", service_name)]}
    scope = {"name": SCOPE, "version": __version__}
    for span in spans:
        yield {
            "resourceSpans": [
                {
                    "resource": resource,
                    "scopeSpans": [{"scope": scope, "spans": [_span(span)], "schemaUrl": SCHEMA_URL}],
                    "schemaUrl": SCHEMA_URL,
                }
            ]
        }
    left_out.update(report)


def _span(span: Span) -> dict[str, Payload]:
    status = {} if span.error is None else {"code": _FAILED} | ({"message": span.error} if span.error else {})
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
        **({"events": [*map(_event, span.events)]} if span.events else {}),
        "status": status,
        "flags": 1,
    }


def _event(event: SpanEvent) -> dict[str, Payload]:
    return {"timeUnixNano": str(event.time), "name": event.name, "attributes": _attributes(event.attributes)}


def _attributes(attributes: Attributes) -> list[Payload]:
    return [_key_value(name, value) for name, value in attributes.items()]


def _key_value(name: str, value: Value) -> dict[str, Payload]:
    return {"key": name, "value": _value(value)}


def _value(value: Value) -> dict[str, Payload]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [*map(_value, value)]}}
    return {"stringValue": value}


FORMAT = ExportFormat(
    name="otlp",
    kind="sessions",
    view=to_otlp,
    pieces=lambda spans, place: sessions([spans], place),
    forms={name: {"conventions": name} for name in ("genai", "genai-0.1", "openinference", "both")},
    options=frozenset({"content", "new_messages"}),
)
