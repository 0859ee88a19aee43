"""Langfuse's traces as its web interface exports them: `{"trace", "observations"}`, or a trace with its observations.

Source: https://api.reference.langfuse.com (traces, observations, scores). `input`, `output` and `metadata` are JSON
values or JSON texts. If an instrumentation made the trace, `metadata.attributes` has the attributes that the
instrumentation wrote. These attributes are read, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.spans.attribute_names import langfuse
from trace_recorder.formats.spans.reading.span import ForeignSpan, is_own, parsed, utc_time
from trace_recorder.formats.spans.reading.span_files import has_trace, read_traces
from trace_recorder.formats.spans.reading.trace import run_of, task_of, traces
from trace_recorder.values.messages import Payload, without_none

_MEMBERS = {
    "type": langfuse.TYPE,
    "input": langfuse.INPUT,
    "output": langfuse.OUTPUT,
    "model": langfuse.MODEL,
    "modelParameters": langfuse.PARAMETERS,
    "usageDetails": langfuse.USAGE,
    "completionStartTime": langfuse.FIRST_TOKEN_TIME,
    "level": f"{langfuse.PREFIX}level",
    "statusMessage": f"{langfuse.PREFIX}status_message",
}
"""The members of an observation, each with the attribute that has the same meaning."""
_OF_TRACE = ("name", "userId", "sessionId", "tags", "environment", "release", "version", "public", "bookmarked")
_NO_SCORE = ("CATEGORICAL", "TEXT")
_READ_METADATA = {"attributes", "resourceAttributes", "scope"}


def recognizes(source: Source) -> bool:
    """Return whether the document, its first element or one of the first lines is a trace."""
    return has_trace(source, _is_trace)


def _is_trace(value: Payload) -> bool:
    members = as_dict(value)
    listed = members.get("observations")
    trace = members.get("trace", members)
    if not isinstance(listed, list) or not isinstance(trace, dict) or not isinstance(trace.get("id"), str):
        return False
    return all(isinstance(as_dict(observation).get("traceId"), str) for observation in listed[:1])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each trace."""
    return read_traces(source, _is_trace, run_of_langfuse_trace)


def run_of_langfuse_trace(value: Members) -> ForeignRun:
    """Return the run of a trace. Raises TrajectoryFormatError if the trace has no readable observation."""
    trace = as_dict(value.get("trace", value))
    observations = [
        observation for observation in as_list(value["observations"]) if isinstance(as_dict(observation).get("id"), str)
    ]
    if not observations:
        raise TrajectoryFormatError(f"The trace {trace.get('id')} has no observation.")
    spans = [_span(observation) for observation in observations]
    for span in spans:
        span.trace_id = trace["id"]
    run = run_of(next(traces(spans)))
    trace_input, trace_output = _parsed_twice(trace.get("input")), _parsed_twice(trace.get("output"))
    if trace_input not in (None, ""):
        run.task = task_of(trace_input)
    if trace_output is not None:
        run.final_result = trace_output
    if not any(map(is_own, spans)):
        run.session = as_text(trace.get("sessionId")) or run.session
    run.metadata |= {name: trace[name] for name in _OF_TRACE if trace.get(name)}
    run.metadata |= without_none(metadata=_parsed_twice(trace.get("metadata")) or None)
    scores = as_list(trace.get("scores")) + as_list(trace.get("corrections"))
    run.events += [event for score in scores for event in _score(as_dict(score))]
    return run


def _span(observation: Members) -> ForeignSpan:
    metadata = as_dict(_parsed_twice(observation.get("metadata")))
    scope = as_dict(metadata.get("scope"))
    attributes = {**as_dict(metadata.get("attributes"))}
    attributes |= {name: observation[member] for member, name in _MEMBERS.items() if observation.get(member)}
    attributes[langfuse.INPUT] = _parsed_twice(observation.get("input"))
    attributes[langfuse.OUTPUT] = _parsed_twice(observation.get("output"))
    costs = as_dict(observation.get("costDetails")) or as_dict(observation.get("providedCostDetails"))
    if costs:
        attributes[langfuse.COST] = costs
    rest = {name: member for name, member in metadata.items() if name not in _READ_METADATA}
    end = observation.get("endTime")
    if observation.get("type") == "EVENT":
        end = observation.get("startTime")
    return ForeignSpan(
        "",
        observation["id"],
        as_text(observation.get("parentObservationId")) or None,
        as_text(observation.get("name")) or "",
        utc_time(observation.get("startTime")),
        utc_time(end),
        observation.get("level") == "ERROR",
        as_text(observation.get("statusMessage")) or None,
        attributes,
        scope=f"{as_text(scope.get('name')) or ''} {as_text(scope.get('version')) or ''}".strip(),
        more=without_none(metadata=rest or None),
    )


def _parsed_twice(value: Payload) -> Payload:
    """Parse a value that may be JSON text, or a JSON string that itself contains JSON text."""
    for _ in range(2):
        if isinstance(value, str) and value[:1] == '"' and value[-1:] == '"':
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return value
    return parsed(value)


def _score(score: Members) -> Iterator[TimedFact]:
    name, value = as_text(score.get("name")), score.get("value")
    if name is None:
        return
    if isinstance(value, bool):
        value = float(value)
    number, time = as_number(value), utc_time(score.get("timestamp"))
    if number is not None and score.get("dataType") not in _NO_SCORE:
        yield TimedFact.reward(name=name, value=number, explanation=as_text(score.get("comment")), time=time)
    else:
        yield TimedFact.annotation(key=name, value=score.get("stringValue") or value, time=time)
