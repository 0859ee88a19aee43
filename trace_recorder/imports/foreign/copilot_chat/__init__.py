"""VS Code's chat sessions with Copilot: `chatSessions/*.json`, and `*.jsonl` from 2026 on."""

from __future__ import annotations

from trace_recorder.imports.foreign.copilot_chat.session import read, recognizes

__all__ = ("read", "recognizes")
