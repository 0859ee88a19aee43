"""The steps and LLM calls of a run in the order of time, each derived step together with its call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import AgentStep, Trajectory


@dataclass(frozen=True, slots=True)
class StepOrCall:
    """A step that the agent recorded, a call that belongs to no derived step, or a derived step with its call."""

    step: AgentStep | None
    call: LLMInteraction | None

    @property
    def step_number(self) -> int | None:
        """The step that it is, or belongs to."""
        return self.step.step_number if self.step else self.call.step_number if self.call else None

    @property
    def timestamp(self) -> str | None:
        """When it began."""
        return self.step.timestamp if self.step else self.call.timestamp if self.call else None

    @property
    def seconds(self) -> float:
        """When it began, in seconds since 1970; 0 where that cannot be read."""
        try:
            return datetime.fromisoformat(self.timestamp or "").timestamp()
        except (ValueError, TypeError):
            return 0.0


def steps_and_calls(trajectory: Trajectory) -> list[StepOrCall]:
    """Return the steps and calls of a run, in the order of time."""
    in_steps = {step.interaction.interaction_id for step in trajectory.agent_steps if step.interaction}
    found = [StepOrCall(step, step.interaction) for step in trajectory.agent_steps]
    found += [StepOrCall(None, one) for one in trajectory.llm_interactions if one.interaction_id not in in_steps]
    return sorted(found, key=lambda one: one.seconds)
