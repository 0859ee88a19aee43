"""The nesting of the agents, steps, calls and tools of a run: the ids of their spans, their parents, and their times.

The time of a tool is known if the agent recorded it. If only the next request shows the result, the tool's span begins
after the model's answer, has no duration, and is marked as inferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trace_recorder.dialects.json_access import as_dict
from trace_recorder.formats.spans.writing.span import SpanIds, after, nanoseconds
from trace_recorder.reading.mcp_calls import content_of_result
from trace_recorder.reading.relations.calls_of_run import call_of_step
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import MCPCall, MCPServer, Payload, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Reward, Trajectory


@dataclass(slots=True)
class AgentRecords:
    """An agent with an id or a name: its first call or step, begin, end, and the tool execution that started it."""

    key: str
    first: LLMInteraction | AgentStep
    start: int | None = None
    end: int | None = None
    execution_id: str | None = None

    def add(self, timed: LLMInteraction | AgentStep) -> None:
        """Extend the agent's time by the time of a call or a step."""
        begin, end = times_of(timed)
        if begin is not None and end is not None:
            if self.start is None or begin < self.start:
                self.start = begin
            if self.end is None or end > self.end:
                self.end = end
        if isinstance(timed, LLMInteraction) and self.execution_id is None:
            self.execution_id = timed.parent_execution_id


def agents_of(trajectory: Trajectory) -> dict[str, AgentRecords]:
    """Return the agents that have an id or a name, by their keys, in the order of their first records."""
    agents: dict[str, AgentRecords] = {}
    records: list[LLMInteraction | AgentStep] = [*trajectory.llm_interactions, *trajectory.agent_steps]
    for record in records:
        key = key_of_agent(record)
        if key is not None:
            agents.setdefault(key, AgentRecords(key, record)).add(record)
    return agents


def times_of(timed: LLMInteraction | AgentStep) -> tuple[int | None, int | None]:
    """Return when a call or a step began and ended. A step without a duration ends when its call ends."""
    start = nanoseconds(timed.timestamp)
    if start is None:
        return None, None
    if isinstance(timed, LLMInteraction) and timed.attempts and timed.duration_seconds is None:
        last = timed.attempts[-1]
        return start, max(start, after(nanoseconds(last.timestamp) or start, last.duration_seconds))
    if isinstance(timed, AgentStep) and timed.duration_seconds is None and timed.interaction is not None:
        return start, max(start, times_of(timed.interaction)[1] or start)
    return start, after(start, timed.duration_seconds)


class ToolTimes(NamedTuple):
    """When a tool began and ended, and whether these times are inferred from its call."""

    start: int
    end: int
    are_inferred: bool


@dataclass(frozen=True, slots=True)
class ToolNode:
    """The execution of a tool. `call` is None if the step has no call with the id of the result.

    `server_call` is the call of an MCP server that the execution is, and `server` is this server, if it is known.
    `inner` has the calls of servers that the tool made.
    """

    step: AgentStep
    call: ToolCall | None
    result: ToolResult
    occurrence: int = 0
    server_call: MCPCall | None = None
    server: MCPServer | None = None
    inner: tuple[ToolNode, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The texts that identify the execution: step, agent, call id, and a number for results with the same id."""
        step = self.step
        name = step.timestamp
        if step.derived and step.interaction is not None:
            name = step.interaction.interaction_id
        return name, key_of_agent(step) or "", self.result.call_id, str(self.occurrence)

    @property
    def execution_id(self) -> str | None:
        """The id by which a sub-agent names the tool that started it."""
        return self.result.execution_id

    @property
    def name(self) -> str:
        """The name of the tool."""
        if self.call is not None and self.call.name:
            return self.call.name
        return self.result.name or "unnamed"

    def times(self) -> ToolTimes:
        """Return when the tool began and ended. If a recording gave the result, the tool took no time."""
        start = nanoseconds(self.result.timestamp)
        if start is not None:
            return ToolTimes(start, after(start, self.seconds), are_inferred=False)
        if self.step.interaction is not None:
            inferred = times_of(self.step.interaction)[1] or 0
        else:
            inferred = times_of(self.step)[0] or 0
        return ToolTimes(inferred, after(inferred, self.seconds), are_inferred=True)

    @property
    def seconds(self) -> float | None:
        """How long the tool ran, or None if that is unknown or a recording gave the result."""
        if self.result.replayed:
            return None
        return self.result.duration_seconds


def tool_runs(trajectory: Trajectory) -> Iterator[ToolNode]:
    """Yield, step by step, the tool executions with a result."""
    servers = {server.connection_id: server for server in trajectory.mcp_servers}
    for step in trajectory.agent_steps:
        calls: dict[str, list[ToolCall]] = {}
        for call in step.tool_calls:
            calls.setdefault(call.call_id, []).append(call)
        occurrences: Counter[str] = Counter()
        for result in step.tool_results:
            requested: ToolCall | None = None
            remaining = calls.get(result.call_id)
            if remaining:
                requested = remaining.pop(0)
            occurrence = occurrences[result.call_id]
            occurrences[result.call_id] += 1
            inner = tuple(_inner_node(step, call, servers) for call in result.mcp if call.joined_by == "execution")
            node = ToolNode(step, requested, result, occurrence, inner=inner)
            if result.mcp and not inner:
                server_call = result.mcp[0]
                node = replace(node, server_call=server_call, server=servers.get(server_call.connection_id))
            yield node


def _inner_node(step: AgentStep, call: MCPCall, servers: Mapping[str, MCPServer]) -> ToolNode:
    """Return a call of a server inside a tool of the agent as an execution, with what its messages state."""
    arguments = content = error = None
    if call.messages:
        request, *answers = map(as_dict, call.messages)
        arguments = as_dict(request.get("params")).get("arguments") or {}
        for answer in answers:
            content = content_of_result(answer.get("result"))
            error = as_dict(answer.get("error")).get("message")
    requested = None
    if arguments is not None:
        requested = ToolCall("", call.tool or "", arguments)
    if call.success is False and error is None:
        error = content or "the server did not answer"
    result = ToolResult(
        "",
        name=call.tool,
        success=call.success,
        result=content,
        error=None if error is None else plain_text(error),
        duration_seconds=call.duration_seconds,
        timestamp=call.timestamp,
    )
    return ToolNode(step, requested, result, server_call=call, server=servers.get(call.connection_id))


@dataclass(frozen=True, slots=True)
class SpanTree:
    """The agents, steps, calls and tools of a run.

    `steps` are the steps that the agent recorded. If no calls were recorded, `calls` are made from the steps.
    """

    trajectory: Trajectory
    ids: SpanIds
    agents: Mapping[str, AgentRecords]
    steps: Sequence[AgentStep]
    calls: Sequence[LLMInteraction]
    tools: Sequence[ToolNode]
    _step_of: Mapping[str, AgentStep]
    _executions: Mapping[str, ToolNode]

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
        return cls(trajectory, of_run, agents_of(trajectory), steps, calls, tools, step_of, executions)

    @property
    def root(self) -> str:
        """The id of the run's own span."""
        return self.ids.span_id("run")

    def agent_span(self, key: str | None) -> str:
        """Return the id of an agent's span. The span of the main agent is the run's own."""
        if key is None:
            return self.root
        return self.ids.span_id("agent", key)

    def step_span(self, step: AgentStep) -> str:
        """Return the id of a step's span."""
        return self.ids.span_id("step", str(step.step_number), step.timestamp, key_of_agent(step) or "")

    def call_span(self, call: LLMInteraction) -> str:
        """Return the id of a call's span."""
        return self.ids.span_id("call", call.interaction_id)

    def tool_span(self, tool: ToolNode) -> str:
        """Return the id of a tool's span."""
        return self.ids.span_id("tool", *tool.identity)

    def server_call_span(self, tool: ToolNode, number: int) -> str:
        """Return the id of the span of a call of an MCP server, by its number inside a tool."""
        return self.ids.span_id("server call", *tool.identity, str(number))

    def parent_of_agent(self, agent: AgentRecords) -> str:
        """Return the id of the span in which an agent was started: the span of a tool, a step or another agent."""
        tool = self._executions.get(agent.execution_id or "")
        if tool is not None:
            return self.tool_span(tool)
        if isinstance(agent.first, LLMInteraction):
            step = self._step_of.get(agent.first.interaction_id)
            if step is not None and key_of_agent(step) != agent.key:
                return self.step_span(step)
        parent = agent.first.parent_agent_id
        if parent in self.agents and parent != agent.key:
            return self.agent_span(parent)
        return self.root

    def parent_of_call(self, call: LLMInteraction) -> str:
        """Return the id of the span of a call's step, or of the call's agent if the step is of a different agent."""
        step = self._step_of.get(call.interaction_id)
        if step is not None and key_of_agent(step) == key_of_agent(call):
            return self.step_span(step)
        return self.agent_span(key_of_agent(call))

    def parent_of_tool(self, tool: ToolNode) -> str:
        """Return the id of the span of a tool's step, or of the tool's agent if the step is derived."""
        if tool.step.derived:
            return self.agent_span(key_of_agent(tool.step))
        return self.step_span(tool.step)

    def spans_of_rewards(self) -> list[str]:
        """Return, for each reward, the id of the span of its recorded step, or else of the run's own span."""
        steps = {number_or_text(step.step_number): self.step_span(step) for step in self.steps}
        return [steps.get(number_or_text(reward.step_number), self.root) for reward in self.trajectory.rewards]

    def addition_ids(self) -> dict[str, list[str]]:
        """Return the ids of the rewards and annotations, by the ids of their spans.

        The run's own span has all annotations.
        """
        run = self.trajectory
        ids = {self.root: [annotation_id(self.ids, key, value) for key, value in run.annotations.items()]}
        for number, (reward, span) in enumerate(zip(run.rewards, self.spans_of_rewards(), strict=True)):
            ids.setdefault(span, []).append(reward_id(self.ids, number, reward))
        return ids


def reward_id(ids: SpanIds, number: int, reward: Reward) -> str:
    """Return the id of a reward by its position in the run.

    Rewards are only ever appended, so positions do not change.
    """
    return ids.span_id("reward", str(number), str(reward.name))


def annotation_id(ids: SpanIds, key: str, value: Payload) -> str:
    """Return the id of an annotation, which depends on its key and its value."""
    return ids.span_id("annotation", key, to_json(value))


def _interactions_of(step: AgentStep) -> list[str]:
    names = [*step.interaction_ids]
    if step.interaction is not None:
        names.append(step.interaction.interaction_id)
    return names
