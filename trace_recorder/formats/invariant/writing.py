"""Invariant: a run as a list of messages, and datasets of runs as JSON lines (`invariant-ai` 0.3.5 reads them).

Each message is written once, at the place where it was first sent. The messages of all agents form one list. So a
history that was rewritten, or that several calls share, is not repeated. Tool messages have the id of their call as
`tool_call_id` and as `id`, because some readers of the format expect the first and some the second. An id that occurs
twice within a run is made unique.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from trace_recorder.figures.call_figures import origin_of
from trace_recorder.figures.content.chat_form import arguments_object, chat_call, chat_part
from trace_recorder.figures.content.kinds import IMAGES
from trace_recorder.figures.conversations.steps_of_turns import (
    AnsweredTurn,
    UnrequestedTools,
    answered_turns,
    message_of_result,
    unrequested_tools_of,
)
from trace_recorder.formats.format_writer import LeftOut, OutputPlace, Piece, view
from trace_recorder.formats.invariant.own_members import (
    AnnotationKind,
    InvariantCallMetadata,
    InvariantMetadata,
    name_of_part,
)
from trace_recorder.formats.left_out import (
    ARGUMENTS,
    ATTEMPTS,
    OTHER_CALLS,
    SAMPLED,
    ContentSupport,
    FormatSupport,
    count,
    count_changed_histories,
    count_unsupported_contents,
)
from trace_recorder.reading.relations.turn import Turn, answer_of, key_of_agent
from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.content_parts import Image, Part, Text, parts_of
from trace_recorder.values.json_text import write_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, ToolCall, ToolResult, without_none
from trace_recorder.values.trajectory import AgentStep, Trajectory

_ROLES = {"developer": "system"}
_NOTHING = InvariantMetadata()


@dataclass(slots=True)
class InvariantMessages:
    """The messages of a run.

    `answers` has the position of each step's answer, by the number of the step. `names` has the id under which each
    tool call was written, by the call's agent and own id. `taken` is the set of the written ids.
    """

    messages: list[dict[str, Payload]] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    names: dict[tuple[str | None, str], str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)

    @classmethod
    def of(cls, trajectory: Trajectory) -> InvariantMessages:
        """Write the messages of a run in the order of time."""
        events = cls()
        unrequested = deque(sorted(unrequested_tools_of(trajectory), key=lambda tools: tools.step.timestamp))
        for answered in answered_turns(trajectory):
            while unrequested and unrequested[0].step.timestamp < answered.interaction.timestamp:
                events._add_tools(unrequested.popleft())
            events.turns.append(answered.turn)
            for message in answered.turn.new_messages:
                events._add_message(message, answered.interaction)
            if answered.turn.answered:
                events._add_answer(answered)
        for tools in unrequested:
            events._add_tools(tools)
        return events

    def _add_answer(self, answered: AnsweredTurn) -> None:
        """Add the answer of the model, and the results of its tools that no request has."""
        agent, message = key_of_agent(answered.interaction), answer_of(answered.response)
        if answered.step is not None:
            self.answers.setdefault(number_or_text(answered.step.step_number), len(self.messages))
        self._add_message(message, answered.interaction, _answer_metadata(answered))
        for result in answered.results:
            self.results[self.names.get((agent, result.call_id), result.call_id)] = result
        shown = {shown.call_id for shown in answered.next_messages}
        for tool in answered.tool_messages():
            if tool.call_id not in shown:
                self._add_message(tool, answered.interaction, {"shown_to_model": False})

    def _add_tools(self, tools: UnrequestedTools) -> None:
        """Add tools that ran although no model requested them."""
        step = tools.step
        moment = InvariantMetadata(
            timestamp=step.timestamp, step_number=step.step_number, asked_by_model=False, shown_to_model=False
        )
        self._add_message(Message("assistant", None, tools.calls), step, moment)
        for result in tools.results:
            name = self.names[key_of_agent(step), result.call_id]
            self.results[name] = result
            self._add_message(message_of_result(result), step, {"asked_by_model": False, "shown_to_model": False})

    def _add_message(
        self, message: Message, call: LLMInteraction | AgentStep, members: InvariantMetadata = _NOTHING
    ) -> None:
        content, lost = _content(message)
        agent = key_of_agent(call)
        of_agent = InvariantMetadata(agent=call.agent, agent_id=call.agent_id, parent_agent_id=call.parent_agent_id)
        of_message = _message_metadata(message)
        of_message["parts"] = lost or None
        metadata = without_none(**of_agent) | without_none(**members) | without_none(**of_message)
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
        members = InvariantCallMetadata(call_id=None, extra=call.extra or None, id_made_up=call.call_id_made_up or None)
        if number > 1:
            members["call_id"] = call.call_id
        written = chat_call(call, arguments_object(call)) | {"id": name}
        metadata = without_none(**members)
        if metadata:
            written["metadata"] = metadata
        return written


def _answer_metadata(answered: AnsweredTurn) -> InvariantMetadata:
    call, response = answered.interaction, answered.response
    others = [choice for number, choice in enumerate(response.choices) if number != answered.choice]
    usage = response.usage.to_document() or None
    metadata = InvariantMetadata(
        interaction_id=call.interaction_id,
        timestamp=call.timestamp,
        step_number=None,
        provider=call.provider,
        api=call.api,
        model=response.model or call.model,
        finish_reason=response.finish_reason,
        usage=None,
        replayed_from=origin_of(call, usage),
        duration_seconds=call.duration_seconds,
        complete=None,
        run_inferred=call.run_inferred or None,
        other_answers=[choice.to_document() for choice in others] or None,
    )
    if answered.step is not None:
        metadata["step_number"] = answered.step.step_number
    if answered.turn.was_made:
        metadata["usage"] = usage
    if not call.complete:
        metadata["complete"] = False
    return metadata


def _message_metadata(message: Message) -> InvariantMetadata:
    extra = {name: value for name, value in message.extra.items() if name not in {"images", "is_error"}}
    metadata = InvariantMetadata(
        reasoning=message.reasoning,
        name=message.name,
        original_role=None,
        is_error=message.extra.get("is_error"),
        extra=extra or None,
    )
    if message.role in _ROLES:
        metadata["original_role"] = message.role
    return metadata


def _content(message: Message) -> tuple[Payload, list[Payload]]:
    """Return a message's content, and the parts that the format does not support.

    In the content, a text names each such part.
    """
    parts = parts_of(message)
    if not parts and message.tool_calls:
        return None, []
    if not parts:
        return "", []
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text, []
    content, lost = [], []
    for part in parts:
        written = chat_part(part)
        if _has_place(part):
            content.append(written)
        else:
            content.append({"type": "text", "text": name_of_part(written)})
            lost.append(written)
    return content, lost


def _has_place(part: Part) -> bool:
    """Whether the format supports a part.

    The format supports texts, and images whose data the message has. Invariant's Explorer shows no other images.
    """
    return isinstance(part, Text) or (isinstance(part, Image) and part.url is None)


_ELSEWHERE = frozenset({"schema_version", "history", "annotations", "rewards"})
"""Members of the document that are not metadata.

Two of them describe the form of the document, and two become annotations.
"""
_SHOWN = ContentSupport.of(IMAGES)
_SUPPORTED: FormatSupport = {"instructions": _SHOWN, "questions": _SHOWN, "tool results": _SHOWN}
"""Images are supported if the message has their data.

Thoughts, parts that are not images, and further members of messages are in `metadata`.
"""
ROOT = "<root>"
"""The address of annotations that describe a whole run."""


def to_invariant(trajectory: Trajectory) -> list[dict[str, Payload]]:
    """Return a run as a list of messages: system, user, assistant, tool.

    The `metadata` of a message has the facts for which a message has no member: the agent, the interaction, thinking,
    and parts that are neither text nor an included image. A run without messages is an empty list.
    """
    return InvariantMessages.of(trajectory).messages


@view
def to_invariant_dataset(
    left_out: LeftOut, trajectories: Iterable[Trajectory], metadata: Mapping[str, Payload] | None = None
) -> Iterator[str]:
    """Yield a dataset line by line: its `metadata` first, if it is given, then one object for each run.

    Each object has the run's messages, its metadata, its number as `index`, and its id as `name`. The annotations of an
    object are the rewards and annotations of the run, and the notes of its steps. Each annotation has the address of
    the message that it describes.
    """
    if metadata is not None:
        yield _json({"metadata": dict(metadata)})
    for index, trajectory in enumerate(trajectories):
        events = InvariantMessages.of(trajectory)
        count(trajectory, left_out, ARGUMENTS, OTHER_CALLS, ATTEMPTS, SAMPLED)
        count_unsupported_contents(events.turns, left_out, _SUPPORTED)
        count_changed_histories(events.turns, left_out, "edits", "rewrites")
        yield _json(
            {
                "messages": events.messages,
                "annotations": _annotations(trajectory, events),
                "metadata": _run_metadata(trajectory),
                "index": index,
                "name": trajectory.trajectory_id or f"run_{index}",
            }
        )


def _run_metadata(trajectory: Trajectory) -> dict[str, Payload]:
    """Return the facts of a run as a whole, and its failed calls, which are in no message."""
    document = {**trajectory.head(), **trajectory.tail("inline")}
    members = {
        name: value for name, value in document.items() if name not in _ELSEWHERE and value not in (None, {}, [])
    }
    failed = [
        {"interaction_id": call.interaction_id, "error": call.error.to_document()}
        for call in trajectory.llm_interactions
        if call.error is not None
    ]
    if failed:
        members["failed_calls"] = failed
    return members


def _annotations(trajectory: Trajectory, events: InvariantMessages) -> list[dict[str, Payload]]:
    annotations = [
        _annotation(None, value, kind="annotation", key=key) for key, value in trajectory.annotations.items()
    ]
    for reward in trajectory.rewards:
        text = f"{reward.name}: {reward.value}"
        if reward.explanation:
            text += f" ({reward.explanation})"
        place = _answer_place(events, reward.step_number)
        annotations.append(_annotation(place, text, **{"kind": "reward", **reward.to_document()}))
    for step in trajectory.agent_steps:
        values = step.extra
        if not step.derived:
            values = {"reflection": step.reflection, "error": step.error, **step.extra}
        place, number = _answer_place(events, step.step_number), step.step_number
        annotations += [
            _annotation(place, value, kind="step", step_number=number, key=key)
            for key, value in values.items()
            if value is not None
        ]
    return annotations


def _answer_place(events: InvariantMessages, step_number: int | None) -> int | None:
    if step_number is None:
        return None
    return events.answers.get(number_or_text(step_number))


def _annotation(place: int | None, content: Payload, *, kind: AnnotationKind, **members: Payload) -> dict[str, Payload]:
    address = ROOT
    if place is not None:
        address = f"messages.{place}"
    if not isinstance(content, str):
        content = _json(content)
    return {
        "content": content,
        "address": address,
        "extra_metadata": {"source": "trace_recorder", "kind": kind, **members},
    }


def _json(value: Payload) -> str:
    return write_json(value)


def pieces(lines: Iterable[str], _: OutputPlace) -> Iterator[Piece]:
    """Yield the rows of a run that have messages."""
    yield from (("", row) for row in map(json.loads, lines) if row["messages"])
