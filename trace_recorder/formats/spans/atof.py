"""NeMo Relay's ATOF 0.1: each line is an event. Events of kind `scope` begin and end agents, calls and tools.

Source: nemo-relay 0.10 (`AtofExporter`). The `start` event of a scope has the scope's input, and its `end` event has
the output, both in the provider's own form. Each scope becomes a span. `read_atof` (`reading/vocabularies/services.py`)
reads the attributes of these spans. A `mark` becomes an event of the span around it. `propagation_root_uuid` is the id
of the trace.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.spans.reading.span import ForeignSpan, ForeignSpanEvent, utc_time
from trace_recorder.formats.spans.reading.trace import run_of, traces
from trace_recorder.values.messages import without_none


def recognizes(source: Source) -> bool:
    """Return whether the first line is an event of ATOF."""
    if not source.first_lines:
        return False
    return {"atof_version", "uuid"} <= as_dict(source.first_lines[0].value).keys()


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each trace."""
    spans: dict[str, ForeignSpan] = {}
    missing: list[TimedFact] = []
    marks: list[Members] = []
    for line in source.lines():
        event = as_dict(line.value)
        if line.why is not None or as_text(event.get("uuid")) is None:
            missing.append(TimedFact.gap(what=f"line {line.number}", why=line.why or "it has no uuid"))
        elif event.get("kind") == "scope":
            _add(spans, event)
        else:
            marks.append(event)
    missing += filter(None, [_add_mark(spans, mark) for mark in marks])
    for trace in traces(spans.values()):
        run = run_of(trace)
        run.events += missing
        missing = []
        yield run


def _add(spans: dict[str, ForeignSpan], event: Members) -> None:
    """Add the start or the end of a scope.

    If the start and the end both have a profile, members of the end's profile replace members of the start's profile.
    """
    identity, category = as_text(event["uuid"]) or "", as_text(event.get("category")) or "unknown"
    span = spans.get(identity)
    if span is None:
        trace = as_text(event.get("propagation_root_uuid")) or identity
        parent = as_text(event.get("parent_uuid"))
        span = spans[identity] = ForeignSpan(trace, identity, parent, as_text(event.get("name")) or "")
        if identity == trace:  # the parent that a root states is the stack of scopes, which is not a scope
            span.parent_id = None
    profile = as_dict(span.attributes.get("atof.category_profile")) | as_dict(event.get("category_profile"))
    span.attributes |= {"atof.category": category, "atof.category_profile": profile}
    metadata = as_dict(event.get("metadata"))
    side, data = "start", "atof.input"
    if event.get("scope_category") == "end":
        side, data = "end", "atof.output"
        span.end = utc_time(event.get("timestamp"))
        span.failed = _FAILED.get(as_text(metadata.get("otel.status_code")) or "")
        span.status_message = as_text(metadata.get("otel.status_description"))
        if kind := as_text(metadata.get("exception.type")) or as_text(metadata.get("error.type")):
            span.attributes["error.type"] = kind
    else:
        span.start = utc_time(event.get("timestamp"))
    span.attributes |= without_none(**{data: event.get("data")})
    rest = {name: value for name, value in metadata.items() if name not in _STATUS}
    if rest or as_list(event.get("attributes")):
        span.more[side] = {"metadata": rest, "attributes": event.get("attributes")}


_FAILED = {"OK": False, "ERROR": True}
_STATUS = ("otel.status_code", "otel.status_description", "exception.type", "error.type")


def _add_mark(spans: dict[str, ForeignSpan], mark: Members) -> TimedFact | None:
    """Add a mark to the scope around it, and return None. Return a mark outside of all scopes as a fact."""
    time, name = utc_time(mark.get("timestamp")), as_text(mark.get("name")) or "mark"
    span = spans.get(as_text(mark.get("parent_uuid")) or "")
    if span is None:
        return TimedFact.unread(what="mark", value=mark, time=time)
    more = {key: value for key in ("data", "metadata") if (value := mark.get(key)) is not None}
    span.events.append(ForeignSpanEvent(name, time, more))
    return None
