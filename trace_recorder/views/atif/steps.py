"""The steps of an ATIF document: conversations, message by message.

An answer of the model is an agent step. The result of a tool is in the observation of the step that called it. Every
other message is a user step or a system step. Messages that were copied from an earlier conversation, and answers that
the model did not give in this run, replayed ones among them, are `is_copied_context`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from trace_recorder.imports.atif.members import EXTRA_KEY, kept_in
from trace_recorder.values.messages import Payload, ToolResult, without_none
from trace_recorder.values.trajectory import AgentStep
from trace_recorder.views.atif.media import Media
from trace_recorder.views.atif.step_members import (
    call_members,
    call_step_members,
    extra_of_result,
    model_members,
    recorded_after_answer,
    tools_step,
)
from trace_recorder.views.content.openai_functions import result_text
from trace_recorder.views.conversations.conversation import Conversation, ConversationLine
from trace_recorder.views.conversations.steps_of_turns import StepsByTurn
from trace_recorder.views.conversations.turn import Turn


@dataclass(slots=True)
class Steps:
    """Writes the steps of conversations, one conversation after the other. `at` has the step of each turn."""

    media: Media
    by_turn: StepsByTurn
    side_calls: frozenset[Turn]
    steps: list[dict[str, Payload]] = field(default_factory=list)
    at: dict[Turn, dict[str, Payload]] = field(default_factory=dict)
    _open: dict[str, dict[str, Payload]] = field(default_factory=dict)

    def add(self, conversation: Conversation) -> None:
        """Append the steps of a conversation."""
        self._open = {}
        for line in conversation.lines:
            if line.message.role == "tool":
                self._add_tool_message(line)
            elif line.message.role == "assistant":
                self._agent(line)
            else:
                source = "system" if line.message.role in {"system", "developer"} else "user"
                self._step(line, source, {"message": self.media.content(line.message)})
        for turn in conversation.turns:
            self._add_results(turn)

    def add_kept(self, steps: Iterable[Mapping[str, Payload]]) -> None:
        """Append steps of an imported document that came after the last call."""
        self.steps += [{**step, "step_id": len(self.steps) + n} for n, step in enumerate(steps, start=1)]

    def add_tools(self, tools: Iterable[AgentStep]) -> None:
        """Insert steps of tools that ran without a call, in the order of time."""
        for tool in tools:
            later = (at for at, step in enumerate(self.steps) if step.get("timestamp", "") > tool.timestamp)
            self.steps.insert(next(later, len(self.steps)), tools_step(tool, tool.timestamp))
        for number, step in enumerate(self.steps, start=1):
            step["step_id"] = number

    def _step(self, line: ConversationLine, source: str, members: dict[str, Payload]) -> dict[str, Payload]:
        kept = {} if line.answer or line.message.role == "tool" else kept_in(line.message.extra)
        step = {
            "step_id": len(self.steps) + 1,
            **without_none(timestamp=_timestamp_of(line)),
            "source": source,
            **members,
            **without_none(is_copied_context=line.copied or None),
            **kept,
        }
        self.steps.append(step)
        return step

    def _agent(self, line: ConversationLine) -> None:
        """Write an answer of the model, or one that an agent put into its history."""
        message = line.message
        calls = [call_members(call) for call in message.tool_calls]
        members = {"message": self.media.content(message)}
        members |= without_none(reasoning_content=message.reasoning, tool_calls=calls or None)
        if line.answer:
            told = self.by_turn.steps.get(line.turn, ())
            of_call = call_step_members(line.turn, told, is_side_call=line.turn in self.side_calls)
            step = self._step(line, "agent", model_members(line.turn) | members | of_call)
            self.at[line.turn] = step
            for tools in self.by_turn.unrequested.get(line.turn, ()):
                self.steps.append(tools_step(tools, step.get("timestamp"), len(self.steps) + 1))
        else:
            step = self._step(line, "agent", members)
            if EXTRA_KEY not in message.extra:
                step["is_copied_context"] = True
        self._open.update((call.call_id, step) for call in message.tool_calls)

    def _add_tool_message(self, line: ConversationLine) -> None:
        """Write a tool message into the step that called the tool. If there is no such step, it becomes a step."""
        message = line.message
        kept = kept_in(message.extra)
        step = self._open.get(message.call_id or "")
        if step is None and kept.get("in_step"):
            step = next((one for one in reversed(self.steps) if one["source"] == "agent"), None)
        result = {"content": self.media.content(message), **_only(kept, "subagent_trajectory_ref")}
        if step is None:
            extra = without_none(tool_call_id=message.call_id, tool_name=message.name)
            self._step(line, "system", {"message": "", "observation": {"results": [result]}, "extra": extra})
            return
        failed = message.extra.get("is_error")
        extra = ({"success": not failed} if isinstance(failed, bool) else {}) | kept.get("extra", {})
        _observed_results(step).append(without_none(source_call_id=message.call_id, **result, extra=extra or None))

    def _add_results(self, turn: Turn) -> None:
        """Add the results that the agent recorded for the calls of a turn."""
        step = self.at[turn]
        for one in self.by_turn.steps.get(turn, ()):
            for result in one.tool_results:
                _add_result(step, result, derived=one.derived and result.duration_seconds is None)
        for left in kept_in(turn.interaction.response.extra).get("refs", ()):
            _add_references(step, left)


def _timestamp_of(line: ConversationLine) -> str | None:
    """Return when a prompt was sent or an answer had arrived, or None if that is unknown.

    A call recorded by hand has the time of its answer.
    """
    call = line.turn.interaction
    if recorded_after_answer(call):
        return (call.timestamp or None) if line.answer else None
    if not line.answer:
        return call.timestamp or None
    start = call.started_at
    if call.duration_seconds is None or start is None:
        return None
    return (start + timedelta(seconds=call.duration_seconds)).isoformat()


def _add_result(step: dict[str, Payload], result: ToolResult, *, derived: bool) -> None:
    """Add the members that the agent recorded to the observation of a result. Make the observation if there is none."""
    text = result_text(result)
    observed = next((one for one in _existing_results(step) if _is_result(one, result, text)), None)
    if observed is None:
        called = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        observed = without_none(source_call_id=result.call_id if result.call_id in called else None)
        observed |= {"content": text} if _has_content(result) else {}
        _observed_results(step).append(observed)
    extra = observed.get("extra", {}) | extra_of_result(result, observed.get("content"), derived=derived)
    if extra:
        observed["extra"] = extra


def _observed_results(step: dict[str, Payload]) -> list[Payload]:
    results: list[Payload] = step.setdefault("observation", {"results": []})["results"]
    return results


def _existing_results(step: dict[str, Payload]) -> list[Payload]:
    results: list[Payload] = step.get("observation", {}).get("results", [])
    return results


def _is_result(found: Mapping[str, Payload], result: ToolResult, text: str) -> bool:
    """Whether an observation belongs to a result: by the call id, or by the content if it has no id."""
    if result.call_id:
        return found.get("source_call_id") == result.call_id
    return "source_call_id" not in found and found.get("content") == text


def _has_content(result: ToolResult) -> bool:
    return result.success is not None or result.error is not None or result.result is not None


def _add_references(step: dict[str, Payload], reference: Mapping[str, Payload]) -> None:
    """Restore an imported result that consists of references to other documents."""
    call_id = reference.get("source_call_id")
    found = [one for one in _existing_results(step) if call_id and one.get("source_call_id") == call_id]
    if found:
        found[0].setdefault("subagent_trajectory_ref", []).extend(reference["subagent_trajectory_ref"])
    else:
        _observed_results(step).append(dict(reference))


def _only(members: Mapping[str, Payload], name: str) -> dict[str, Payload]:
    return {name: [*members[name]]} if name in members else {}
