"""The records of Cline's two forms."""

from __future__ import annotations

from trace_recorder.formats.cline import sessions, tasks
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.token_counts import WHOLE

TASKS = Format(name="cline", reader=FormatReader(recognizes=tasks.recognizes, read=tasks.read, counting=WHOLE))
SESSIONS = Format(
    name="cline-sessions",
    reader=FormatReader(recognizes=sessions.recognizes, read=sessions.read, counting=WHOLE),
)
