"""The agent that a program creates: it creates a recorder, and passes it to the inner agent that does the work."""

from __future__ import annotations

from trae_agent.utils.trajectory_recorder import TrajectoryRecorder


class Agent:
    """The outer agent. It cannot set a recorder itself."""

    def __init__(self, agent_type: str, config: object, trajectory_file: str | None = None) -> None:
        self.trajectory_recorder = TrajectoryRecorder(trajectory_file) if trajectory_file else TrajectoryRecorder()
        self.trajectory_file = trajectory_file or self.trajectory_recorder.get_trajectory_path()
        from trae_agent.agent.trae_agent import TraeAgent

        self.agent = TraeAgent(config)
        self.agent.set_trajectory_recorder(self.trajectory_recorder)

    async def run(self, task: str, extra_args: dict[str, str] | None = None) -> object:
        self.agent.new_task(task, extra_args)
        return await self.agent.execute_task()
