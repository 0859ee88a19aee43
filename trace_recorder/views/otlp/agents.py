"""The agents of a run that another agent started: their first record, and when they began and ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.conversations.turn import agent_key
from trace_recorder.views.otlp.span import after, nanoseconds


@dataclass(slots=True)
class AgentRecords:
    """An agent with a name: its first call or step, when it began and ended, and the tool in which it was started."""

    key: str
    first: LLMInteraction | AgentStep
    start: int | None = None
    end: int | None = None
    execution_id: str | None = None

    def add(self, timed: LLMInteraction | AgentStep) -> None:
        """Extend its time by that of a call or a step."""
        begin, end = times_of(timed)
        if begin is not None and end is not None:
            self.start = begin if self.start is None else min(self.start, begin)
            self.end = end if self.end is None else max(self.end, end)
        if isinstance(timed, LLMInteraction) and self.execution_id is None:
            self.execution_id = timed.parent_execution_id


@dataclass(slots=True)
class Agents:
    """The agents with a name, by their keys, in the order of their first records."""

    found: dict[str, AgentRecords] = field(default_factory=dict)

    @classmethod
    def of(cls, trajectory: Trajectory) -> Agents:
        """Return the agents of a run."""
        agents = cls()
        records: list[LLMInteraction | AgentStep] = [*trajectory.llm_interactions, *trajectory.agent_steps]
        for one in records:
            key = agent_key(one)
            if key is not None:
                agents.found.setdefault(key, AgentRecords(key, one)).add(one)
        return agents


def times_of(timed: LLMInteraction | AgentStep) -> tuple[int | None, int | None]:
    """Return when a call or a step began and ended. A step that states no duration ends as its call does."""
    start = nanoseconds(timed.timestamp)
    if start is None:
        return None, None
    if isinstance(timed, LLMInteraction) and timed.attempts and timed.duration_seconds is None:
        last = timed.attempts[-1]
        return start, max(start, after(nanoseconds(last.timestamp) or start, last.duration_seconds))
    if isinstance(timed, AgentStep) and timed.duration_seconds is None and timed.interaction is not None:
        return start, max(start, times_of(timed.interaction)[1] or start)
    return start, after(start, timed.duration_seconds)
