"""The record of Invariant's traces."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.formats.invariant.reading import read, recognizes
from trace_recorder.formats.invariant.writing import pieces, to_invariant_dataset
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(
    name="invariant",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    writer=FormatWriter(
        kind="rows",
        view=to_invariant_dataset,
        arguments=lambda run, _: ([run],),
        pieces=pieces,
        begins_with_metadata=True,
        numbers_runs=True,
    ),
)
