"""VS Code's chat sessions with Copilot: `chatSessions/*.json`, and `*.jsonl` from 2026 on."""

from __future__ import annotations

from trace_recorder.imports.foreign.copilot_chat.session import read, recognizes
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.values.token_counts import WHOLE

__all__ = ("FORMAT", "read", "recognizes")

FORMAT = ImportFormat(name="copilot-chat", recognizes=recognizes, read=read, counting=WHOLE)
