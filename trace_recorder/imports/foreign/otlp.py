"""OpenTelemetry's traces as OTLP JSON, in one document or as lines. One trace is one run.

Log records that belong to spans are read too, from the same file or from the one next to it: exporters write
`traces.json` and `logs.json`. Which vocabulary the spans are in is found span by span (`spans/vocabularies/`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun, Kept, Missing
from trace_recorder.imports.foreign.source import Source
from trace_recorder.imports.foreign.spans.otlp import Telemetry, is_otlp
from trace_recorder.imports.foreign.spans.trace import run_of, traces
from trace_recorder.values.token_counts import WHOLE

_PAIRS = (("traces", "logs"), ("logs", "traces"), ("spans", "logs"), ("logs", "spans"))


def recognizes(source: Source) -> bool:
    """Whether the first lines, or the document, are OTLP."""
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
    loose = [Kept(what="log record", value=one.to_members(), time=one.time) for one in telemetry.loose_logs]
    for trace in traces(spans):
        run = run_of(trace)
        if resource := telemetry.resources.get(run.identity):
            run.source["resource"] = resource
        run.events += chain(loose, missing)
        missing, loose = [], []
        yield run


def _add(telemetry: Telemetry, source: Source) -> Iterator[Missing]:
    """Add the lines of a file, or its document; yield what cannot be read."""
    document = None if any(is_otlp(line.value) for line in source.first_lines) else source.document
    if document is not None:
        telemetry.add(document)
        return
    for line in source.lines():
        if line.why is None and is_otlp(line.value):
            telemetry.add(line.value)
        else:
            yield Missing(what=f"line {line.number} of {source.path.name}", why=line.why or "it is not OTLP")


def _neighbours(source: Source) -> Iterator[Source]:
    """Yield the file with the logs of a file of traces, or the other way round, if it is one."""
    stem, suffix = source.path.name, ""
    while "." in stem and stem.rpartition(".")[2] in {"json", "jsonl", "ndjson"}:
        stem, dot, last = stem.rpartition(".")
        suffix = f"{dot}{last}{suffix}"
    for own, other in _PAIRS:
        path = Path(source.path.with_name(f"{stem.removesuffix(own)}{other}{suffix}"))
        if stem.endswith(own) and path.is_file() and recognizes(found := source.neighbour(path)):
            yield found
            return


FORMAT = ImportFormat(name="otlp", recognizes=recognizes, read=read, counting=WHOLE)
