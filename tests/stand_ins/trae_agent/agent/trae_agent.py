"""The agent that does the work."""

from __future__ import annotations

from tests.trae import Agent as Working
from trae_agent.agent.base_agent import BaseAgent


class TraeAgent(BaseAgent):
    """An agent that does the same as `tests.trae.Agent`, with its current recorder."""

    def new_task(self, task: str, extra_args: dict[str, str] | None = None) -> None:
        if "project_path" not in (extra_args or {}):
            raise ValueError("Project path is required")
        self._task = task

    async def execute_task(self) -> str:
        working = Working()
        working.set_trajectory_recorder(self._trajectory_recorder)
        return working.run(self._task)
