"""The records of verifiers' files."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.formats.verifiers.reading import read, read_results, recognizes, recognizes_results
from trace_recorder.formats.verifiers.writing import to_verifiers
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(
    name="verifiers",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    writer=FormatWriter(kind="rows", view=to_verifiers),
)
RESULTS = Format(
    name="verifiers-results", reader=FormatReader(recognizes=recognizes_results, read=read_results, counting=WHOLE)
)
