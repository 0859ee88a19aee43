"""The agent of each call and step of a run, as views name it: the stated agent, or else the inferred one.

The viewer, and each command that names calls by their agents, or finds or groups runs by them, asks here. So an
inferred sub-agent has the same name everywhere, with its mark. Exports and tables mark a call beside its stated agent
(`inferred_agents_of`). The relations of prompts and the gate use only stated agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trace_recorder.figures.conversations.inferred_agents import InferredAgent, begun_agents_of, inferred_agents_of
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.reading.steps_and_calls import StepOrCall
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.structs import Struct
from trace_recorder.values.trajectory import AgentStep, Trajectory


class NamedAgent(Struct, frozen=True, gc=False):
    """The agent of a call or a step. All members are None for the main agent of a run that names no agents.

    `key` identifies the agent in its run. The name and the id of an inferred agent end with the mark "(inferred)".
    """

    key: str | None
    name: str | None
    agent_id: str | None
    parent_agent_id: str | None
    inferred: InferredAgent | None = None


_UNNAMED = NamedAgent(None, None, None, None)


@dataclass(frozen=True, slots=True)
class RunAgents:
    """The agents of a run. `inferred` has the inferred ones by the ids of their interactions."""

    inferred: Mapping[str, InferredAgent] = field(default_factory=dict)

    def of(self, source: LLMInteraction | AgentStep) -> NamedAgent:
        """Return the agent of an interaction or a step. A step that is derived from an interaction has its agent."""
        key, inferred = key_of_agent(source), None
        call: LLMInteraction | AgentStep | None = source
        if isinstance(call, AgentStep):
            call = call.interaction
        if key is None and call is not None:
            inferred = self.inferred.get(call.interaction_id)
        if inferred is None:
            return NamedAgent(key, source.agent, source.agent_id, source.parent_agent_id)
        parent, outer = source.parent_agent_id, self.inferred.get(inferred.started_by)
        if outer is not None:
            parent = outer.key
        return NamedAgent(inferred.key, inferred.name, inferred.key, parent, inferred)

    def of_part(self, part: StepOrCall) -> NamedAgent:
        """Return the agent of a step, or of a call without a step."""
        source = part.step or part.call
        if source is None:
            return _UNNAMED
        return self.of(source)


def run_agents_of(trajectory: Trajectory) -> RunAgents:
    """Return the agents of a run."""
    return RunAgents(inferred_agents_of(trajectory))


def agent_names(trajectory: Trajectory) -> Iterator[tuple[str | None, str | None]]:
    """Yield the name and the id of the agent of each call and step, and of each inferred agent.

    These are the names that `run_agents_of` gives to calls and steps. But no prompts are compared with one another,
    which takes most of the time of an inference.
    """
    for call in trajectory.llm_interactions:
        yield call.agent, call.agent_id
    for step in trajectory.agent_steps:
        yield step.agent, step.agent_id
    for agent in begun_agents_of(trajectory).values():
        yield agent.name, agent.key
