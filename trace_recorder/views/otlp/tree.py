"""How the agents, steps, calls and tools of a run are nested: the ids of their spans and of their parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import AgentStep, Reward, Trajectory
from trace_recorder.views.conversations.turn import agent_key
from trace_recorder.views.conversations.turns_of_run import call_of_step
from trace_recorder.views.otlp.agents import AgentRecords, Agents
from trace_recorder.views.otlp.span import SpanIds
from trace_recorder.views.otlp.tools import ToolRun, tool_runs


@dataclass(frozen=True, slots=True)
class SpanTree:
    """The contents of a run.

    `steps` are those that the agent recorded. `calls` are made from the steps if no calls were recorded.
    """

    trajectory: Trajectory
    ids: SpanIds
    agents: Agents
    steps: Sequence[AgentStep]
    calls: Sequence[LLMInteraction]
    tools: Sequence[ToolRun]
    _step_of: Mapping[str, AgentStep]
    _executions: Mapping[str, ToolRun]

    @classmethod
    def of(cls, trajectory: Trajectory, ids: SpanIds | None = None) -> SpanTree:
        """Return the tree of a run."""
        steps = [step for step in trajectory.agent_steps if not step.derived]
        step_of = {name: step for step in steps for name in _interactions_of(step)}
        calls = [*trajectory.llm_interactions]
        if not calls:
            for number, step in enumerate(trajectory.agent_steps, start=1):
                if not step.derived and (step.messages or step.llm_response):
                    calls.append(call_of_step(number, step))
                    step_of[calls[-1].interaction_id] = step
        tools = [*tool_runs(trajectory)]
        executions = {tool.execution_id: tool for tool in tools if tool.execution_id is not None}
        of_run = ids or SpanIds.of(trajectory)
        return cls(trajectory, of_run, Agents.of(trajectory), steps, calls, tools, step_of, executions)

    @property
    def root(self) -> str:
        """The id of the run's own span."""
        return self.ids.span_id("run")

    def agent_span(self, key: str | None) -> str:
        """Return the id of an agent's span; that of the main agent is the run's own."""
        return self.ids.span_id("agent", key) if key is not None else self.root

    def step_span(self, step: AgentStep) -> str:
        """Return the id of a step's span."""
        return self.ids.span_id("step", str(step.step_number), step.timestamp, agent_key(step) or "")

    def call_span(self, one: LLMInteraction) -> str:
        """Return the id of a call's span."""
        return self.ids.span_id("call", one.interaction_id)

    def tool_span(self, tool: ToolRun) -> str:
        """Return the id of a tool's span."""
        return self.ids.span_id("tool", *tool.identity)

    def parent_of_agent(self, agent: AgentRecords) -> str:
        """Return the tool in which an agent was started, or else the step, or else the agent that started it."""
        tool = self._executions.get(agent.execution_id or "")
        if tool is not None:
            return self.tool_span(tool)
        step = self._step_of.get(agent.first.interaction_id) if isinstance(agent.first, LLMInteraction) else None
        if step is not None and agent_key(step) != agent.key:
            return self.step_span(step)
        parent = agent.first.parent_agent_id
        return self.agent_span(parent if parent in self.agents.found and parent != agent.key else None)

    def parent_of_call(self, one: LLMInteraction) -> str:
        """Return the step of a call, if that is its own agent's, or else its agent."""
        step = self._step_of.get(one.interaction_id)
        is_inside = step is not None and agent_key(step) == agent_key(one)
        return self.step_span(step) if step and is_inside else self.agent_span(agent_key(one))

    def parent_of_tool(self, tool: ToolRun) -> str:
        """Return the step in which a tool ran, or its agent if the agent records no steps."""
        return self.agent_span(agent_key(tool.step)) if tool.step.derived else self.step_span(tool.step)

    def spans_of_rewards(self) -> list[str]:
        """Return the span of each reward: that of its step, if the agent recorded it, or else the run's own."""
        steps = {number_or_text(step.step_number): self.step_span(step) for step in self.steps}
        return [steps.get(number_or_text(reward.step_number), self.root) for reward in self.trajectory.rewards]

    def said(self) -> dict[str, list[str]]:
        """Return the ids of the rewards in each span, and of the annotations, which are in the run's span."""
        run = self.trajectory
        found = {self.root: [annotation_id(self.ids, key, value) for key, value in run.annotations.items()]}
        for number, (reward, span) in enumerate(zip(run.rewards, self.spans_of_rewards(), strict=True)):
            found.setdefault(span, []).append(reward_id(self.ids, number, reward))
        return found


def reward_id(ids: SpanIds, number: int, reward: Reward) -> str:
    """Return the id of a reward by its position in the run.

    Rewards are only ever appended, so positions do not change.
    """
    return ids.span_id("reward", str(number), str(reward.name))


def annotation_id(ids: SpanIds, key: str, value: Payload) -> str:
    """Return the id of an annotation. An annotation with another value has another id."""
    return ids.span_id("annotation", key, to_json(value))


def _interactions_of(step: AgentStep) -> list[str]:
    own = [step.interaction.interaction_id] if step.interaction else []
    return [*step.interaction_ids, *own]
