"""The steps of a run, in a form that can be compared with the steps of a second run.

Only the new messages of a prompt are compared (`reading/relations/prompt_relations.py`). A prompt repeats the answer
and the tool results of the step before it; these do not count as new. Ids and times are removed from values, unless the
caller compares ids and times too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from trace_recorder.dialects.json_access import map_inside
from trace_recorder.reading.relations.prompt_relations import PromptRelation, PromptRelations, relations_of
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.reading.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import json_digest, without_cache_marks
from trace_recorder.values.messages import LLMResponse, Message, Payload, Tool, ToolCall, ToolResult, without_none
from trace_recorder.values.structs import Struct
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import Trajectory

Ignored = Literal[
    "ids", "times", "prompt", "model", "tools", "parameters", "answer", "reasoning", "tool_call", "tool_result"
]
"""The differences that `diff` can ignore: in ids, in times, or in one part of a step."""

_ID_NAMES = frozenset({"id", "call_id", "tool_call_id", "tool_use_id", "item_id", "response_id", "execution_id"})
_TIME_NAMES = frozenset({"timestamp", "time", "created", "created_at", "duration_seconds"})
_VALUES = frozenset({"arguments", "input", "args", "result", "response"})
"""Members that have the arguments or the result of a tool. An `id` in such a value is not the id of a call."""
_ID = re.compile(
    r"\b(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?:call|toolu|resp|msg|chatcmpl|req)[_-][A-Za-z0-9]{6,})\b"
)
_TIME = re.compile(
    r"\d(?:(?<=\b\d)(?:\d{3}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d:\d\d:\d\d(?:[.,]\d+)?\b)"
    r"|(?<=\bin \d)\d*\.\d+ ?s(?:econds)?\b)"  # durations, as test runners print them
)
"""All alternatives begin with the same digit, because `re` then goes from digit to digit in a fifth of the time."""


class IdAndTimeStripper:
    """Removes ids from values if `ignore` has "ids", times if it has "times", and the texts that `patterns` match."""

    def __init__(self, ignore: Collection[Ignored], patterns: Iterable[re.Pattern[str]] = ()) -> None:
        self._names: set[str] = set()
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        if "ids" in ignore:
            self._names |= _ID_NAMES
            self._patterns.append((_ID, "<ids>"))
        if "times" in ignore:
            self._names |= _TIME_NAMES
            self._patterns.append((_TIME, "<times>"))
        self._patterns += ((pattern, "<ignored>") for pattern in patterns)
        self._texts: dict[str, str] = {}

    def without(self, value: Payload, *, of_tool: bool = False) -> Payload:
        """Return a value without ids and times.

        If `of_tool` is True, the value is a tool's arguments or result. Then ids and times are removed from texts, but
        no member is removed.
        """
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self._text_without(value)
        if of_tool or not isinstance(value, dict):
            return map_inside(partial(self.without, of_tool=of_tool), value)
        kept = ((name, member) for name, member in value.items() if name not in self._names)
        return {name: self.without(member, of_tool=name in _VALUES) for name, member in kept}

    def _text_without(self, text: str) -> str:
        """Return a text without ids and times. Each text is searched once: prompts and the other run have it again."""
        stripped = self._texts.get(text)
        if stripped is None:
            stripped = text
            for pattern, name in self._patterns:
                stripped = pattern.sub(name, stripped)
            self._texts[text] = stripped
        return stripped


_NO_PART = json_digest(None)
"""The digest of a part that a step does not have. Most steps lack some parts."""
PartKind = Literal["prompt", "tools", "parameters", "answer", "tool_call", "tool_result"]
KINDS: tuple[PartKind, ...] = ("prompt", "tools", "parameters", "answer", "tool_call", "tool_result")
"""The kinds of values that are compared in each step, in the order in which they occur.

`trajectory_diff.py` compares models.
"""


class ComparableStep(Struct, frozen=True, gc=False):
    """A step or a call of a run, with the values that are compared.

    `parts` has these values by their kinds, and `digests` has a digest of each value.
    """

    source: StepOrCall
    parts: Mapping[PartKind, Payload]
    digests: Mapping[PartKind, bytes]

    @property
    def key(self) -> bytes:
        """A digest of the answer and the tool calls. Steps of two runs with equal keys are aligned."""
        return self.digests["answer"] + self.digests["tool_call"]


@dataclass(slots=True)
class ComparableSteps:
    """Makes the `ComparableStep`s of a run, one after another. Runs may follow each other."""

    ignore: Collection[Ignored]
    ignored_texts: Collection[re.Pattern[str]] = ()
    _stripper: IdAndTimeStripper = field(init=False)
    _relations: PromptRelations = field(default_factory=PromptRelations)
    _tools: dict[str | None, Sequence[Tool]] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._stripper = IdAndTimeStripper(self.ignore, self.ignored_texts)

    def of(self, trajectory: Trajectory) -> list[ComparableStep]:
        """Return the steps and calls of a run in the order of time."""
        self._relations, self._tools, self._answered = relations_of(trajectory), {}, set()
        return [*map(self._step, steps_and_calls(trajectory))]

    def _step(self, source: StepOrCall) -> ComparableStep:
        calls, results = source.tool_calls, source.tool_results
        parts: dict[PartKind, Payload] = dict.fromkeys(KINDS)
        if source.call is not None:
            parts |= self._request(source.call)
        elif source.step is not None and source.step.messages:
            parts["prompt"] = {"messages": [*map(self._message, source.step.messages)]}
        if source.response is not None:
            parts["answer"] = self._answer(source.response, source.call)
        parts["tool_call"] = [*map(self._tool_call, calls)]
        # in the order of their calls, because tools that run at once end in any order
        parts["tool_result"] = [
            self._tool_result(use.result) for use in tool_uses(calls, results) if use.result is not None
        ]
        self._answered |= {result.call_id for result in results}
        for kind in KINDS:
            if kind in self.ignore:
                parts[kind] = None
        digests = dict.fromkeys(KINDS, _NO_PART)
        for kind, value in parts.items():
            if value is not None:
                digests[kind] = json_digest(value)
        return ComparableStep(source, parts, digests)

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _request(self, call: LLMInteraction) -> dict[PartKind, Payload]:
        reading = call.source.request()
        relation = self._relations.of(call)
        new, gone = self._changed_messages(relation, call.input_messages)
        parameters = {**reading.parameters}
        parameters.pop("model", None)
        return {
            "prompt": {"messages": new} | without_none(removed_messages=gone or None),
            "tools": self._changed_tools(call, reading.tools),
            "parameters": self._stripper.without(parameters),
        }

    def _changed_tools(self, call: LLMInteraction, tools: Sequence[Tool]) -> list[Payload] | None:
        """Return the tools that a call offers, or None if the agent's previous call offered the same tools."""
        before, agent = self._tools, key_of_agent(call)
        is_same = agent in before and (before[agent] is tools or [*before[agent]] == [*tools])
        before[agent] = tools
        if is_same:
            return None
        return [tool.raw or tool.name for tool in tools]

    def _changed_messages(self, relation: PromptRelation, messages: Sequence[Message]) -> tuple[list[Payload], int]:
        """Return the new messages of a prompt, and how many messages of the earlier prompt are gone.

        If a new message differs from a gone message only in ignored ids and times, neither of the two counts.
        """
        equal = self._relations.messages.messages
        gone = Counter(self._key(equal[number]) for number in relation.comparison.gone)
        removed = relation.gone
        new = []
        for place in relation.comparison.new:
            message = messages[place]
            key = self._key(message) if gone else b""
            if gone[key] > 0:
                gone[key] -= 1
                removed = max(0, removed - 1)
            elif not (place in relation.answers or self._is_shown_result(message)):
                new.append(self._message(message))
        return new, removed

    def _is_shown_result(self, message: Message) -> bool:
        """Whether a new message is a tool result that was compared already.

        The agent changed the result before it sent the result again.
        """
        if message.role != "tool" or message.call_id not in self._answered:
            return False
        self._answered.discard(message.call_id)
        return True

    def _key(self, message: Message) -> bytes:
        return json_digest(self._stripper.without(without_cache_marks(message.to_document())))

    def _message(self, message: Message) -> Payload:
        return self._stripper.without(message.to_document())

    # ── what came back ───────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, response: LLMResponse, call: LLMInteraction | None) -> Payload:
        others = [
            without_none(content=choice.content, tool_calls=[*map(self._tool_call, choice.tool_calls)] or None)
            for choice in response.choices[1:]
        ]
        members = without_none(
            content=response.content or None,
            reasoning=response.reasoning or None,
            finish_reason=response.finish_reason,
            other_choices=others or None,
        )
        if "reasoning" in self.ignore:
            members.pop("reasoning", None)
        if call is not None and call.error is not None:
            members["error"] = call.error.to_document()
        return self._stripper.without(members)

    def _tool_call(self, call: ToolCall) -> Payload:
        return self._stripper.without({"call_id": call.call_id, "name": call.name, "arguments": call.arguments})

    def _tool_result(self, result: ToolResult) -> Payload:
        members = {"success": result.success, "result": result.result, "error": result.error}
        return self._stripper.without({"call_id": result.call_id} | without_none(name=result.name, **members))
