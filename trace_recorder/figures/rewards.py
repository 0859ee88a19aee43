"""The rewards of a run that count as figures."""

from __future__ import annotations

from trace_recorder.values.trajectory import Trajectory


def rewards_of(trajectory: Trajectory) -> dict[str, float]:
    """Return the numeric rewards of a whole run, by name. The last reward of each name counts."""
    whole = (reward for reward in trajectory.rewards if reward.step_number is None)
    return {reward.name: reward.value for reward in whole if isinstance(reward.value, int | float)}
