"""The answers about one run as JSON (`docs/viewer-interface.md`), computed from its `Trajectory`.

`RunAnswers` answers from the trajectory that `update` got last. When the run has grown, `update` keeps the entries that
did not change, and each message keeps its number. `since` returns the changes since an earlier version. This module
reads no files and does not depend on HTTP.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trace_recorder.figures.conversations.inferred_agents import InferredAgent
from trace_recorder.figures.cost import Price
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, Tool
from trace_recorder.values.number_ranges import RangeDivider
from trace_recorder.values.prompt_comparison import ranges_of
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.viewer.outline import (
    Agents,
    Clock,
    References,
    interaction_entry,
    run_facts,
    step_entry,
    step_of_interaction,
)
from trace_recorder.viewer.parts import CUT, WHOLE, Json, TextLimits, interaction_detail, message_json, step_detail
from trace_recorder.viewer.prompts import Prompts
from trace_recorder.viewer.raw import RawItems, raw_answer

Element = TypeVar("Element")


class RunAnswers:
    """The answers about one run. `price` replaces the table of prices for estimates of costs."""

    def __init__(self, trajectory: Trajectory, price: Price | None = None) -> None:
        self.trajectory = trajectory
        self.version = 0
        self._price = price
        self._prompts = Prompts()
        self._tool_lists = _DistinctValues()
        self._parameters = _DistinctValues()
        self._interactions = _Entries()
        self._steps = _Entries()
        self._entry_sources: list[tuple[LLMInteraction, References]] = []
        self._step_sources: list[tuple[AgentStep, tuple[InferredAgent | None, ...]]] = []
        self._agents = Agents()
        self._raw_ranges: dict[str, RangeDivider] = defaultdict(RangeDivider)
        self.update(trajectory)

    def update(self, trajectory: Trajectory) -> None:
        """Replace the trajectory by the newest state of the run."""
        self.version += 1
        self.trajectory = trajectory
        self._agents = Agents.of(trajectory)
        self._prompts.update(trajectory)
        self._update_interactions(trajectory, Clock.of(trajectory))
        self._update_steps(trajectory, Clock.of(trajectory))

    def _update_interactions(self, trajectory: Trajectory, clock: Clock) -> None:
        steps = step_of_interaction(trajectory.agent_steps)
        side_calls = self._prompts.side_calls(trajectory)
        entries, sources = [], []
        for number, interaction in enumerate(trajectory.llm_interactions, start=1):
            references = self._references(number, interaction, steps.get(interaction.interaction_id), side_calls)
            before = None
            if number <= len(self._entry_sources):
                before = self._entry_sources[number - 1]
            if before is not None and before[0] is interaction and before[1] == references:
                entries.append(self._interactions.entries[number - 1])
            else:
                entries.append(interaction_entry(interaction, references, clock, self._price))
            sources.append((interaction, references))
        self._entry_sources = sources
        self._interactions.replace(entries, self.version)

    def _references(
        self, number: int, interaction: LLMInteraction, step: int | None, side_calls: frozenset[str]
    ) -> References:
        tool_list = parameters = None
        if interaction.source.has_request():
            request = interaction.source.request_without_messages()
            tool_list = self._tool_lists.number(request.tools, _tool_list, self.version)
            parameters = self._parameters.number(request.parameters, lambda parameters: parameters, self.version)
        agent = self._agents.of_run.of(interaction)
        return References(
            number,
            agent.key,
            step,
            self._prompts.shown[number - 1],
            tool_list,
            parameters,
            is_side_call=interaction.interaction_id in side_calls,
            is_agent_inferred=agent.inferred is not None,
            is_running=self.trajectory.status == "running",
        )

    def _update_steps(self, trajectory: Trajectory, clock: Clock) -> None:
        steps = trajectory.agent_steps
        numbers = {call.interaction_id: number for number, call in enumerate(trajectory.llm_interactions, start=1)}
        entries, sources = [], []
        for index, step in enumerate(steps):
            inferred = self._agents.inferred_around(step)
            before = None
            if index < len(self._step_sources):
                before = self._step_sources[index]
            if before is not None and _is_same_step(before[0], step) and before[1] == inferred:
                entries.append(self._steps.entries[index])
            else:
                entries.append(step_entry(index + 1, step, numbers, clock, self._agents))
            sources.append((step, inferred))
        self._step_sources = sources
        self._steps.replace(entries, self.version)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def outline(self, limits: TextLimits = CUT) -> Json:
        """Return the outline of the run."""
        return {**self._facts(limits), **self._new_values(0), **self._changed_entries(0)}

    def since(self, version: int) -> Json:
        """Return the changes since an earlier `version`."""
        return {**self._facts(CUT), **self._new_values(version), **self._changed_entries(version)}

    def _facts(self, limits: TextLimits) -> Json:
        facts = run_facts(self.trajectory, limits)
        return {"run": facts, "counts": self.counts, "agents": self._agents.to_json()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of interactions, steps, messages, tool lists, parameter sets and items."""
        return {
            "interactions": len(self._interactions.entries),
            "steps": len(self._steps.entries),
            "messages": len(self._prompts.messages),
            "tool_lists": len(self._tool_lists.values),
            "parameters": len(self._parameters.values),
            "items": RawItems.of(self.trajectory).count,
        }

    def _new_values(self, version: int) -> Json:
        return {
            "tool_lists": self._tool_lists.since(version),
            "parameters": self._parameters.since(version),
        }

    def _changed_entries(self, version: int) -> Json:
        return {"interactions": self._interactions.since(version), "steps": self._steps.since(version)}

    def messages(self, numbers: Iterable[int], limits: TextLimits = CUT) -> list[Json]:
        """Return messages by their numbers. Raises IndexError if a number does not exist."""
        return [message_json(number, _element(self._prompts.messages, number), limits) for number in numbers]

    def interactions(self, numbers: Iterable[int], limits: TextLimits = CUT) -> list[Json]:
        """Return the model's answers and the attempts of interactions. Raises IndexError."""
        return [interaction_detail(number, self._interaction(number), limits) for number in numbers]

    def interaction(self, number: int) -> Json:
        """Return the model's answer, the attempts and the whole prompt of one interaction. Raises IndexError."""
        detail = interaction_detail(number, self._interaction(number), WHOLE)
        return {**detail, "prompt": ranges_of(self._prompts.numbers_of(self._interaction(number)))}

    def raw(self, number: int) -> Json:
        """Return the raw request and response of an interaction. Raises IndexError."""
        return raw_answer(number, self._interaction(number), self._raw_ranges)

    def items(self, numbers: Iterable[int]) -> list[Json]:
        """Return elements that raw requests refer to, except damaged elements."""
        return RawItems.of(self.trajectory).items(numbers)

    def steps(self, numbers: Iterable[int], limits: TextLimits = CUT, *, server_messages: bool = False) -> list[Json]:
        """Return steps with their tool calls and results. Raises IndexError.

        If `server_messages` is True, the calls of MCP servers have their messages.
        """
        steps = self.trajectory.agent_steps
        return [
            step_detail(number, _element(steps, number - 1), limits, server_messages=server_messages)
            for number in numbers
        ]

    def _interaction(self, number: int) -> LLMInteraction:
        return _element(self.trajectory.llm_interactions, number - 1)


def _element(elements: Sequence[Element], index: int) -> Element:
    if not 0 <= index < len(elements):
        raise IndexError(f"there are {len(elements)}")
    return elements[index]


def _is_same_step(before: AgentStep, step: AgentStep) -> bool:
    """Return whether a step has the same entry as before.

    The entry of a tool with an execution id may get new sub-agents.
    """
    if before.interaction is not step.interaction or any(result.execution_id for result in step.tool_results):
        return False
    return before == step


def _tool_list(tools: Sequence[Tool]) -> Payload:
    return [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]


class _Entries:
    """Entries of an outline, each with the version in which it last changed."""

    def __init__(self) -> None:
        self.entries: list[Json] = []
        self._changed_in: list[int] = []

    def replace(self, entries: list[Json], version: int) -> None:
        """Replace the entries by the entries of a newer version."""
        changed_in = self._changed_in[: len(entries)] + [version] * (len(entries) - len(self.entries))
        for index, (before, entry) in enumerate(zip(self.entries, entries, strict=False)):
            if before is not entry and before != entry:
                changed_in[index] = version
        self.entries, self._changed_in = entries, changed_in

    def since(self, version: int) -> list[Json]:
        """Return the entries that changed after a version."""
        pairs = zip(self.entries, self._changed_in, strict=True)
        return [entry for entry, changed_in in pairs if changed_in > version]


class _DistinctValues:
    """Distinct values, such as lists of tools, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.values: list[Payload] = []
        self._added_in: list[int] = []
        self._by_text: dict[str, int] = {}
        self._by_identity: dict[int, tuple[object, int]] = {}

    def number(self, value: Element, to_json: Callable[[Element], Payload], version: int) -> int:
        """Return the number of a value, and add the value if it is new. Values with equal JSON have one number."""
        known = self._by_identity.get(id(value))
        if known is not None:
            return known[1]
        json_value = to_json(value)
        number = self._by_text.setdefault(json.dumps(json_value, sort_keys=True), len(self.values))
        if number == len(self.values):
            self.values.append(json_value)
            self._added_in.append(version)
        self._by_identity[id(value)] = value, number
        return number

    def since(self, version: int) -> list[Payload]:
        """Return the values that were added after a version."""
        pairs = zip(self.values, self._added_in, strict=True)
        return [value for value, added_in in pairs if added_in > version]
