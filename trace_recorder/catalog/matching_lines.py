"""Searches the texts of a run line by line: prompts, answers, and the arguments and results of tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from trace_recorder.catalog.searched_values import SearchPlace
from trace_recorder.catalog.texts import texts_of_parts
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

MAX_SHOWN = 200
"""A matching line is shortened to this many characters."""


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A line that matches, with its file, its step, and its place in the step (`where`), such as "answer".

    `line` is shortened around the match. The match begins at `start` and ends before `end`. `interaction_id` is the id
    of the call in which the text occurs first, or None if the step has no call.
    """

    file: str
    step: int | None
    where: str
    line: str
    start: int
    end: int
    interaction_id: str | None = None

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {"file": self.file, "step": self.step, "where": self.where, "line": self.line}


def matching_lines(
    run: Trajectory, file: str, expression: re.Pattern[str], places: Collection[SearchPlace]
) -> Iterator[MatchingLine]:
    """Yield the matching lines of a run's texts. `file` is the name of the run in the result."""
    for part, (step, place, where, text) in texts_of_parts(run):
        if place not in places:
            continue
        for line in text.split("\n"):
            hit = expression.search(line)
            if hit:
                identity = None
                if part.call is not None:
                    identity = part.call.interaction_id
                yield _shortened(MatchingLine(file, step, where, line, *hit.span(), identity))


def _shortened(match: MatchingLine) -> MatchingLine:
    """Shorten a long line around its match."""
    length = len(match.line)
    if length <= MAX_SHOWN:
        return match
    start = max(0, min(match.start - MAX_SHOWN // 4, length - MAX_SHOWN))
    end = start + MAX_SHOWN
    line = match.line[start:end]
    moved = -start
    if start:
        line = f"...{line}"
        moved += 3
    if end < length:
        line += "..."
    return replace(match, line=line, start=match.start + moved, end=min(match.end, end) + moved)
