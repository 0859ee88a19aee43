"""The document: a trajectory as one JSON object. `docs/format.md` lists the members and their order.

`Trajectory.to_document` makes a document, and `from_document` reads it without the journal. An interaction has either
`input_messages`, the complete list of the messages that the model saw, or instead

    "input_messages_delta": {"since": "llm_3", "kept": 12, "messages": […]}

This delta means the first 12 messages of `llm_3`'s complete list, followed by the delta's own `messages`. If `since` is
null, no earlier message is repeated. If messages were removed from the history, `kept` is a list of inclusive ranges of
positions, such as [[0, 0], [3, 41]]. If messages were inserted before repeated ones, or replaced, `places` has their
positions in the complete list, and they come first in `messages`. `input_messages` never has only a part of the list.
The root member `history` states which form the document has. In the same way, a step that the agent recorded has
`llm_messages`, or `llm_messages_delta` with an `id`. The `since` of a later step refers to this `id`.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TypeVar, get_args

from trace_recorder.dialects import manual
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.signal_handlers import ours
from trace_recorder.values.checked_types import check_types
from trace_recorder.values.document_members import Member, members_of
from trace_recorder.values.jsonable import is_description
from trace_recorder.values.llm_interaction import LLMInteraction, WithoutRawData, call_seconds
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import (
    NO_RESPONSE,
    LLMResponse,
    MCPCall,
    Message,
    Payload,
    RequestReading,
    ToolResult,
)
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import SCHEMA_VERSION, AgentStep, Status, Trajectory

Elements = TypeVar("Elements", list[Payload], "array[int]")
Value = TypeVar("Value")

STEP_DELTA = "llm_messages_delta"
"""The member that a step has in place of `llm_messages` if its messages are a delta."""


def from_document(document: Payload, name: str) -> Trajectory:
    """Read a document.

    `name` is the name of the document in error messages. Raises TrajectoryFormatError if the document is not a
    trajectory.
    """
    if not isinstance(document, dict) or not isinstance(document.get("llm_interactions"), list):
        raise TrajectoryFormatError(
            f"{name} is not a trajectory: a JSON object with a list `llm_interactions` is expected. "
            "A .json or .jsonl that a TrajectoryRecorder wrote is expected."
        )
    version = document.get("schema_version", 0)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise TrajectoryFormatError(
            f"{name} has schema_version {version}, and this trace_recorder reads up to {SCHEMA_VERSION}. Install a "
            "newer trace_recorder to read it."
        )
    try:
        return _trajectory(document)
    except ours(KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError) as error:
        raise TrajectoryFormatError(
            f"{name} is a damaged trajectory document: {type(error).__name__}: {error}"
        ) from error


def _trajectory(document: Mapping[str, Payload]) -> Trajectory:
    table = MessageTable()
    interactions = list(_interactions(document["llm_interactions"], _DocumentMessages(table)))
    by_id = {call.interaction_id: call for call in interactions}
    records, status = document.get("journal_records"), document.get("status")
    if not isinstance(status, str) or status not in get_args(Status):
        status = "unknown"
        if document.get("end_time"):
            status = "completed"
    if not isinstance(records, int):
        records = None
    return read_value(
        Trajectory,
        document,
        status=status,
        metrics=_metrics(document.get("metrics") or {}),
        llm_interactions=interactions,
        agent_steps=list(_steps(document.get("agent_steps") or (), by_id, _DocumentMessages(table))),
        journal_records=records,
    )


def read_value(kind: Callable[..., Value], document: Mapping[str, Payload], **known: Payload) -> Value:
    """Make a value of the class `kind` from the JSON object that the document has for it.

    `known` has the values of the fields that the caller has read already.

    If a member is null or missing, its field has the default. If a field is for an object or a list, and the member is
    empty, the field also has the default, because other tools may write "" for nothing. Raises TypeError, ValueError or
    AttributeError if a member does not have the type of its field.
    """
    for member in members_of(kind):
        stated = document.get(member.name)
        is_stated = stated is not None and (bool(stated) or not isinstance(member.default, dict | tuple))
        if member.field not in known and (is_stated or member.is_required):
            known[member.field] = _read_member(member, stated)
    return check_types(kind(**known))


def _read_member(member: Member, value: Payload) -> Payload:
    """Return the value for the field of a member.

    If the field is a text and the document has a description (`is_description`), return the `repr` in the description.
    """
    kind = member.value_class
    if tuple in member.classes and kind is not None:
        return tuple(read_value(kind, element) for element in value)
    if tuple in member.classes:
        return tuple(value)
    if kind is not None and isinstance(value, dict):
        return read_value(kind, value)
    if kind is not None:
        return None
    if str in member.classes and dict not in member.classes and is_description(value):
        return value["repr"]
    return value


def _metrics(members: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the members of `metrics` that are numbers."""
    return {name: value for name, value in members.items() if isinstance(value, int | float)}


def expand_deltas(document: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return a document with complete lists of messages in place of deltas.

    Raises KeyError if the document is damaged.
    """
    lists: dict[str, list[Payload]] = {}
    of_steps: dict[str, list[Payload]] = {}
    calls, steps = document["llm_interactions"], document["agent_steps"]
    return {
        **document,
        "llm_interactions": [_expand_delta(call, lists, "input_messages", call["interaction_id"]) for call in calls],
        "agent_steps": [
            _expand_delta(step, of_steps, "llm_messages", step.get(STEP_DELTA, {}).get("id")) for step in steps
        ],
    }


def _expand_delta(
    document: Mapping[str, Payload], lists: dict[str, list[Payload]], member: str, identity: str | None
) -> dict[str, Payload]:
    members: dict[str, Payload] = {}
    for name, value in document.items():
        if name == f"{member}_delta":
            name, value = member, complete_list(value, lists, value["messages"])  # noqa: PLW2901 - the list replaces the delta
        members[name] = value
    if identity is not None:
        lists[identity] = members.get(member, [])
    return members


@dataclass(frozen=True, slots=True)
class _DocumentSource(WithoutRawData):
    """The source of an interaction that was read from a document. It has no raw request and no raw response."""

    reading: RequestReading
    new_tool_results: list[ToolResult] = field(default_factory=list)

    def request(self) -> RequestReading:
        return self.reading

    def request_without_messages(self) -> RequestReading:
        return self.reading

    def has_request(self) -> bool:
        return True


def _interactions(documents: list[Payload], messages: _DocumentMessages) -> Iterator[LLMInteraction]:
    for number, document in enumerate(documents):
        identity = document.get("interaction_id") or f"llm_{number}"
        delta, given = document.get("input_messages_delta"), document.get("input_messages")
        yield _interaction(identity, document, messages.read(identity, delta, given or ()))


_TEXTS = frozenset((str, NoneType))
"""A message whose members all have these types is looked up by the members.

Any other message is looked up by its JSON text.
"""


class _DocumentMessages:
    """Reads the lists of messages of a document. Each distinct message is read once."""

    def __init__(self, table: MessageTable) -> None:
        self._table = table
        self._read: dict[Hashable, Message] = {}
        self._lists: dict[str, NumberedMessages] = {}

    def read(
        self, name: str | None, delta: Mapping[str, Payload] | None, elements: Iterable[Payload]
    ) -> NumberedMessages:
        """Return the complete list of messages of a delta. If `delta` is None, return the messages in `elements`.

        Later deltas refer to this list by `name`.
        """
        if delta is None:
            messages = self._table.prompt(map(self._message, elements))
        else:
            messages = self._changed(delta, map(self._message, delta["messages"]))
        if name is not None:
            self._lists[name] = messages
        return messages

    def _changed(self, delta: Mapping[str, Payload], others: Iterator[Message]) -> NumberedMessages:
        """Return the complete list of a delta whose own messages are `others`."""
        since, kept = delta["since"], delta["kept"]
        if since and isinstance(kept, int) and "places" not in delta:
            return self._lists[since][:kept].extended(others)  # the two lists share their numbers
        lists = {since: self._lists[since].numbers} if since else {}
        numbers = array("q", map(self._table.number_of, others))
        return NumberedMessages(self._table, complete_list(delta, lists, numbers))

    def _message(self, document: Payload) -> Message:
        key: Hashable
        if isinstance(document, dict) and _TEXTS.issuperset(map(type, document.values())):
            key = (*document.items(),)
        else:
            key = json.dumps(document)
        message = self._read.get(key)
        if message is None:
            message = self._read[key] = manual.message_of_agent(document)
        return message


def complete_list(delta: Mapping[str, Payload], lists: Mapping[str, Elements], others: Elements) -> Elements:
    """Return the complete list of a delta: elements of an earlier list, and `others`, the delta's own elements."""
    since, kept = delta["since"], delta["kept"]
    complete = others[:0]
    if since and isinstance(kept, int):
        complete = lists[since][:kept]
    elif since:
        for first, last in kept:
            complete.extend(lists[since][first : last + 1])
    places = delta.get("places", ())
    for place, element in zip(places, others, strict=False):
        complete.insert(place, element)
    complete.extend(others[len(places) :])
    return complete


def _interaction(identity: str, document: Mapping[str, Payload], messages: Sequence[Message]) -> LLMInteraction:
    request = document.get("request") or {}
    names = document.get("tools_available") or []
    raws = request.get("tools") or names
    tools = [check_types(replace(manual.read_tool(raw), name=name)) for name, raw in zip(names, raws, strict=False)]
    parameters, instructions = request.get("parameters") or {}, request.get("instructions") or 0
    reading = RequestReading(messages, tools, parameters, document.get("model"), instructions)
    interaction = read_value(
        LLMInteraction,
        document,
        interaction_id=identity,
        source=_DocumentSource(check_types(reading)),
        response=_response(document.get("response")) or NO_RESPONSE,
        replayed_from=ReplayedFrom.of_document(document.get("replayed_from")),
    )
    return replace(interaction, duration_seconds=call_seconds(interaction.attempts, interaction.duration_seconds))


def _response(document: dict[str, Payload] | None) -> LLMResponse | None:
    """Read a response. Return None if the document has no response, or an empty one."""
    if not document:
        return None
    if not all(isinstance(call, dict) for call in document.get("tool_calls") or ()):
        raise TypeError("tool_calls are objects")
    return check_types(replace(manual.read_flat_response(document), given=document))


_STEP_MEMBERS = frozenset(member.name for member in members_of(AgentStep)) | {
    "llm_messages",
    STEP_DELTA,
    "llm_response",
    "interaction_id",
}


def _steps(
    documents: Iterable[Payload], interactions: Mapping[str, LLMInteraction], messages: _DocumentMessages
) -> Iterator[AgentStep]:
    for document in documents:
        delta, given = document.get(STEP_DELTA), document.get("llm_messages")
        if delta is not None:
            yield _step(document, messages.read(delta["id"], delta, ()), interactions)
        elif given is not None:
            yield _step(document, messages.read(None, None, given or ()), interactions)
        else:
            yield _step(document, None, interactions)


def _step(
    document: Mapping[str, Payload], messages: Sequence[Message] | None, interactions: Mapping[str, LLMInteraction]
) -> AgentStep:
    return read_value(
        AgentStep,
        document,
        messages=messages,
        llm_response=_response(document.get("llm_response")),
        tool_calls=tuple(manual.read_tool_call(call) for call in document.get("tool_calls") or ()),
        tool_results=tuple(map(_tool_result, document.get("tool_results") or ())),
        interaction=interactions.get(document.get("interaction_id", "")),
        extra={name: value for name, value in document.items() if name not in _STEP_MEMBERS},
    )


def _tool_result(document: Payload) -> ToolResult:
    result = manual.read_tool_result(document)
    if isinstance(document, dict) and isinstance(document.get("mcp"), list):
        calls = (read_value(MCPCall, call) for call in document["mcp"] if isinstance(call, dict))
        return replace(result, mcp=tuple(calls))
    return result
