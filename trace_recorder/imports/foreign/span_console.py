"""Spans as the console exporters of OpenTelemetry's SDKs print them: JSON objects, one a line or one after another.

Files of such spans may also be an array of them, as Monocle's are.

Source: `opentelemetry.sdk.trace.ReadableSpan.to_json`, and `ConsoleSpanExporter`, whose objects take several lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun, Missing
from trace_recorder.imports.foreign.source import Source
from trace_recorder.imports.foreign.spans.context_spans import has_context, read_span
from trace_recorder.imports.foreign.spans.span import Span
from trace_recorder.imports.foreign.spans.trace import run_of, traces
from trace_recorder.values.json_text import NotJsonError, check_depth
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_MAX_DEPTH = 200
_OPENINGS = (b"{", b"[")
_BETWEEN = " \t\r\n[,]"
"""The characters between the objects of a file, which may be an array."""


def recognizes(source: Source) -> bool:
    """Whether the file begins with a span that says its kind as the SDK does."""
    if any(_is_span(line.value) for line in source.first_lines):
        return True
    begins = source.head.lstrip().startswith(_OPENINGS) and b'"context"' in source.head
    return begins and _is_span(next(_objects(source), None))


def _is_span(value: Payload) -> bool:
    return (
        has_context(value) and str(value.get("kind")).startswith("SpanKind.") and isinstance(value.get("status"), dict)
    )


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each trace."""
    spans: list[Span] = []
    missing: list[Missing] = []
    resources: dict[str, Payload] = {}
    for value in _values(source, missing):
        if _is_span(value):
            spans.append(read_span(value))
            resources.setdefault(spans[-1].trace_id, value.get("resource"))
    for trace in traces(spans):
        run = run_of(trace)
        if isinstance(resource := resources.get(run.identity), dict):
            run.source["resource"] = resource.get("attributes", resource)
        run.events += missing
        missing = []
        yield run


def _values(source: Source, missing: list[Missing]) -> Iterator[Payload]:
    """Yield the objects of a file; what is none is added to `missing`."""
    is_array = source.head.lstrip().startswith(b"[")
    if is_array or not any(_is_span(line.value) for line in source.first_lines):
        yield from _objects(source, missing)
        return
    for line in source.lines():
        if line.why is None:
            yield line.value
        else:
            missing.append(Missing(what=f"line {line.number}", why=line.why))


def _objects(source: Source, missing: list[Missing] | None = None) -> Iterator[Payload]:
    """Yield the objects that follow one another in a file, up to the first that is none."""
    decoder = json.JSONDecoder()
    with source.path.open("rb") as file:
        text = file.read(source.max_document_bytes).decode("utf-8-sig", "replace")
    at, left = 0, source.max_values
    while (at := _next(text, at)) < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
            check_depth(text, _MAX_DEPTH, at, end)
        except (NotJsonError, ValueError, RecursionError) as error:
            if missing is not None:
                missing.append(Missing(what=f"what follows character {at}", why=f"it is not JSON ({error})"))
            return
        left -= 1 + text.count(",", at, end)
        if left < 0 and missing is not None:
            missing.append(
                Missing(what=f"what follows character {at}", why=f"the file has more than {source.max_values} values")
            )
        if left < 0:
            return
        at = end
        yield value


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BETWEEN:
        at += 1
    return at


FORMAT = ImportFormat(name="otel-console", recognizes=recognizes, read=read, counting=WHOLE)
