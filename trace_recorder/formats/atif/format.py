"""The record of ATIF."""

from __future__ import annotations

from trace_recorder.formats.atif.reading import is_atif, read
from trace_recorder.formats.atif.writing import to_atif_files
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(
    name="atif",
    reader=FormatReader(recognizes=lambda source: is_atif(source.document), read=read, counting=WHOLE),
    writer=FormatWriter(
        kind="documents",
        view=to_atif_files,
        arguments=lambda run, place: (run, f"{place.name}.json", place.directory / f"{place.name}_images"),
        pieces=lambda files, _: files,
    ),
)
