"""The record of the Hierarchy."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.formats.hierarchy.reading import read, recognizes
from trace_recorder.formats.hierarchy.writing import to_hierarchy
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(
    name="hierarchy",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    writer=FormatWriter(
        kind="documents", view=to_hierarchy, forms={"turn": {"cut": "turn"}, "message": {"cut": "message"}}
    ),
)
