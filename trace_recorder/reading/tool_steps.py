"""Makes steps of the tools that are in no other step.

An agent may run tools between two of its calls, or between two of its recorded steps. These tools are one step. A tool
reserves its place there when it begins. Whether the tool is in another step may become known only later, so the steps
are put together when all facts are known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trace_recorder.facts import InStep
from trace_recorder.reading.steps import Answers, ToolExecution, agent_key, tool_calls_and_results
from trace_recorder.values.messages import ToolCall
from trace_recorder.values.trajectory import AgentStep

MAX_TOOLS_PER_STEP = 64
"""A tool step has at most this many tools, and the next tool begins a new step.

So a step does not grow without limit if an agent records only tools.
"""
MAX_WAITING_CLAIMS = 256
"""At most this many tool calls of recorded steps wait for their tools, and as many tools wait for a step.

The oldest are forgotten first.
"""


class ToolStep(NamedTuple):
    """A step with tools that are in no other step, in the order in which they began. There is at least one tool."""

    executions: Sequence[ToolExecution]
    agent: InStep
    """The first fact for which the step was reserved. It has the agent's name and ids."""

    @property
    def first_seq(self) -> int:
        """The number of the first record of the first tool. Steps are sorted by this number."""
        return self.executions[0].first_seq

    def step(self, number: int, answers: Mapping[str, Answers]) -> AgentStep:
        """Make the step. The state is "error" if the last tool failed."""
        calls, results = tool_calls_and_results((), answers, self.executions)
        state, error = "calling_tool", None
        if self.executions[-1].failed:
            state, error = "error", results[-1].error
        return AgentStep(
            step_number=number,
            timestamp=self.executions[0].time,
            state=state,
            tool_calls=calls,
            tool_results=results,
            error=error,
            agent=self.agent.agent,
            agent_id=self.agent.agent_id,
            parent_agent_id=self.agent.parent_agent_id,
            derived=True,
        )


class _Claim(NamedTuple):
    """A tool call that a step without a `with` block names. `first_seq` is the number of the step's record."""

    first_seq: int
    call: ToolCall


@dataclass(slots=True)
class ToolSteps:
    """The places of tools in tool steps. Call the methods in the order of the records."""

    max_tools: int = MAX_TOOLS_PER_STEP
    open: dict[str | None, list[ToolExecution]] = field(default_factory=dict)
    """The step of each agent that more tools may join."""
    _places: list[list[ToolExecution]] = field(default_factory=list)
    _claims: list[_Claim] = field(default_factory=list)

    def close(self, agent: str | None) -> None:
        """Close the current tool step of an agent, because a call or another step of the agent begins."""
        self.open.pop(agent, None)

    def reserve(self, execution: ToolExecution) -> None:
        """Reserve a place for a tool that runs outside of all steps with a `with` block."""
        agent = agent_key(execution.begun)
        place = self.open.get(agent)
        if place is None or len(place) == self.max_tools:
            place = self.open[agent] = []
            self._places.append(place)
        place.append(execution)

    def claim(self, seq: int, calls: Collection[ToolCall]) -> None:
        """Take the tool calls that a step without a `with` block names. `seq` is the number of its record.

        The tools of these calls belong to that step.
        """
        self._claims += (_Claim(seq, call) for call in calls)

    def steps(self, is_elsewhere: Callable[[ToolExecution], bool]) -> Iterator[ToolStep]:
        """Yield the tool steps. `is_elsewhere` returns whether a tool is in another step."""
        places = [[execution for execution in place if not is_elsewhere(execution)] for place in self._places]
        claimed: Collection[str] = ()
        if self._claims:
            claimed = self._claimed(places)
        for reserved, place in zip(self._places, places, strict=True):
            executions = [execution for execution in place if execution.identity not in claimed]
            if executions:
                yield ToolStep(executions, reserved[0].begun)

    def _claimed(self, places: Sequence[Sequence[ToolExecution]]) -> Collection[str]:
        """Return the ids of the executions that belong to a recorded step. Each call takes one execution."""
        claimed = set[str]()
        tools: deque[ToolExecution] = deque(maxlen=MAX_WAITING_CLAIMS)
        calls: deque[ToolCall] = deque(maxlen=MAX_WAITING_CLAIMS)
        events: list[ToolExecution | _Claim] = [*self._claims]
        for place in places:
            events += place
        for event in sorted(events, key=_first_seq):
            if isinstance(event, _Claim):
                tool = next((tool for tool in tools if _matches(event.call, tool)), None)
                if tool is None:
                    calls.append(event.call)
                    continue
                tools.remove(tool)
                claimed.add(tool.identity)
                continue
            call = next((call for call in calls if _matches(call, event)), None)
            if call is None:
                tools.append(event)
                continue
            calls.remove(call)
            claimed.add(event.identity)
        return claimed


def _first_seq(event: ToolExecution | _Claim) -> int:
    return event.first_seq


def _matches(call: ToolCall, execution: ToolExecution) -> bool:
    """Return whether a tool ran for a tool call of a recorded step.

    Compare the ids. If the tool or the call has no id, compare the names and arguments.
    """
    ran = execution.call()
    if call.call_id and not ran.call_id_made_up:
        return call.call_id == ran.call_id
    return (call.name, call.arguments) == (ran.name, ran.arguments)
