"""Gemini CLI's sessions: a document, or lines with patches; and the answers that it records for tests.

`messages.py` brings a session's two forms to one list of messages, `session.py` reads it.
"""

from trace_recorder.imports.foreign.gemini_cli.session import read, recognizes
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.values.token_counts import THOUGHTS_APART

__all__ = ("FORMAT", "read", "recognizes")

FORMAT = ImportFormat(name="gemini-cli", recognizes=recognizes, read=read, counting=THOUGHTS_APART)
