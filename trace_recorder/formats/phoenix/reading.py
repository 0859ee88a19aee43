"""Phoenix's spans, as its client and its REST API list them: `{"context", "parent_id", "span_kind", …}`.

Source: https://arize.com/docs/phoenix (`Client.spans.get_spans`, `GET /v1/projects/{id}/spans`). A file has a list of
spans, an object with such a list, or a span in each line. The attributes are OpenInference's, with dotted names or as
nested objects. Annotations with a score become scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, line_values
from trace_recorder.formats.spans.attribute_names import openinference
from trace_recorder.formats.spans.reading.span import ForeignSpan, utc_time
from trace_recorder.formats.spans.reading.span_files import has_context, read_context_span
from trace_recorder.formats.spans.reading.trace import run_of, traces
from trace_recorder.values.messages import Payload

_MAX_DEPTH = 24


def recognizes(source: Source) -> bool:
    """Return whether one of the first lines, or the first element of a list in the document, is a span of Phoenix."""
    return any(_is_span(line.value) for line in source.first_lines) or any(
        _is_span(listed[0]) for listed in _lists(source.document)
    )


def _is_span(value: Payload) -> bool:
    return has_context(value) and "span_kind" in value and "status_code" in value


def _lists(document: Payload) -> list[list[Payload]]:
    """Return the lists of spans in a document."""
    if document == []:
        return []
    if isinstance(document, list):
        return [document]
    return [value for value in as_dict(document).values() if isinstance(value, list) and value and _is_span(value[0])]


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each trace."""
    missing: list[TimedFact] = []
    lists = _lists(source.document)
    values: Iterator[Payload] = chain.from_iterable(lists)
    if not lists:
        values = line_values(source.lines(), missing.append)
    for run in runs_of_spans(values):
        run.events += missing
        missing = []
        yield run


def runs_of_spans(values: Iterator[Payload]) -> Iterator[ForeignRun]:
    """Yield a run for each trace in a list of Phoenix's spans."""
    listed = [value for value in values if _is_span(value)]
    annotations: dict[str, list[Members]] = {}
    for value in listed:
        of_span = as_list(value.get("annotations")) or as_list(value.get("span_annotations"))
        annotations.setdefault(as_dict(value["context"])["trace_id"], []).extend(map(as_dict, of_span))
    for trace in traces(map(_span, listed)):
        run = run_of(trace)
        run.events += chain.from_iterable(map(_annotation, annotations.get(run.identity, ())))
        yield run


def _span(value: Members) -> ForeignSpan:
    rest = {name: member for name, member in value.items() if name not in {"id", "annotations", "span_annotations"}}
    span = read_context_span(rest)
    attributes: Members = {}
    if isinstance(value["span_kind"], str):
        attributes[openinference.KIND] = value["span_kind"]
    span.attributes = attributes | dict(_flat(span.attributes))
    return span


def _flat(attributes: Mapping[str, Payload], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Payload]]:
    """Yield nested attributes under dotted names. Elements of lists have numbers as names, as in OpenInference."""
    for name, value in attributes.items():
        whole = f"{prefix}{name}"
        if isinstance(value, dict) and value and depth < _MAX_DEPTH:
            yield from _flat(value, f"{whole}.", depth + 1)
        elif isinstance(value, list) and value and isinstance(value[0], dict) and depth < _MAX_DEPTH:
            yield from _flat({str(index): element for index, element in enumerate(value)}, f"{whole}.", depth + 1)
        else:
            yield whole, value


def _annotation(annotation: Members) -> Iterator[TimedFact]:
    result = as_dict(annotation.get("result"))
    name, score = as_text(annotation.get("name")), as_number(result.get("score"))
    if name is None:
        return
    time = utc_time(annotation.get("created_at"))
    if score is not None:
        yield TimedFact.reward(name=name, value=score, explanation=as_text(result.get("explanation")), time=time)
    if score is None or result.get("label") is not None:
        yield TimedFact.annotation(key=name, value=annotation, time=time)
