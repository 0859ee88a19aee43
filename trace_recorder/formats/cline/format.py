"""The records of Cline's two forms."""

from __future__ import annotations

from trace_recorder.formats.cline import sessions, tasks
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.token_counts import WHOLE

TASKS = Format(
    name="cline",
    reader=FormatReader(recognizes=tasks.recognizes, read=tasks.read, counting=WHOLE),
    home=(
        HomePlace(
            program="Cline in VS Code",
            directory=".config/Code/User/globalStorage/saoudrizwan.claude-dev",
            files=("tasks/*/api_conversation_history.json",),
        ),
        HomePlace(
            program="Roo in VS Code",
            directory=".config/Code/User/globalStorage/rooveterinaryinc.roo-cline",
            files=("tasks/*/api_conversation_history.json",),
        ),
        HomePlace(
            program="Cline in VS Code on macOS",
            directory="Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev",
            files=("tasks/*/api_conversation_history.json",),
        ),
        HomePlace(
            program="Roo in VS Code on macOS",
            directory="Library/Application Support/Code/User/globalStorage/rooveterinaryinc.roo-cline",
            files=("tasks/*/api_conversation_history.json",),
        ),
    ),
)
SESSIONS = Format(
    name="cline-sessions",
    reader=FormatReader(recognizes=sessions.recognizes, read=sessions.read, counting=WHOLE),
    home=(
        HomePlace(
            program="Cline CLI",
            directory=".cline/data",
            files=("sessions/*/*.messages.json",),
            variable="CLINE_DATA_DIR",
            session="sessions/*/[0-9]*.messages.json",
        ),
    ),
)
