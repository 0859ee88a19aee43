"""The record of LangSmith's exported runs."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.langsmith.reading import read, recognizes
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(name="langsmith", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
