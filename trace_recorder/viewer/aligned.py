"""Two to ten runs in one table: each row is a step of the first run with the steps of the others that belong to it.

The alignment is that of the comparison of two runs (`views/comparison/`), of each run with the first one. Steps that
the first run does not have are in rows of their own, between those that they lie between.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.comparing import StepNumbers
from trace_recorder.viewer.parts import Json
from trace_recorder.views.comparison.trajectory_diff import DiffSide, diff

MAX_RUNS = 10
MAX_CHARACTERS = 300

Cell = Json | None


def aligned(runs: Sequence[Trajectory]) -> Json:
    """Return the rows of the table: in each a cell for each run, or None where a run has no such step."""
    first, *others = runs
    columns = [_Column(first, other) for other in others]
    own = _own_cells(first)
    rows: list[list[Cell]] = []
    for place, cell in enumerate([*own, None]):
        rows += [[None, *cells] for cells in zip_longest(*(column.before.get(place, []) for column in columns))]
        if cell is not None:
            rows.append([cell, *(column.beside.get(place) for column in columns)])
    return {"rows": rows}


def _own_cells(run: Trajectory) -> list[Json]:
    numbers = StepNumbers(run)
    return [_cell(numbers, pair.a, []) for pair in diff(run, run).steps if pair.a is not None]


class _Column:
    """The steps of a run beside the steps of the first one, by their places there, and those between them."""

    def __init__(self, first: Trajectory, other: Trajectory) -> None:
        self.beside: dict[int, Json] = {}
        self.before: dict[int, list[Json]] = {}
        numbers, place = StepNumbers(other), 0
        for pair in diff(first, other).steps:
            kinds = [*dict.fromkeys(one.kind for one in pair.differences)]
            if pair.b is not None and pair.a is None:
                self.before.setdefault(place, []).append(_cell(numbers, pair.b, kinds))
            elif pair.b is not None:
                self.beside[place] = _cell(numbers, pair.b, kinds)
            place += pair.a is not None


def _cell(numbers: StepNumbers, side: DiffSide, differs: Sequence[str]) -> Json:
    """Return what the table shows of a step. `differs` has the kinds of its differences from the first run's."""
    source = side.source
    said = source.response.content if source.response else None
    return {
        **(numbers.of(side) or {}),
        "text": said[:MAX_CHARACTERS] if isinstance(said, str) else None,
        "tools": [
            {"name": use.name, "failed": use.failed} for use in tool_uses(source.tool_calls, source.tool_results)
        ],
        "error": None if source.call is None or source.call.error is None else source.call.error.message,
        "differs": [*differs],
    }
