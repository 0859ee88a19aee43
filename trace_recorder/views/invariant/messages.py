"""The events of a run in Invariant's form: messages in the order of time, each once.

A message is at the place where it was first sent, in the order of all agents. So a history that was rewritten, or that
several calls share, is not repeated. Tool messages have both `tool_call_id` and `id`, because the format's readers
differ. An id that occurs twice within a run is made unique.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from trace_recorder.imports.foreign.invariant import name_of_part
from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.content_parts import Image, Part, Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, ToolCall, ToolResult, without_none
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.content.openai_functions import arguments_of, call_of
from trace_recorder.views.content.parts import chat_part
from trace_recorder.views.conversations.steps_of_turns import (
    AnsweredTurn,
    UnrequestedTools,
    answered_turns,
    message_of,
    unrequested_tools_of,
)
from trace_recorder.views.conversations.turn import Turn, agent_key, answer_of
from trace_recorder.views.replayed_calls import origin_of

_ROLES = {"developer": "system"}


@dataclass(slots=True)
class Events:
    """The messages of a run.

    `answers` has the position of the model's answer in each step. `names` are the ids under which calls were written.
    """

    messages: list[dict[str, Payload]] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    names: dict[tuple[str | None, str], str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)

    @classmethod
    def of(cls, trajectory: Trajectory) -> Events:
        """Gather the events of a run."""
        events = cls()
        unasked = deque(sorted(unrequested_tools_of(trajectory), key=lambda one: one.step.timestamp))
        for one in answered_turns(trajectory):
            while unasked and unasked[0].step.timestamp < one.interaction.timestamp:
                events.run(unasked.popleft())
            events.turns.append(one.turn)
            for message in one.turn.new_messages:
                events._tell(message, one.interaction)
            if one.turn.answered:
                events.answer(one)
        for left in unasked:
            events.run(left)
        return events

    def answer(self, answered: AnsweredTurn) -> None:
        """Add the answer of the model, and the results of its tools that no request has."""
        agent, message = agent_key(answered.interaction), answer_of(answered.response)
        if answered.step is not None:
            self.answers.setdefault(number_or_text(answered.step.step_number), len(self.messages))
        self._tell(message, answered.interaction, **_about(answered))
        for result in answered.results:
            self.results[self.names.get((agent, result.call_id), result.call_id)] = result
        shown = {shown.call_id for shown in answered.next_messages}
        for tool in answered.tool_messages():
            if tool.call_id not in shown:
                self._tell(tool, answered.interaction, shown_to_model=False)

    def run(self, tools: UnrequestedTools) -> None:
        """Add tools that ran although no model requested them."""
        origin = {"asked_by_model": False, "shown_to_model": False}
        moment = {"timestamp": tools.step.timestamp, "step_number": tools.step.step_number}
        self._tell(Message("assistant", None, tools.calls), tools.step, **moment, **origin)
        for result in tools.results:
            name = self.names[agent_key(tools.step), result.call_id]
            self.results[name] = result
            self._tell(message_of(result), tools.step, **origin)

    def _tell(self, message: Message, call: LLMInteraction | AgentStep, **members: Payload) -> None:
        content, lost = _content(message)
        agent = agent_key(call)
        whose = {"agent": call.agent, "agent_id": call.agent_id, "parent_agent_id": call.parent_agent_id}
        metadata = without_none(**whose, **members, **_besides(message), parts=lost or None)
        event: dict[str, Payload] = {"role": _ROLES.get(message.role, message.role), "content": content}
        if message.tool_calls:
            event["tool_calls"] = [self._call(call, agent) for call in message.tool_calls]
        if message.role == "tool" and message.call_id:
            name = self.names.get((agent, message.call_id), message.call_id)
            event |= {"tool_call_id": name, "id": name}
            result = self.results.get(name)
            if result is not None and result.result not in (None, content):
                metadata["result"] = result.result
        self.messages.append({**event, "metadata": metadata})

    def _call(self, call: ToolCall, agent: str | None) -> dict[str, Payload]:
        name, number = call.call_id, 1
        while name in self.taken:
            number += 1
            name = f"{call.call_id}#{number}"
        self.taken.add(name)
        self.names[agent, call.call_id] = name
        metadata = without_none(extra=call.extra or None, id_made_up=call.call_id_made_up or None)
        return call_of(call, arguments_of(call)) | {"id": name} | ({"metadata": metadata} if metadata else {})


def _about(answered: AnsweredTurn) -> dict[str, Payload]:
    call, response = answered.interaction, answered.response
    others = [choice for number, choice in enumerate(response.choices) if number != answered.choice]
    usage = response.usage.to_document() or None
    return without_none(
        interaction_id=call.interaction_id,
        timestamp=call.timestamp,
        step_number=answered.step.step_number if answered.step else None,
        provider=call.provider,
        api=call.api,
        model=response.model or call.model,
        finish_reason=response.finish_reason,
        usage=usage if answered.turn.was_made else None,
        replayed_from=origin_of(call, usage),
        duration_seconds=call.duration_seconds,
        complete=None if call.complete else False,
        other_answers=[choice.to_document() for choice in others] or None,
    )


def _besides(message: Message) -> dict[str, Payload]:
    """Return the members of a message other than its content."""
    extra = {name: value for name, value in message.extra.items() if name not in {"images", "is_error"}}
    return {
        "reasoning": message.reasoning,
        "name": message.name,
        "original_role": message.role if message.role in _ROLES else None,
        "is_error": message.extra.get("is_error"),
        "extra": extra or None,
    }


def _content(message: Message) -> tuple[Payload, list[Payload]]:
    """Return a message's content, and the parts for which the format has no place.

    A text in the content names these parts.
    """
    parts = parts_of(message)
    if not parts:
        return (None if message.tool_calls else ""), []
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text, []
    return [_chunk(part) for part in parts], [chat_part(part) for part in parts if not _has_place(part)]


def _has_place(part: Part) -> bool:
    """Whether the format has a place for a part.

    It has one for texts and for included images: the Explorer shows only data URIs.
    """
    return isinstance(part, Text) or (isinstance(part, Image) and part.url is None)


def _chunk(part: Part) -> Payload:
    if _has_place(part):
        return chat_part(part)
    return {"type": "text", "text": name_of_part(chat_part(part))}
