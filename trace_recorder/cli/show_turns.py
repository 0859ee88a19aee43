"""A run as ToolBrain's turns, for people: prompts, answers, results, and warnings.

These are the turns that a reward function gets: those that `export --format toolbrain` writes, and replayed ones. Calls
that are not turns, such as failed ones, are counted at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.left_out import UNANSWERED
from trace_recorder.views.toolbrain.parsing import PARSERS
from trace_recorder.views.toolbrain.turns import format_turns, turns_one_by_one

DEFAULT_PARSER = "calls"


def turns_as_json(trajectory: Trajectory, parser: str) -> Payload:
    """Return the turns in the form in which `export` writes them."""
    return turns_one_by_one(trajectory, PARSERS[parser], include_replayed=True)


def lines(trajectory: Trajectory, parser: str, *, full: bool) -> Iterator[tuple[str, str]]:
    """Yield the lines of each turn with their styles. With `full`, no line is shortened."""
    turns, left_out = turns_one_by_one.with_report(trajectory, PARSERS[parser], include_replayed=True)
    for line in format_turns(turns, sys.maxsize) if full else format_turns(turns):
        yield line, "yellow" if line.startswith("WARNING") else "bold" if line.startswith("===") else ""
    if left_out[UNANSWERED]:
        yield f"No turns: {left_out[UNANSWERED]} x {UNANSWERED}", "yellow"
