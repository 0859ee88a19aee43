"""The agents of a run: which there are, who started whom, and in which execution of a tool."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.viewer.parts import Json
from trace_recorder.views.conversations.turn import agent_key


@dataclass(slots=True)
class Agents:
    """The agents of a run, and which of them were started in which execution of a tool."""

    found: dict[str | None, Json] = field(default_factory=dict)
    by_execution: dict[str, dict[str | None, None]] = field(default_factory=dict)

    @classmethod
    def of(cls, trajectory: Trajectory) -> Agents:
        """Return the agents of a run."""
        agents = cls()
        for one in trajectory.llm_interactions:
            agents._add(one)
            if one.parent_execution_id:
                agents.by_execution.setdefault(str(one.parent_execution_id), {})[agent_key(one)] = None
        for step in trajectory.agent_steps:
            agents._add(step)
        return agents

    def _add(self, one: LLMInteraction | AgentStep) -> None:
        known = self.found.setdefault(agent_key(one), {"key": agent_key(one), "name": one.agent, "parent": None})
        if one.parent_agent_id is not None:
            known["parent"] = one.parent_agent_id

    def to_json(self) -> list[Json]:
        """Return the agents in the order in which they were first seen."""
        return [*self.found.values()]
