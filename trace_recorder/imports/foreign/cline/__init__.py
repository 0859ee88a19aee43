"""Tasks of Cline and Roo: `api_conversation_history.json` and `ui_messages.json` in the folder of a task."""

from __future__ import annotations

from trace_recorder.imports.foreign.cline.task import read, recognizes
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.values.token_counts import WHOLE

__all__ = ("FORMAT", "read", "recognizes")

FORMAT = ImportFormat(name="cline", recognizes=recognizes, read=read, counting=WHOLE)
