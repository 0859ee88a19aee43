"""The record of Phoenix's exported spans."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.phoenix.reading import read, recognizes
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(name="phoenix", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
