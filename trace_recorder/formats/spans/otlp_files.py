"""OpenTelemetry's traces: OTLP as JSON, and spans that the console exporters of its SDKs print. Each trace is a run.

OTLP's log records that belong to spans are read, too. The log records are in the same file, or in the file beside it,
because exporters write `traces.json` and `logs.json`. `reading/vocabularies/` reads the attributes of the spans.

Console exporters print one JSON object after another, each on one line or on several lines. Monocle writes an array of
such objects. Source: `opentelemetry.sdk.trace.ReadableSpan.to_json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import ForeignRun, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, line_values, open_file
from trace_recorder.formats.spans.reading.span import ForeignSpan
from trace_recorder.formats.spans.reading.span_files import Telemetry, has_context, is_otlp, read_context_span
from trace_recorder.formats.spans.reading.trace import run_of, traces
from trace_recorder.values.json_text import NotJsonError, check_depth
from trace_recorder.values.messages import Payload

_PAIRS = (("traces", "logs"), ("logs", "traces"), ("spans", "logs"), ("logs", "spans"))


def recognizes(source: Source) -> bool:
    """Return whether one of the first lines, or the document, is OTLP."""
    return any(is_otlp(line.value) for line in source.first_lines) or is_otlp(source.document)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each trace."""
    telemetry = Telemetry()
    missing = [*_add(telemetry, source)]
    for neighbour in _neighbours(source):
        missing += _add(telemetry, neighbour)
        source.read_too.add(neighbour.path)
    spans = telemetry.joined()
    if not spans:
        raise TrajectoryFormatError(f"{source.path} has no span.")
    other_logs = [
        TimedFact.unread(what="log record", value=log.to_members(), time=log.time) for log in telemetry.other_logs
    ]
    for trace in traces(spans):
        run = run_of(trace)
        if resource := telemetry.resources.get(run.identity):
            run.source["resource"] = resource
        run.events += chain(other_logs, missing)
        missing, other_logs = [], []
        yield run


def _add(telemetry: Telemetry, source: Source) -> Iterator[TimedFact]:
    """Add the lines of a file, or its document. Yield gaps for parts that cannot be read."""
    if not any(is_otlp(line.value) for line in source.first_lines) and source.document is not None:
        telemetry.add(source.document)
        return
    for line in source.lines():
        if line.why is None and is_otlp(line.value):
            telemetry.add(line.value)
        else:
            yield TimedFact.gap(what=f"line {line.number} of {source.path.name}", why=line.why or "it is not OTLP")


def _neighbours(source: Source) -> Iterator[Source]:
    """Yield the file of logs beside a file of traces, or the file of traces beside a file of logs, if it exists."""
    stem, suffix = source.path.name, ""
    while "." in stem and stem.rpartition(".")[2] in {"json", "jsonl", "ndjson"}:
        stem, dot, last = stem.rpartition(".")
        suffix = f"{dot}{last}{suffix}"
    for own_name, other_name in _PAIRS:
        path = Path(source.path.with_name(f"{stem.removesuffix(own_name)}{other_name}{suffix}"))
        if stem.endswith(own_name) and path.is_file() and recognizes(neighbour := source.neighbour(path)):
            yield neighbour
            return


_MAX_DEPTH = 200
_OPENINGS = (b"{", b"[")
_SEPARATORS = " \t\r\n[,]"
"""The characters that may be between the objects of a file. The objects may be elements of an array."""


def recognizes_console(source: Source) -> bool:
    """Return whether one of the first lines, or the first object of the file, is a span that an SDK printed."""
    if any(_is_span(line.value) for line in source.first_lines):
        return True
    begins = source.head.lstrip().startswith(_OPENINGS) and b'"context"' in source.head
    return begins and _is_span(next(_objects(source), None))


def _is_span(value: Payload) -> bool:
    return (
        has_context(value) and str(value.get("kind")).startswith("SpanKind.") and isinstance(value.get("status"), dict)
    )


def read_console(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each trace."""
    spans: list[ForeignSpan] = []
    missing: list[TimedFact] = []
    resources: dict[str, Payload] = {}
    for value in _values(source, missing):
        if _is_span(value):
            spans.append(read_context_span(value))
            resources.setdefault(spans[-1].trace_id, value.get("resource"))
    for trace in traces(spans):
        run = run_of(trace)
        if isinstance(resource := resources.get(run.identity), dict):
            run.source["resource"] = resource.get("attributes", resource)
        run.events += missing
        missing = []
        yield run


def _values(source: Source, missing: list[TimedFact]) -> Iterator[Payload]:
    """Yield the objects of a file. Append gaps to `missing` for parts that cannot be read."""
    is_array = source.head.lstrip().startswith(b"[")
    if is_array or not any(_is_span(line.value) for line in source.first_lines):
        yield from _objects(source, missing)
    else:
        yield from line_values(source.lines(), missing.append)


def _objects(source: Source, missing: list[TimedFact] | None = None) -> Iterator[Payload]:
    """Yield the JSON objects that follow one another in a file. Stop at the first text that is not JSON."""
    decoder = json.JSONDecoder()
    with open_file(source.path) as file:
        text = file.read(source.max_document_bytes).decode(errors="replace")
    position, values_left = 0, source.max_values
    while (position := _skip_separators(text, position)) < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
            check_depth(text, _MAX_DEPTH, position, end)
        except (NotJsonError, ValueError, RecursionError) as error:
            if missing is not None:
                missing.append(
                    TimedFact.gap(what=f"the text after character {position}", why=f"it is not JSON ({error})")
                )
            return
        values_left -= 1 + text.count(",", position, end)
        if values_left < 0 and missing is not None:
            missing.append(
                TimedFact.gap(
                    what=f"the text after character {position}",
                    why=f"the file has more than {source.max_values} values",
                )
            )
        if values_left < 0:
            return
        position = end
        yield value


def _skip_separators(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SEPARATORS:
        position += 1
    return position
