"""The executions of tools: which call each was for, and when it ran.

The time of a tool is known if the agent recorded it. If only the next request shows the result, the span begins after
the model's answer, has no duration, and is marked as inferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.conversations.turn import agent_key
from trace_recorder.views.otlp.agents import times_of
from trace_recorder.views.otlp.span import after, nanoseconds


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool's execution with a result. Its call is None if the call is not in the same step."""

    step: AgentStep
    call: ToolCall | None
    result: ToolResult
    occurrence: int = 0

    @property
    def identity(self) -> tuple[str, ...]:
        """What identifies it within the run: its step, its call, and its number among those with one id."""
        step = self.step
        own = step.interaction.interaction_id if step.derived and step.interaction else step.timestamp
        return own, agent_key(step) or "", self.result.call_id, str(self.occurrence)

    @property
    def execution_id(self) -> str | None:
        """The id that a sub-agent uses to refer to it."""
        return self.result.execution_id

    def times(self) -> tuple[int, int, bool]:
        """Return when it began, when it ended, and whether these are inferred. A tool that did not run took no time."""
        start = nanoseconds(self.result.timestamp)
        if start is not None:
            return start, after(start, self.seconds), False
        begin, end = times_of(self.step.interaction or self.step)
        at = (end if self.step.interaction else begin) or 0
        return at, after(at, self.seconds), True

    @property
    def seconds(self) -> float | None:
        """How long it ran, or None if that is unknown or a recording gave the result."""
        return None if self.result.replayed else self.result.duration_seconds


def tool_runs(trajectory: Trajectory) -> Iterator[ToolRun]:
    """Yield the executions of a run whose results are known, step by step."""
    for step in trajectory.agent_steps:
        calls: dict[str, list[ToolCall]] = {}
        for call in step.tool_calls:
            calls.setdefault(call.call_id, []).append(call)
        met: Counter[str] = Counter()
        for result in step.tool_results:
            of_id = calls.get(result.call_id)
            yield ToolRun(step, of_id.pop(0) if of_id else None, result, met[result.call_id])
            met[result.call_id] += 1
