"""The base class of all agents."""

from __future__ import annotations

from trae_agent.utils.trajectory_recorder import TrajectoryRecorder


class BaseAgent:
    """An agent with a recorder, or None."""

    def __init__(self, agent_config: object) -> None:
        self._trajectory_recorder: TrajectoryRecorder | None = None

    @property
    def trajectory_recorder(self) -> TrajectoryRecorder | None:
        return self._trajectory_recorder

    def set_trajectory_recorder(self, recorder: TrajectoryRecorder | None) -> None:
        self._trajectory_recorder = recorder
