"""The records of spans: OTLP in files, the spans that OpenTelemetry prints to a console, and NeMo Relay's ATOF."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter, sessions
from trace_recorder.formats.spans import atof
from trace_recorder.formats.spans.otlp_files import read, read_console, recognizes, recognizes_console
from trace_recorder.formats.spans.writing.spans import to_otlp
from trace_recorder.values.token_counts import WHOLE

OTLP = Format(
    name="otlp",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    writer=FormatWriter(
        kind="sessions",
        view=to_otlp,
        pieces=lambda spans, place: sessions([spans], place),
        forms={name: {"conventions": name} for name in ("genai", "genai-0.1", "openinference", "both")},
        options=frozenset({"content", "new_messages"}),
    ),
)
CONSOLE = Format(
    name="otel-console",
    reader=FormatReader(recognizes=recognizes_console, read=read_console, counting=WHOLE),
)
ATOF = Format(name="atof", reader=FormatReader(recognizes=atof.recognizes, read=atof.read, counting=WHOLE))
