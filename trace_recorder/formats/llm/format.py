"""The record of the logs of `llm`, the command of Simon Willison."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.llm.logs import read, recognizes
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(name="llm", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
