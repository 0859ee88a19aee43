"""The records of Codex's sessions, of those of its fork TRAE CLI, and of the stream of `codex exec`."""

from __future__ import annotations

from trace_recorder.formats.codex.exec_stream import read_stream, recognizes_stream
from trace_recorder.formats.codex.sessions import read, recognizes, recognizes_trae
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.token_counts import WHOLE

CODEX = Format(
    name="codex",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="Codex",
            directory=".codex",
            files=(
                "sessions/**/rollout-*.jsonl*",
                "archived_sessions/rollout-*.jsonl*",
            ),
            variable="CODEX_HOME",
            session="sessions/*/*/*/rollout-*-{session}.jsonl",
        ),
    ),
)
TRAEX = Format(name="traex", reader=FormatReader(recognizes=recognizes_trae, read=read, counting=WHOLE))
EXEC_STREAM = Format(
    name="codex-exec", reader=FormatReader(recognizes=recognizes_stream, read=read_stream, counting=WHOLE)
)
