"""Codex's rollouts: one file a session, lines of `{"timestamp", "type", "payload"}`.

`response_item` lines are what the model saw and said, as items of the Responses dialect; `event_msg` lines are what the
terminal showed. `rollout.py` reads both, `outputs.py` what tools and the counts of tokens state.
"""

from trace_recorder.imports.foreign.codex.rollout import read, recognizes
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.values.token_counts import WHOLE

__all__ = ("FORMAT", "read", "recognizes")

FORMAT = ImportFormat(name="codex", recognizes=recognizes, read=read, counting=WHOLE)
