"""The record of the logs of `llm`, the command of Simon Willison."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.formats.llm.logs import read, recognizes
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(
    name="llm",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(program="llm", directory=".config/io.datasette.llm", files=("logs.db",), variable="LLM_USER_PATH"),
        HomePlace(program="llm on macOS", directory="Library/Application Support/io.datasette.llm", files=("logs.db",)),
    ),
)
