"""Claude Code's sessions: its session files, with those of sub-agents, and what its SDK writes to a pipe.

A session is a file of lines, `<session>.jsonl`: `user` and `assistant` lines have a message of the Anthropic dialect,
others say what else happened. `lines.py` has the forms in which these lines come, `threads.py` which agent and which
branch each belongs to, and `session.py` what they mean.
"""

from trace_recorder.imports.foreign.claude_code.session import read, recognizes
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.values.token_counts import CACHE_APART

__all__ = ("FORMAT", "read", "recognizes")

FORMAT = ImportFormat(name="claude-code", recognizes=recognizes, read=read, counting=CACHE_APART)
