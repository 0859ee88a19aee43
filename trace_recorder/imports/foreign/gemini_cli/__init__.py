"""Gemini CLI's sessions: a document, or lines with patches; and the answers that it records for tests.

`messages.py` brings a session's two forms to one list of messages, `session.py` reads it.
"""

from trace_recorder.imports.foreign.gemini_cli.session import read, recognizes

__all__ = ("read", "recognizes")
