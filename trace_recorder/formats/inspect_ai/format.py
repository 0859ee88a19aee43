"""The record of Inspect AI's logs."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.formats.inspect_ai.reading import read, recognizes
from trace_recorder.formats.inspect_ai.writing import pieces, to_inspect
from trace_recorder.values.token_counts import CACHE_APART

FORMAT = Format(
    name="inspect-ai",
    reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART),
    writer=FormatWriter(
        kind="documents", view=to_inspect, pieces=pieces, forms={"json": {"form": "json"}, "eval": {"form": "eval"}}
    ),
    export_name="inspect",
)
