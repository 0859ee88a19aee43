"""The steps of one run in the form in which they are compared with those of another.

Of a prompt, only what is new since an earlier call of the agent is compared: the messages that the earlier prompt does
not have, without its answer and without the tool results that its step has. Work grows with the new messages, since
calls share the others; where a history is changed near its beginning, what follows is looked up in the earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, ToolResult, without_none
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.comparison.left_aside import Ignored, LeftAside
from trace_recorder.views.content.distinct_messages import messages_beyond
from trace_recorder.views.conversations.call_chains import agent_key
from trace_recorder.views.conversations.steps_and_calls import StepOrCall, steps_and_calls

Kind = Literal["prompt", "tools", "parameters", "answer", "tool_call", "tool_result"]
KINDS: tuple[Kind, ...] = ("prompt", "tools", "parameters", "answer", "tool_call", "tool_result")
"""What of a step is compared by its value, in the order of time. Models are compared in `trajectory_diff.py`."""
MAX_EARLIER_PROMPTS = 8
"""A prompt continues the one of the agent's last calls with which it has the longest beginning in common."""


@dataclass(frozen=True, slots=True)
class ComparableStep:
    """A step or a call. `parts` are the values that are compared, by their kinds; `digests` identify them."""

    source: StepOrCall
    parts: Mapping[Kind, Payload]
    digests: Mapping[Kind, bytes]

    @property
    def key(self) -> bytes:
        """Identifies the answer and the tool calls, by which steps of two runs are aligned."""
        return self.digests["answer"] + self.digests["tool_call"]


@dataclass(slots=True)
class _EarlierPrompt:
    messages: SharedSequence[Message]
    answer: LLMResponse
    tools: bytes


@dataclass(slots=True)
class ComparableSteps:
    """Makes the steps of one run comparable, one after another."""

    ignore: Collection[Ignored]
    _left_aside: LeftAside = field(init=False)
    _digests: dict[int, tuple[object, bytes]] = field(default_factory=dict)
    _earlier: dict[str | None, list[_EarlierPrompt]] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._left_aside = LeftAside(self.ignore)

    def of(self, trajectory: Trajectory) -> list[ComparableStep]:
        """Return the steps and calls of a run in the order of time."""
        return [*map(self._step, steps_and_calls(trajectory))]

    def _step(self, source: StepOrCall) -> ComparableStep:
        calls, results = source.tool_calls, source.tool_results
        found: dict[str, Payload] = {
            **(self._given_prompt(source.step) if source.call is None else self._request(source.call)),
            "answer": None if source.response is None else self._answer(source.response, source.call),
            "tool_call": [*map(self._tool_call, calls)],
            "tool_result": [*map(self._tool_result, _in_order(calls, results))],
        }
        self._answered |= {one.call_id for one in results}
        parts = {kind: None if kind in self.ignore else found.get(kind) for kind in KINDS}
        return ComparableStep(source, parts, {kind: _digest(value) for kind, value in parts.items()})

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _given_prompt(self, step: AgentStep | None) -> dict[str, Payload]:
        """Return what a step without a call was recorded with."""
        given = step.messages if step else None
        return {"prompt": {"messages": [*map(self._message, given)]}} if given else {}

    def _request(self, call: LLMInteraction) -> dict[str, Payload]:
        reading = call.source.request()
        messages, tools = SharedSequence.of(reading.messages), [tool.raw or tool.name for tool in reading.tools]
        digest = self._cached_digest(reading.tools, tools)
        earlier = self._earlier.setdefault(agent_key(call), [])
        before, kept = self._continued(messages, earlier)
        earlier.append(_EarlierPrompt(messages, call.response, digest))
        del earlier[:-MAX_EARLIER_PROMPTS]
        beyond, gone = self._beyond(messages, before, kept)
        new = [self._message(one) for one in beyond if not self._is_known(one, before)]
        parameters = {**reading.parameters}
        parameters.pop("model", None)
        return {
            "prompt": {"messages": new} | without_none(removed_messages=gone or None),
            "tools": tools if before is None or before.tools != digest else None,
            "parameters": self._left_aside.without(parameters),
        }

    def _continued(
        self, messages: SharedSequence[Message], earlier: Sequence[_EarlierPrompt]
    ) -> tuple[_EarlierPrompt | None, int]:
        """Return the prompt that a prompt continues, and how many messages both have in common at their beginning."""
        found: tuple[_EarlierPrompt | None, int] = earlier[-1] if earlier else None, 0
        for one in reversed(earlier):
            length = self._common_length(messages, one.messages)
            if length > found[1] or one is found[0]:
                found = one, length
        return found

    def _common_length(self, messages: SharedSequence[Message], before: SharedSequence[Message]) -> int:
        length, shorter = messages.shared_length(before), min(len(messages), len(before))
        while length < shorter and self._message_digest(messages[length]) == self._message_digest(before[length]):
            length += 1
        return length

    def _beyond(
        self, messages: SharedSequence[Message], before: _EarlierPrompt | None, kept: int
    ) -> tuple[list[Message], int]:
        """Return the messages that the prompt before does not have, and how many of its messages are gone."""
        others = before.messages[kept:] if before else ()
        beyond, left = messages_beyond(messages[kept:], others, self._message_digest)
        return beyond, left if kept or len(beyond) < len(messages) - kept else 0

    def _is_known(self, message: Message, before: _EarlierPrompt | None) -> bool:
        """Whether a new message is the answer of the call before, or the result of a call that was compared."""
        if message.role == "tool" and message.call_id in self._answered:
            self._answered.discard(message.call_id)  # what is sent again later was changed
            return True
        if before is None or message.role != "assistant":
            return False
        said, own = before.answer, [(call.name, call.arguments) for call in message.tool_calls]
        return own == [(call.name, call.arguments) for call in said.tool_calls] and (message.content or "") == (
            said.content or ""
        )

    def _message(self, message: Message) -> Payload:
        return self._left_aside.without(message.to_document())

    def _message_digest(self, message: Message) -> bytes:
        return self._cached_digest(message, message)

    def _cached_digest(self, owner: object, value: Payload) -> bytes:
        """Return the digest of a value that is made of an object, computed once for each object."""
        if id(owner) not in self._digests:
            value = self._message(value) if isinstance(value, Message) else value
            self._digests[id(owner)] = owner, _digest(value)
        return self._digests[id(owner)][1]

    # ── what came back ───────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, response: LLMResponse, call: LLMInteraction | None) -> Payload:
        others = [
            without_none(content=one.content, tool_calls=[self._tool_call(each) for each in one.tool_calls] or None)
            for one in response.choices[1:]
        ]
        said = without_none(
            content=response.content or None,
            reasoning=None if "reasoning" in self.ignore else response.reasoning or None,
            finish_reason=response.finish_reason,
            other_choices=others or None,
            error=call.error.to_document() if call and call.error else None,
        )
        return self._left_aside.without(said)

    def _tool_call(self, call: ToolCall) -> Payload:
        return self._left_aside.without({"call_id": call.call_id, "name": call.name, "arguments": call.arguments})

    def _tool_result(self, result: ToolResult) -> Payload:
        said = {"success": result.success, "result": result.result, "error": result.error}
        return self._left_aside.without({"call_id": result.call_id} | without_none(name=result.name, **said))


def _in_order(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Iterator[ToolResult]:
    """Yield results in the order of their calls: tools that ran at once end in any order."""
    places = {call.call_id: place for place, call in enumerate(calls)}
    yield from sorted(results, key=lambda one: places.get(one.call_id, len(places)))


def _digest(value: Payload) -> bytes:
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()
