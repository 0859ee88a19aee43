"""Tasks of Cline and Roo: `api_conversation_history.json` and `ui_messages.json` in the folder of a task."""

from __future__ import annotations

from trace_recorder.imports.foreign.cline.task import read, recognizes

__all__ = ("read", "recognizes")
