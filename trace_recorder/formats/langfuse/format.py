"""The record of Langfuse's exported traces."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.langfuse.reading import read, recognizes
from trace_recorder.values.token_counts import Counting

FORMAT = Format(
    name="langfuse",
    reader=FormatReader(recognizes=recognizes, read=read, counting=Counting(cache_apart=True, thoughts_apart=True)),
)
