"""The values of a run that rules and assertions ask about: its tool calls, errors, figures, models, prompts and result.

Ids, times and the texts of `ignore` make no difference between two runs, so they are removed from the values that are
compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.figures.comparison.comparable_steps import ComparableSteps, IdAndTimeStripper, Ignored
from trace_recorder.figures.cost import cost_of
from trace_recorder.figures.gate.rules import EVERY_TOOL
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload, ToolCall
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.tool_uses import ToolUse, tool_uses
from trace_recorder.values.trajectory import AgentStep, Trajectory

ALWAYS_IGNORED: tuple[Ignored, ...] = ("ids", "times")
_NOT_SENT: tuple[Ignored, ...] = ("answer", "tool_call", "tool_result")
_OF_A_REQUEST: tuple[Literal["tools", "parameters"], ...] = ("tools", "parameters")
_ANSWERS = {"assistant message", "tool message"}


class StepCall(NamedTuple):
    """A tool call, and the number of its step. If `is_of_one_answer`, one answer made all calls of the step."""

    step: int
    call: ToolCall
    is_of_one_answer: bool


class RunFailure(NamedTuple):
    """A failure in a run. `place` is a call, a tool, a step or the run. `kind` is the same for failures of one kind."""

    kind: str
    place: str
    message: str
    step: int | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class PromptPart(NamedTuple):
    """A part of a prompt that the agent sent for the first time, and the number of the step.

    `what` is "system message", "tools", and so on. Ids and times are removed from `value`.
    """

    agent: str | None
    step: int | None
    what: str
    value: Payload


@dataclass(frozen=True)
class CheckedRun:
    """A run, with the values that rules ask about. Each value is made once."""

    trajectory: Trajectory
    ignore: tuple[re.Pattern[str], ...] = ()

    @cached_property
    def stripper(self) -> IdAndTimeStripper:
        """Removes what makes no difference from values."""
        return IdAndTimeStripper(ALWAYS_IGNORED, self.ignore)

    @property
    def steps(self) -> Sequence[AgentStep]:
        """The agent's steps: the recorded steps, or one step for each LLM call if the agent recorded no step."""
        return self.trajectory.agent_steps

    @cached_property
    def step_of_call(self) -> dict[str, int]:
        """The number of the step of each LLM call that belongs to a step, by the id of the call."""
        numbers = {}
        for step in self.steps:
            numbers.update(dict.fromkeys(step.interaction_ids, step.step_number))
            if step.interaction is not None:
                numbers[step.interaction.interaction_id] = step.step_number
        return numbers

    @cached_property
    def calls(self) -> list[StepCall]:
        """The tool calls of all steps, in order."""
        return [made for step in self.steps for made in _calls_in(step)]

    def calls_of(self, name: str) -> list[StepCall]:
        """Return the calls of a tool, in order. "*" means each tool."""
        return [made for made in self.calls if name in {EVERY_TOOL, made.call.name}]

    @cached_property
    def calls_by_agent(self) -> dict[str | None, list[list[StepCall]]]:
        """The tool calls of each agent by its name.

        There is a list for each agent of the name, because agents that work at the same time have no common order.
        """
        agents: dict[str | None, dict[str | None, list[StepCall]]] = {}
        for step in self.steps:
            calls = agents.setdefault(step.agent, {}).setdefault(key_of_agent(step), [])
            calls += _calls_in(step)
        return {name: [calls for calls in of_name.values() if calls] for name, of_name in agents.items()}

    def tool_uses(self) -> Iterator[ToolUse]:
        """Yield the tool calls of all steps with their results, and results without a call."""
        for step in self.steps:
            yield from tool_uses(step.tool_calls, step.tool_results)

    @cached_property
    def failures(self) -> list[RunFailure]:
        """The failures of the run.

        Failures are LLM calls whose last attempt failed, failed tools, recorded steps with an error, and an error of
        the run.
        """
        run = self.trajectory
        failures = [
            RunFailure("LLM call", call.interaction_id, _text(call.error), self.step_of_call.get(call.interaction_id))
            for call in run.llm_interactions
            if call.error
        ]
        for step in self.steps:
            for use in tool_uses(step.tool_calls, step.tool_results):
                if use.result is not None and use.failed:
                    message = use.result.error or "no reason given"
                    failures.append(RunFailure(f"tool {use.name}", use.name, message, step.step_number))
        failures += [
            RunFailure("step", f"step {step.step_number}", step.error, step.step_number)
            for step in self.steps
            if step.error and not step.derived
        ]
        if run.error:
            failures.append(RunFailure("run", "the run", _text(run.error)))
        return failures

    @property
    def tokens(self) -> int | None:
        """The input and output tokens of all answers, or None if an answer does not state its tokens."""
        total = 0
        for call in self._answered():
            counts = counts_of(call)
            if counts is None or counts.prompt is None or counts.completion is None:
                return None
            total += counts.prompt + counts.completion
        return total

    @property
    def cost(self) -> float | None:
        """The cost of all answers in US dollars, billed or estimated (extra `prices`), or None if a cost is unknown."""
        amounts = []
        for call in self._answered():
            cost = cost_of(call)
            if cost is None:
                return None
            amounts.append(cost.amount)
        return sum(amounts)

    def figure(self, name: str) -> float | None:
        """Return the figure that a limit is about, or None if it is unknown."""
        if name == "steps":
            return len(self.steps)
        if name == "tokens":
            return self.tokens
        if name == "cost":
            return self.cost
        return self.trajectory.execution_time

    def _answered(self) -> list[LLMInteraction]:
        return [call for call in self.trajectory.llm_interactions if call.answered]

    @property
    def final_text(self) -> str | None:
        """The text of the last answer that has a text, or None."""
        answers = [call.response.content for call in self.trajectory.llm_interactions if call.response.content]
        return answers[-1] if answers else None

    @property
    def result(self) -> Payload:
        """The final result that the agent recorded, or else the text of the last answer."""
        if self.trajectory.final_result is not None:
            return self.trajectory.final_result
        return self.final_text

    @cached_property
    def models(self) -> dict[str | None, dict[str, int | None]]:
        """The models that each agent asked, by the agent's name. Each model has the step of its first call."""
        models: dict[str | None, dict[str, int | None]] = {}
        for call in self.trajectory.llm_interactions:
            step = self.step_of_call.get(call.interaction_id)
            models.setdefault(call.agent, {}).setdefault(call.model or "unknown", step)
        return models

    @cached_property
    def prompt_parts(self) -> list[PromptPart]:
        """The messages that the agent itself wrote, the tools that it offered, and its parameters, each once.

        Answers of the model and results of tools are left out, but not those of the first prompt of an agent, which are
        examples.
        """
        comparable = ComparableSteps((*ALWAYS_IGNORED, *_NOT_SENT), self.ignore)
        parts: dict[tuple[str | None, str, bytes], PromptPart] = {}
        begun: set[str | None] = set()
        for step in comparable.of(self.trajectory):
            source = step.source.call or step.source.step
            agent = None
            if source is not None:
                agent = source.agent
            messages = as_list(as_dict(step.parts["prompt"]).get("messages"))
            values = [(f"{message['role']} message", message) for message in messages]
            values += [(name, step.parts[name]) for name in _OF_A_REQUEST if step.parts[name]]
            for what, value in values:
                if what not in _ANSWERS or agent not in begun:
                    part = PromptPart(agent, step.source.step_number, what, value)
                    parts.setdefault((agent, what, json_digest(value)), part)
            begun.add(agent)
        return [*parts.values()]


def _calls_in(step: AgentStep) -> list[StepCall]:
    is_of_one_answer = step.interaction is not None and len(step.interaction_ids) <= 1
    return [StepCall(step.step_number, call, is_of_one_answer) for call in step.tool_calls]


def _text(error: ErrorInfo) -> str:
    return f"{error.type}: {error.message}"
