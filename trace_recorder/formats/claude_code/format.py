"""The record of Claude Code's sessions."""

from __future__ import annotations

from trace_recorder.formats.claude_code.lines import is_session
from trace_recorder.formats.claude_code.session import read
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.token_counts import CACHE_APART

FORMAT = Format(
    name="claude-code",
    reader=FormatReader(recognizes=is_session, read=read, counting=CACHE_APART),
    home=(
        HomePlace(
            program="Claude Code",
            directory=".claude",
            files=("projects/*/*.jsonl",),
            variable="CLAUDE_CONFIG_DIR",
            session="projects/*/{session}.jsonl",
        ),
    ),
)
