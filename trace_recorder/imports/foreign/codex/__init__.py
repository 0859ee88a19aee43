"""Codex's rollouts: one file a session, lines of `{"timestamp", "type", "payload"}`.

`response_item` lines are what the model saw and said, as items of the Responses dialect; `event_msg` lines are what the
terminal showed. `rollout.py` reads both, `outputs.py` what tools and the counts of tokens state.
"""

from trace_recorder.imports.foreign.codex.rollout import read, recognizes

__all__ = ("read", "recognizes")
