"""MLflow's traces, as `Trace.to_json` writes them: `{"info", "data": {"spans"}}`.

A file is one trace, a list of traces, or has a trace in each line.

Source: https://mlflow.org/docs/latest/genai/concepts/trace/ and `mlflow.entities.trace`. The spans of MLflow 2 and of
MLflow 3 are read. Assessments of the trace become scores and annotations.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.spans.reading.span import ForeignSpan, parsed, utc_time
from trace_recorder.formats.spans.reading.span_files import (
    Telemetry,
    has_context,
    has_trace,
    read_context_span,
    read_traces,
)
from trace_recorder.formats.spans.reading.trace import run_of, traces
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import Status

_SESSION = "mlflow.trace.session"
"""The member of a trace's metadata by which MLflow groups traces."""
_STATES: dict[str, Status] = {"OK": "completed", "ERROR": "failed", "IN_PROGRESS": "unknown"}


def recognizes(source: Source) -> bool:
    """Return whether the document, its first element or one of the first lines is a trace."""
    return has_trace(source, _is_trace)


def _is_trace(value: Payload) -> bool:
    info, data = as_dict(as_dict(value).get("info")), as_dict(as_dict(value).get("data"))
    return isinstance(data.get("spans"), list) and not info.keys().isdisjoint({"trace_id", "request_id"})


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each trace."""
    return read_traces(source, _is_trace, run_of_mlflow_trace)


def run_of_mlflow_trace(value: Members) -> ForeignRun:
    """Return the run of a trace. Raises TrajectoryFormatError if none of its spans can be read."""
    info = as_dict(value["info"])
    spans = [*_spans(as_list(as_dict(value["data"])["spans"]))]
    if not spans:
        raise TrajectoryFormatError(f"The trace {info.get('trace_id')} has no span that can be read.")
    for span in spans:
        span.trace_id = spans[0].trace_id
    run = run_of(next(traces(spans)))
    run.identity = as_text(info.get("trace_id", info.get("request_id"))) or run.identity
    state = as_text(info.get("state")) or as_text(info.get("status"))
    run.status = _STATES.get(state or "", run.status)
    if run.status == "failed" and run.error is None:
        run.error = {"type": "error", "message": "the trace states that it failed"}
    metadata = _metadata(info)
    run.session = as_text(metadata.get(_SESSION)) or run.session
    run.metadata |= without_none(tags=info.get("tags") or None, trace_metadata=metadata or None)
    assessments = map(as_dict, as_list(info.get("assessments")))
    run.events += [event for assessment in assessments for event in _assessment(assessment)]
    return run


def _metadata(info: Members) -> Members:
    """Return the metadata of a trace without the members that repeat its spans."""
    metadata = as_dict(info.get("trace_metadata", info.get("request_metadata")))
    repeated = {"mlflow.traceInputs", "mlflow.traceOutputs", "mlflow.trace.tokenUsage"}
    return {name: parsed(value) for name, value in metadata.items() if name not in repeated and value != ""}


def _spans(listed: list[Payload]) -> Iterator[ForeignSpan]:
    telemetry = Telemetry()
    telemetry.add({"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]})
    yield from telemetry.joined()
    yield from (read_context_span(value) for value in listed if has_context(value))


def _assessment(members: Members) -> Iterator[TimedFact]:
    name = as_text(members.get("assessment_name", members.get("name")))
    value = as_dict(members.get("feedback")).get("value")
    if name is None:
        return
    if isinstance(value, bool):
        value = float(value)
    number = as_number(value)
    time = utc_time(members.get("create_time", members.get("create_time_ms")))
    if number is not None:
        yield TimedFact.reward(name=name, value=number, explanation=as_text(members.get("rationale")), time=time)
    else:
        yield TimedFact.annotation(key=name, value=members, time=time)
