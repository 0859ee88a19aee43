"""From where a run is continued: its first call that is sent live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_recorder.imports.loader import load
from trace_recorder.rerun.recorded import RecordedExchange, RecordedTool, Recording
from trace_recorder.values.origins import ForkedFrom
from trace_recorder.values.trajectory import Trajectory


class ForkPoint:
    """A call of a recording, and what comes before it.

    `at` is the id of an interaction, such as "llm_7"; `at_step` the number of a step, for the first call in it.
    Raises ValueError if neither or both are given, and if the recording has no such call.
    """

    def __init__(self, recording: Recording, at: str | None, at_step: int | None) -> None:
        if (at is None) == (at_step is None):
            raise ValueError('fork() takes one of at="llm_7" (a call) and at_step=3 (the first call of a step)')
        run = load(recording.path)
        self.task = run.task
        begun = {one.interaction_id: one for one in reversed(recording.exchanges)}
        steps = _steps_of(run)
        calls = [one.interaction_id for one in run.llm_interactions if one.interaction_id in begun]
        wanted = (one for one in calls if (steps.get(one) == at_step if at is None else one == at))
        meant = next(wanted, None)
        if meant is None:
            named = at or f"of step {at_step}"
            raise ValueError(f"{recording.path.name} has no call {named}. Its calls are: {_named(calls, steps)}")
        self.exchange = begun[meant]
        self._seq = self.exchange.begin.seq
        self.origin = ForkedFrom(run.trajectory_id or "", recording.path.name, meant, steps.get(meant))

    def is_behind(self, one: RecordedExchange) -> bool:
        """Whether a call was made before, and answered."""
        return one.begin.seq < self._seq and one.ending is not None

    def is_behind_tool(self, one: RecordedTool) -> bool:
        """Whether an execution had ended before; one in which the call was made had not."""
        return one.ending is not None and one.ending.seq < self._seq

    def __str__(self) -> str:
        return self.exchange.interaction_id


def _named(calls: Sequence[str], steps: Mapping[str, int]) -> str:
    named = (f"{one} (step {steps[one]})" if one in steps else one for one in calls[:20])
    return ", ".join(named) or "none"


def _steps_of(run: Trajectory) -> dict[str, int]:
    """Return the step of each call that belongs to one, recorded by the agent or derived."""
    steps: dict[str, int] = {}
    for step in run.agent_steps:
        of_step = step.interaction_ids or ((step.interaction.interaction_id,) if step.interaction else ())
        steps |= dict.fromkeys(of_step, step.step_number)
    return steps
