"""The steps of one run, in the form in which they are compared with those of another run.

Only the new messages of a prompt are compared (`conversations/compared_prompts.py`). The answer of the earlier prompt
and the tool results of its step are not new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import json_digest, without_cache_marks
from trace_recorder.values.message_table import EqualMessages, Key
from trace_recorder.values.messages import LLMResponse, Message, Payload, Tool, ToolCall, ToolResult, without_none
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.comparison.left_aside import Ignored, LeftAside
from trace_recorder.views.conversations.compared_prompts import ComparedPrompts, answer_text
from trace_recorder.views.conversations.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.views.conversations.turn import Turn, agent_key
from trace_recorder.views.conversations.turns_of_run import turns_of

Kind = Literal["prompt", "tools", "parameters", "answer", "tool_call", "tool_result"]
KINDS: tuple[Kind, ...] = ("prompt", "tools", "parameters", "answer", "tool_call", "tool_result")
"""The parts of a step that are compared by value, in the order of time. `trajectory_diff.py` compares models."""


@dataclass(frozen=True, slots=True)
class ComparableStep:
    """A step or a call. `parts` are the values that are compared, by their kinds; `digests` identify them."""

    source: StepOrCall
    parts: Mapping[Kind, Payload]
    digests: Mapping[Kind, bytes]

    @property
    def key(self) -> bytes:
        """Identifies the answer and the tool calls. Steps of two runs are aligned by it."""
        return self.digests["answer"] + self.digests["tool_call"]


@dataclass(slots=True)
class ComparableSteps:
    """Makes the steps of one run comparable, one after another."""

    ignore: Collection[Ignored]
    _left_aside: LeftAside = field(init=False)
    _prompts: ComparedPrompts = field(init=False)
    _turns: dict[str, Turn] = field(default_factory=dict)
    _answers: dict[str, str] = field(default_factory=dict)
    _tools: dict[str | None, Sequence[Tool]] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._left_aside = LeftAside(self.ignore)
        self._prompts = ComparedPrompts(EqualMessages(_key_without(frozenset(self.ignore))))

    def of(self, trajectory: Trajectory) -> list[ComparableStep]:
        """Return the steps and calls of a run in the order of time."""
        self._turns = {turn.interaction.interaction_id: turn for turn in turns_of(trajectory)}
        return [*map(self._step, steps_and_calls(trajectory))]

    def _step(self, source: StepOrCall) -> ComparableStep:
        calls, results = source.tool_calls, source.tool_results
        members: dict[str, Payload] = {
            **(self._given_prompt(source.step) if source.call is None else self._request(source.call)),
            "answer": None if source.response is None else self._answer(source.response, source.call),
            "tool_call": [*map(self._tool_call, calls)],
            "tool_result": [*map(self._tool_result, _in_order(calls, results))],
        }
        self._answered |= {one.call_id for one in results}
        parts = {kind: None if kind in self.ignore else members.get(kind) for kind in KINDS}
        return ComparableStep(source, parts, {kind: json_digest(value) for kind, value in parts.items()})

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _given_prompt(self, step: AgentStep | None) -> dict[str, Payload]:
        """Return the request parts that a step without a call was recorded with."""
        given = step.messages if step else None
        return {"prompt": {"messages": [*map(self._message, given)]}} if given else {}

    def _request(self, call: LLMInteraction) -> dict[str, Payload]:
        reading = call.source.request()
        prompt = self._prompts.add_call(call, self._turns.get(call.interaction_id))
        answer = self._answers.get(prompt.base or "")
        beyond = [reading.messages[place] for place in prompt.comparison.new]
        new = [self._message(one) for one in beyond if not self._is_known(one, answer)]
        parameters = {**reading.parameters}
        parameters.pop("model", None)
        self._answers[call.interaction_id] = answer_text(call.response)
        return {
            "prompt": {"messages": new} | without_none(removed_messages=prompt.gone or None),
            "tools": self._changed_tools(call, reading.tools),
            "parameters": self._left_aside.without(parameters),
        }

    def _changed_tools(self, call: LLMInteraction, tools: Sequence[Tool]) -> list[Payload] | None:
        """Return the tools that a call offers, or None if the agent's previous call offered the same."""
        before, agent = self._tools, agent_key(call)
        is_same = agent in before and (before[agent] is tools or [*before[agent]] == [*tools])
        before[agent] = tools
        return None if is_same else [tool.raw or tool.name for tool in tools]

    def _is_known(self, message: Message, answer: str | None) -> bool:
        """Whether a new message is the answer of the call before, or the result of a call that was compared."""
        if message.role == "tool" and message.call_id in self._answered:
            self._answered.discard(message.call_id)  # the agent changed it before it sent it again
            return True
        return answer is not None and message.role == "assistant" and answer_text(message) == answer

    def _message(self, message: Message) -> Payload:
        return self._left_aside.without(message.to_document())

    # ── what came back ───────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, response: LLMResponse, call: LLMInteraction | None) -> Payload:
        others = [
            without_none(content=one.content, tool_calls=[self._tool_call(each) for each in one.tool_calls] or None)
            for one in response.choices[1:]
        ]
        members = without_none(
            content=response.content or None,
            reasoning=None if "reasoning" in self.ignore else response.reasoning or None,
            finish_reason=response.finish_reason,
            other_choices=others or None,
            error=call.error.to_document() if call and call.error else None,
        )
        return self._left_aside.without(members)

    def _tool_call(self, call: ToolCall) -> Payload:
        return self._left_aside.without({"call_id": call.call_id, "name": call.name, "arguments": call.arguments})

    def _tool_result(self, result: ToolResult) -> Payload:
        said = {"success": result.success, "result": result.result, "error": result.error}
        return self._left_aside.without({"call_id": result.call_id} | without_none(name=result.name, **said))


@cache
def _key_without(ignore: frozenset[Ignored]) -> Key:
    """Return a key that is equal for messages that differ only in what is ignored."""
    left_aside = LeftAside(ignore)
    return lambda message: json_digest(left_aside.without(without_cache_marks(message.to_document())))


def _in_order(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Iterator[ToolResult]:
    """Yield results in the order of their calls, because tools that run at once end in any order."""
    yield from (use.result for use in tool_uses(calls, results) if use.result is not None)
