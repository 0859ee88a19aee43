"""Two runs compared, as the page draws them: their steps aligned, by number, and in what each pair differs.

What was said is in the answers about each run. `difference_of` has the changes of one pair value by value.
"""

from __future__ import annotations

from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parts import Json
from trace_recorder.views.comparison.trajectory_diff import DiffSide, TrajectoryDiff, diff


class Comparison:
    """The comparison of two runs. Ids and times make no difference."""

    def __init__(self, a: Trajectory, b: Trajectory) -> None:
        self._diff: TrajectoryDiff = diff(a, b)
        self._numbers = StepNumbers(a), StepNumbers(b)

    def to_json(self) -> Json:
        """Return which steps belong together, and the kinds of their differences."""
        ours, theirs = self._numbers
        return {
            "equal": self._diff.equal,
            "parts_at": self._diff.parts_at,
            "a": self._diff.a.to_dict(),
            "b": self._diff.b.to_dict(),
            "pairs": [
                {
                    "a": ours.of(pair.a),
                    "b": theirs.of(pair.b),
                    "differs": [*dict.fromkeys(one.kind for one in pair.differences)],
                }
                for pair in self._diff.steps
            ],
        }

    def differences(self) -> list[Json]:
        """Return the changes of all pairs that differ."""
        return [self.difference_of(number) for number, pair in enumerate(self._diff.steps) if pair.differences]

    def difference_of(self, number: int) -> Json:
        """Return the changes of a pair, numbered from 0. Raises IndexError."""
        if not 0 <= number < len(self._diff.steps):
            raise IndexError(f"there are {len(self._diff.steps)} pairs")
        return {"pair": number, "differences": [one.to_dict() for one in self._diff.steps[number].differences]}


class StepNumbers:
    """The numbers that the steps and interactions of a run have in the interface."""

    def __init__(self, run: Trajectory) -> None:
        self._steps = {id(step): number for number, step in enumerate(run.agent_steps, start=1)}
        self._calls = {one.interaction_id: number for number, one in enumerate(run.llm_interactions, start=1)}

    def of(self, side: DiffSide | None) -> Json | None:
        """Return the numbers of a step and its interaction; None for no step."""
        if side is None:
            return None
        step, call = side.source.step, side.source.call
        return {
            "step": None if step is None else self._steps.get(id(step)),
            "interaction": None if call is None else self._calls.get(call.interaction_id),
        }
