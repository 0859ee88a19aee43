"""Pairs tool calls with their results. Statistics, tables and pages list the tools of a run by these pairs.

A step has its tool calls and its tool results in two lists. Files of other programs may have results without ids, or
the same id several times in one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory, made_once

UNKNOWN_TOOL = "unknown"


class ToolUse(NamedTuple):
    """A tool call with its result, a tool call without a result, or a result that answers no call of its step."""

    name: str
    """The name of the tool. It is `UNKNOWN_TOOL` if neither the call nor the result has a name."""
    call: ToolCall | None
    result: ToolResult | None

    @property
    def failed(self) -> bool:
        """Whether the result says that the tool failed."""
        return self.result is not None and self.result.success is False


def tool_uses(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[ToolUse]:
    """Pair the tool calls of a step with their results, in the order of the calls.

    A result answers the first unanswered call with the same id. Results without an id answer the remaining calls in
    their order, but only if there are as many such results as remaining calls. Results that answer no call come last.
    """
    if not calls and not results:
        return []
    if len(calls) == len(results) == 1 and calls[0].call_id == results[0].call_id != "":  # the most frequent step
        return [ToolUse(calls[0].name or results[0].name or UNKNOWN_TOOL, calls[0], results[0])]
    by_id: dict[str, list[ToolResult]] = {}
    for result in results:
        by_id.setdefault(result.call_id, []).append(result)
    answers: list[ToolResult | None] = []
    for call in calls:
        same_id = by_id.get(call.call_id)
        answers.append(same_id.pop(0) if same_id else None)
    if all(call.call_id for call in calls):
        without_id = by_id.get("", [])
        unanswered = [place for place, answer in enumerate(answers) if answer is None]
        if len(unanswered) == len(without_id):
            for place in unanswered:
                answers[place] = without_id.pop(0)
    uses = []
    for call, answer in zip(calls, answers, strict=True):
        name = call.name or (answer and answer.name) or UNKNOWN_TOOL
        uses.append(ToolUse(name, call, answer))
    names = {use.call.call_id: use.name for use in uses if use.call and use.call.call_id}
    alone = (result for remaining in by_id.values() for result in remaining)
    return uses + [ToolUse(names.get(result.call_id) or result.name or UNKNOWN_TOOL, None, result) for result in alone]


def tool_uses_of(run: Trajectory) -> Sequence[tuple[AgentStep | LLMInteraction, ToolUse]]:
    """Return each tool use of a run with its step, in the order of the steps.

    After that come the tool calls of LLM calls that belong to no step, each with its LLM call. A tool call is left out
    if a step has a tool call with the same id.
    """
    return made_once(run, _tool_uses_of)


def _tool_uses_of(run: Trajectory) -> list[tuple[AgentStep | LLMInteraction, ToolUse]]:
    return [*_each_tool_use(run)]


def _each_tool_use(run: Trajectory) -> Iterator[tuple[AgentStep | LLMInteraction, ToolUse]]:
    in_steps: Counter[str] = Counter()
    interactions_in_steps: set[str] = set()
    for step in run.agent_steps:
        interactions_in_steps.update(step.interaction_ids)
        if step.interaction is not None:
            interactions_in_steps.add(step.interaction.interaction_id)
        for use in tool_uses(step.tool_calls, step.tool_results):
            in_steps[use.call.call_id if use.call else ""] += 1
            yield step, use
    for interaction in run.llm_interactions:
        if interaction.interaction_id in interactions_in_steps:
            continue
        for call in interaction.response.tool_calls:
            if in_steps[call.call_id] > 0:
                in_steps[call.call_id] -= 1
            else:
                yield interaction, ToolUse(call.name or UNKNOWN_TOOL, call, None)
