"""A run as the turns of ToolBrain's form, for people: what the model saw and said, what came of it, what is odd.

It walks through what `export --format toolbrain` writes, so that one sees what a reward function would see. What is
no turn, such as a call that failed, is counted at the end.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.left_out import UNANSWERED
from trace_recorder.views.toolbrain.parsing import PARSERS
from trace_recorder.views.toolbrain.turns import debug_lines, to_turns

DEFAULT = "calls"


def turns_as_json(trajectory: Trajectory, parser: str) -> Payload:
    """Give the turns as `export` writes them."""
    return list(to_turns(trajectory, PARSERS[parser]))


def lines(trajectory: Trajectory, parser: str, *, full: bool) -> Iterator[tuple[str, str]]:
    """Tell of each turn line by line, each with its style; whole where `full`."""
    dropped: Counter[str] = Counter()
    turns = to_turns(trajectory, PARSERS[parser], dropped=dropped)
    for line in debug_lines(turns, sys.maxsize) if full else debug_lines(turns):
        yield line, "yellow" if line.startswith("WARNING") else "bold" if line.startswith("===") else ""
    if dropped[UNANSWERED]:
        yield f"No turns: {dropped[UNANSWERED]} x {UNANSWERED}", "yellow"
