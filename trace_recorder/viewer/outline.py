"""The outline of a run: its facts, its agents, and an entry for each interaction and step, without long texts.

An entry refers to prompts, tools and parameters by number. The answers for interactions, steps and messages have the
texts (`interface.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.catalog.rows import origin_members
from trace_recorder.clocks import seconds_between
from trace_recorder.figures.call_figures import incomplete_reason
from trace_recorder.figures.conversations.inferred_agents import InferredAgent
from trace_recorder.figures.conversations.run_agents import RunAgents, run_agents_of
from trace_recorder.figures.cost import Price, cost_of
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.values.llm_interaction import Attempt, LLMInteraction
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.structs import Struct
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.viewer.parts import CUT, Json, TextLimits, excerpt, first_argument, value_parts
from trace_recorder.viewer.prompts import ShownPrompt


def run_facts(trajectory: Trajectory, limits: TextLimits = CUT) -> Json:
    """Return the facts of a run."""
    return {
        "trajectory_id": trajectory.trajectory_id,
        "parent": trajectory.parent,
        "session": trajectory.session,
        "task": trajectory.task,
        "status": trajectory.status,
        "success": trajectory.success,
        "final_result": value_parts(trajectory.final_result, limits),
        "error": trajectory.error and trajectory.error.to_document(),
        "provider": trajectory.provider,
        "model": trajectory.model,
        "max_steps": trajectory.max_steps,
        "start_time": trajectory.start_time,
        "end_time": trajectory.end_time,
        "execution_time_seconds": trajectory.execution_time,
        **origin_members(trajectory.metadata),
        "metadata": trajectory.metadata,
        "annotations": trajectory.annotations,
        "rewards": [reward.to_document() for reward in trajectory.rewards],
        "metrics": trajectory.metrics,
        "gaps": [gap.to_document() for gap in trajectory.gaps],
        "websockets": [websocket.to_document() for websocket in trajectory.websockets],
    }


@dataclass(frozen=True, slots=True)
class Clock:
    """Converts times to seconds since the start of a run."""

    start: str | None

    @classmethod
    def of(cls, trajectory: Trajectory) -> Clock:
        """Return the clock of a run."""
        return cls(trajectory.start_time)

    def seconds(self, timestamp: str | None) -> float | None:
        """Return the seconds from the start of the run to a time, or None if one of the two is not known."""
        after = seconds_between(self.start, timestamp)
        return None if after is None else round(after, 6)


class References(Struct, frozen=True, gc=False):
    """The numbers that an interaction's entry refers to, and the facts that depend on other calls and on the run."""

    number: int
    agent: str | None
    step: int | None
    prompt: ShownPrompt
    tool_list: int | None
    parameters: int | None
    is_side_call: bool
    is_agent_inferred: bool
    is_running: bool


def interaction_entry(
    interaction: LLMInteraction, references: References, clock: Clock, price: Price | None = None
) -> Json:
    """Return the entry of an interaction."""
    response = interaction.response
    return {
        "number": references.number,
        "id": interaction.interaction_id,
        "agent": references.agent,
        "agent_inferred": references.is_agent_inferred,
        "step": references.step,
        "timestamp": interaction.timestamp,
        "side_call": references.is_side_call,
        "run_inferred": interaction.run_inferred,
        "start_seconds": clock.seconds(interaction.timestamp),
        "duration_seconds": interaction.duration_seconds,
        "time_to_first_token_seconds": interaction.time_to_first_token_seconds,
        "api": interaction.api,
        "provider": interaction.provider,
        "model": interaction.model,
        "stream": interaction.stream,
        "complete": interaction.complete,
        "ended_by": interaction.ended_by,
        "incomplete": incomplete_reason(interaction, is_running=references.is_running),
        "replayed_from": interaction.replayed_from and interaction.replayed_from.to_document(),
        "error": interaction.error and interaction.error.to_document(),
        "attempts": [_attempt(attempt, clock) for attempt in interaction.attempts],
        **_usage_members(interaction, price),
        "finish_reason": response.finish_reason,
        "excerpt": excerpt(response.content),
        "tool_calls": [
            {"call_id": call.call_id, "name": call.name, "argument": first_argument(call.arguments)}
            for call in response.tool_calls
        ],
        "prompt": references.prompt.to_json(),
        "tool_list": references.tool_list,
        "parameters": references.parameters,
    }


def _usage_members(interaction: LLMInteraction, price: Price | None) -> Json:
    """Return the stated usage of an interaction, its comparable token counts, and its cost.

    A replayed call used no tokens. The response (`parts.py`) has the usage that the replayed answer states.
    """
    usage: Json = {}
    counts = cost = None
    if not interaction.is_replayed:
        stated = interaction.response.usage.to_document()
        usage = {name: value for name, value in stated.items() if name != "extra"}
        counts = counts_of(interaction)
        cost = cost_of(interaction, price)
    return {
        "usage": usage or None,
        "prompt_tokens": counts and counts.prompt,
        "completion_tokens": counts and counts.completion,
        "cost": cost and round(cost.amount, 9),
        "cost_estimated": cost and cost.estimated,
        "without_rate": cost and [*cost.without_rate],
    }


def _attempt(attempt: Attempt, clock: Clock) -> Json:
    return {
        "number": attempt.number,
        "start_seconds": clock.seconds(attempt.timestamp),
        "duration_seconds": attempt.duration_seconds,
        "status": attempt.status,
        "error": attempt.error is not None,
    }


def step_entry(number: int, step: AgentStep, numbers: Mapping[str, int], clock: Clock, agents: Agents) -> Json:
    """Return the entry of a step. `numbers` has the numbers of interactions by their ids."""
    own = None
    if step.interaction is not None:
        own = numbers.get(step.interaction.interaction_id)
    interactions = [numbers[name] for name in step.interaction_ids if name in numbers]
    if not interactions and own is not None:
        interactions = [own]
    return {
        "number": number,
        "step_number": step.step_number,
        "timestamp": step.timestamp,
        "start_seconds": clock.seconds(step.timestamp),
        "duration_seconds": step.duration_seconds,
        "state": step.state,
        "derived": step.derived,
        "agent": agents.of_run.of(step).key,
        "interaction": own,
        "interactions": interactions,
        "error": step.error,
        "reflection": excerpt(step.reflection),
        "summary": step.extra.get("lakeview_summary"),
        "tool_calls": [
            _tool_entry(call, result, clock, agents.started_in(step, call, result))
            for _, call, result in tool_uses(step.tool_calls, step.tool_results)
        ],
    }


def _tool_entry(call: ToolCall | None, result: ToolResult | None, clock: Clock, started: Iterable[str | None]) -> Json:
    source, outcome = call or result, result or ToolResult("")
    entry: Json = {
        "call_id": source and source.call_id,
        "name": source and source.name,
        "answered": result is not None,
        "success": outcome.success,
        "replayed": outcome.replayed,
        "start_seconds": clock.seconds(outcome.timestamp),
        "duration_seconds": outcome.duration_seconds,
        "error": excerpt(outcome.error),
        "argument": call and first_argument(call.arguments),
        "excerpt": call and excerpt(call.arguments),
        "result_excerpt": excerpt(outcome.result),
        "sub_agents": [*started],
    }
    if call is None:
        entry["unrequested"] = True
    return entry


def step_of_interaction(steps: Sequence[AgentStep]) -> dict[str, int]:
    """Return, by the id of each interaction, the number of its step."""
    numbers: dict[str, int] = {}
    for number, step in enumerate(steps, start=1):
        for interaction_id in step.interaction_ids:
            numbers.setdefault(interaction_id, number)
        if step.interaction:
            numbers.setdefault(step.interaction.interaction_id, number)
    return numbers


@dataclass(slots=True)
class Agents:
    """The agents of a run by their keys, and the keys of the agents that a tool started.

    `by_execution` has the latter by the tool's execution id. An inferred agent is known by the interaction that asked
    for it, and by the id of the tool call there.
    """

    of_run: RunAgents = field(default_factory=RunAgents)
    by_key: dict[str | None, Json] = field(default_factory=dict)
    by_execution: dict[str, dict[str | None, None]] = field(default_factory=dict)
    started_by: dict[str, dict[str, InferredAgent]] = field(default_factory=dict)
    """The inferred agents that each interaction asked for, by the ids of the tool calls."""

    @classmethod
    def of(cls, trajectory: Trajectory) -> Agents:
        """Return the agents of a run."""
        agents = cls(run_agents_of(trajectory))
        for agent in agents.of_run.inferred.values():
            agents.started_by.setdefault(agent.started_by, {})[agent.call_id] = agent
        for interaction in trajectory.llm_interactions:
            agents._add(interaction)
            if interaction.parent_execution_id:
                execution_id = str(interaction.parent_execution_id)
                agents.by_execution.setdefault(execution_id, {})[key_of_agent(interaction)] = None
        for step in trajectory.agent_steps:
            agents._add(step)
        return agents

    def started_in(self, step: AgentStep, call: ToolCall | None, result: ToolResult | None) -> list[str | None]:
        """Return the keys of the agents that a tool of a step started."""
        started = [*self.by_execution.get((result and result.execution_id) or "", ())]
        if call is not None and step.interaction is not None:
            inferred = self.started_by.get(step.interaction.interaction_id, {}).get(call.call_id)
            if inferred is not None:
                started.append(inferred.key)
        return started

    def inferred_around(self, step: AgentStep) -> tuple[InferredAgent | None, ...]:
        """Return the inferred agent of a step, and the inferred agents that its tools started."""
        started: Mapping[str, InferredAgent] = {}
        if step.interaction is not None:
            started = self.started_by.get(step.interaction.interaction_id, {})
        return (self.of_run.of(step).inferred, *started.values())

    def _add(self, source: LLMInteraction | AgentStep) -> None:
        agent = self.of_run.of(source)
        first: Json = {"key": agent.key, "name": agent.name, "parent": None, "inferred": agent.inferred is not None}
        entry = self.by_key.setdefault(agent.key, first)
        if agent.parent_agent_id is not None:
            entry["parent"] = agent.parent_agent_id

    def to_json(self) -> list[Json]:
        """Return the agents in the order in which they were first seen."""
        return [*self.by_key.values()]
