"""Compares two runs step by step, and compares two to ten runs in a table.

`figures/comparison/` aligns the steps. The answers of this module have the numbers of the aligned steps, and the kinds
of their differences. `difference_of` returns the changes of one pair, value by value. In the table each run is compared
with the first run. A step that the first run does not have is a row of its own, between the rows of the first run's
steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from trace_recorder.catalog.rows import costs_json
from trace_recorder.figures.call_figures import made_calls
from trace_recorder.figures.comparison.trajectory_diff import DiffSide, TrajectoryDiff, diff
from trace_recorder.figures.cost import costs_of_calls
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parts import Json


class RunComparison:
    """The comparison of two runs. Differences in ids and times are ignored."""

    def __init__(self, a: Trajectory, b: Trajectory) -> None:
        self._diff: TrajectoryDiff = diff(a, b)
        self._numbers = StepNumbers(a), StepNumbers(b)

    def to_json(self) -> Json:
        """Return the pairs of aligned steps, each with the kinds of its differences."""
        numbers_a, numbers_b = self._numbers
        return {
            "equal": self._diff.equal,
            "parts_at": self._diff.parts_at,
            "a": self._diff.a.to_dict(),
            "b": self._diff.b.to_dict(),
            "pairs": [
                {
                    "a": numbers_a.of(pair.a),
                    "b": numbers_b.of(pair.b),
                    "differs": [*dict.fromkeys(difference.kind for difference in pair.differences)],
                }
                for pair in self._diff.steps
            ],
        }

    def differences(self) -> list[Json]:
        """Return the changes of all pairs that differ."""
        return [self.difference_of(number) for number, pair in enumerate(self._diff.steps) if pair.differences]

    def difference_of(self, number: int) -> Json:
        """Return the changes of a pair. Pairs are numbered from 0. Raises IndexError if there is no such pair."""
        if not 0 <= number < len(self._diff.steps):
            raise IndexError(f"there are {len(self._diff.steps)} pairs")
        differences = self._diff.steps[number].differences
        return {"pair": number, "differences": [difference.to_dict() for difference in differences]}


class StepNumbers:
    """The numbers that the steps and interactions of a run have in the interface."""

    def __init__(self, run: Trajectory) -> None:
        self._steps = {id(step): number for number, step in enumerate(run.agent_steps, start=1)}
        self._calls = {call.interaction_id: number for number, call in enumerate(run.llm_interactions, start=1)}

    def of(self, side: DiffSide | None) -> Json | None:
        """Return the numbers of a step and its interaction, or None if `side` is None."""
        if side is None:
            return None
        step, call = side.source.step, side.source.call
        return {
            "step": None if step is None else self._steps.get(id(step)),
            "interaction": None if call is None else self._calls.get(call.interaction_id),
        }


MAX_RUNS = 10
MAX_CHARACTERS = 300
"""`_cell` returns at most this many characters of an answer."""

Cell = Json | None


def comparison_table(runs: Sequence[Trajectory]) -> Json:
    """Return the head of each run, and the rows of the table.

    Each row has a cell for each run, or None if the run has no such step.
    """
    first, *others = runs
    columns = [_StepsOfRun(first, other) for other in others]
    numbers = StepNumbers(first)
    own_cells = [_cell(numbers, pair.a, []) for pair in diff(first, first).steps if pair.a is not None]
    rows: list[list[Cell]] = []
    for position, cell in enumerate([*own_cells, None]):
        rows += [[None, *cells] for cells in zip_longest(*(column.before.get(position, []) for column in columns))]
        if cell is not None:
            rows.append([cell, *(column.beside.get(position) for column in columns)])
    return {"runs": [*map(_head, runs)], "rows": rows}


def _head(run: Trajectory) -> Json:
    """Return what the head of a run's column says."""
    costs = costs_of_calls(run.llm_interactions)
    names = {call.model or call.response.model for call in made_calls(run.llm_interactions)}
    models = sorted(plain_text(name) for name in names if name)
    return {
        "models": models or [*filter(None, [plain_text(run.model)])],
        "task": run.task,
        "status": run.status,
        "success": run.success,
        **costs_json(costs),
        "execution_time_seconds": run.execution_time,
    }


class _StepsOfRun:
    """The steps of one run in the table that compares it with the first run.

    `beside` has the steps that share a row with a step of the first run. `before` has the steps that have a row of
    their own above the row of a step of the first run. The keys of both are the positions of the first run's steps.
    """

    def __init__(self, first: Trajectory, other: Trajectory) -> None:
        self.beside: dict[int, Json] = {}
        self.before: dict[int, list[Json]] = {}
        numbers, position = StepNumbers(other), 0
        for pair in diff(first, other).steps:
            kinds = [*dict.fromkeys(difference.kind for difference in pair.differences)]
            if pair.b is not None and pair.a is None:
                self.before.setdefault(position, []).append(_cell(numbers, pair.b, kinds))
            elif pair.b is not None:
                self.beside[position] = _cell(numbers, pair.b, kinds)
            position += pair.a is not None


def _cell(numbers: StepNumbers, side: DiffSide, differs: Sequence[str]) -> Json:
    """Return the cell of a step. `differs` has the kinds of differences between the step and the first run's step."""
    source = side.source
    text = error = None
    if source.response and isinstance(source.response.content, str):
        text = source.response.content[:MAX_CHARACTERS]
    if source.call is not None and source.call.error is not None:
        error = source.call.error.message
    return {
        **(numbers.of(side) or {}),
        "text": text,
        "tools": [
            {"name": use.name, "failed": use.failed} for use in tool_uses(source.tool_calls, source.tool_results)
        ],
        "error": error,
        "differs": [*differs],
    }
