"""The messages that each turn adds to its conversation, in the form of `trajectory_sdk.primitives.Message`.

A turn adds the new messages of its request, the answer, and tool results that no request has. A message's `metadata`
has everything for which the form has no member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trace_recorder.dialects.json_access import as_dict
from trace_recorder.figures.call_figures import origin_of
from trace_recorder.figures.content.chat_form import arguments_object, chat_part, result_text
from trace_recorder.figures.conversations.steps_of_turns import AnsweredTurn
from trace_recorder.formats.hierarchy.own_members import HierarchyMetadata
from trace_recorder.reading.relations.turn import Turn, answer_of
from trace_recorder.values.content_parts import Text, parts_of
from trace_recorder.values.messages import Message, Payload, ToolCall, ToolResult, without_none
from trace_recorder.values.token_counts import counts_of

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
"""The four roles of the form. Any other role becomes `user`, and `metadata.original_role` has the name of that role."""
_NOTHING = HierarchyMetadata()
_INSTRUCTIONS = frozenset({"system", "developer"})
_UNTRAINED = "not_trainable"
"""The training status of every message.

This is the default of the SDK, whose users decide which messages to train on.
"""


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """A message of a conversation, and its turn.

    `after_prompt` is True for the answer, and for tool results that no request has. `own` is True for an instruction
    that applies to one request only. `renews` is True for an instruction that replaces earlier instructions.
    """

    message: dict[str, Payload]
    turn: AnsweredTurn
    after_prompt: bool = False
    own: bool = False
    renews: bool = False

    @property
    def role(self) -> str:
        """The role of the message."""
        role: str = self.message["role"]
        return role


def turn_messages(answered: AnsweredTurn, previous: AnsweredTurn | None) -> list[TurnMessage]:
    """Return the messages that a turn adds to the messages of the previous turn."""
    lines = [*_prompt_lines(answered, previous)]
    if answered.turn.answered:
        lines += [TurnMessage(message, answered, after_prompt=True) for message in _answer_and_results(answered)]
    tools = answered.turn.tools
    if lines and tools and (previous is None or tools != previous.turn.tools):
        definitions = [
            {"name": tool.name, "description": tool.description or "", "parameters": as_dict(tool.parameters)}
            for tool in tools
        ]
        with_tools = {**lines[0].message, "tool_definitions": definitions}
        lines[0] = TurnMessage(with_tools, answered, lines[0].after_prompt)
    return lines


def _prompt_lines(answered: AnsweredTurn, previous: AnsweredTurn | None) -> Iterator[TurnMessage]:
    calls: dict[str, ToolCall] = {}
    results: Mapping[str, ToolResult] = {}
    if previous is not None:
        calls, results = _calls_and_results(previous)
    added, changed = _added_messages(answered.turn)
    for place, message in enumerate(added):
        calls |= {call.call_id: call for call in message.tool_calls}
        if previous is None:
            renews, own = False, place < answered.turn.instructions
        else:
            renews = message.role in _INSTRUCTIONS and place in changed
            own = renews and answered.turn.instructions > 0
        yield TurnMessage(_message(message, calls, results), answered, own=own, renews=renews)


def _calls_and_results(answered: AnsweredTurn) -> tuple[dict[str, ToolCall], dict[str, ToolResult]]:
    calls = {call.call_id: call for call in answered.response.tool_calls}
    return calls, {result.call_id: result for result in answered.results}


def last_results(answered: AnsweredTurn) -> list[TurnMessage]:
    """Return the tool results of a conversation's last turn that the next prompt has.

    If the next prompt begins a new conversation, only these results show what the tools of the last turn returned.
    """
    calls, results = _calls_and_results(answered)
    messages = [message for message in answered.next_messages if message.call_id in calls]
    return [TurnMessage(_message(message, calls, results), answered) for message in messages]


def _added_messages(turn: Turn) -> tuple[Sequence[Message], range]:
    """Return the messages that a prompt adds, and the positions of the messages that may replace earlier messages."""
    if turn.relation == "extends":
        return turn.appended, range(0)
    if turn.relation in {"refers", "edits"}:
        return turn.new_messages, turn.new_before_answer
    messages = turn.interaction.input_messages
    return messages, range(len(messages))


def _answer_and_results(answered: AnsweredTurn) -> list[dict[str, Payload]]:
    """Return the answer of the model, and the results of its tools that the model was never shown."""
    response = answered.response
    calls, results = _calls_and_results(answered)
    shown = {message.call_id for message in answered.next_messages}
    answer = _message(answer_of(response), calls, results, _call_metadata(answered))
    answer["finish_reason"] = response.finish_reason
    if answered.turn.was_made:
        answer["usage"] = _usage(answered)
    unseen = [message for message in answered.tool_messages() if message.call_id not in shown]
    return [answer, *(_message(message, calls, results, {"shown_to_model": False}) for message in unseen)]


def _message(
    message: Message,
    calls: Mapping[str, ToolCall],
    results: Mapping[str, ToolResult],
    metadata: HierarchyMetadata = _NOTHING,
) -> dict[str, Payload]:
    role = _ROLES.get(message.role, "user")
    members = without_none(**metadata) | without_none(**_metadata(message, role))
    tool_calls = [
        {"name": call.name, "arguments": arguments_object(call), "id": call.call_id} for call in message.tool_calls
    ]
    tool_response = None
    if role == "tool":
        tool_response = _response(message, calls, results)
    return {
        "role": role,
        "content": _text(message),
        "tool_calls": tool_calls or None,
        "tool_response": tool_response,
        "tool_definitions": None,
        "usage": None,
        "finish_reason": None,
        "metadata": members or None,
        "reasoning": message.reasoning,
        "trainable_status": _UNTRAINED,
    }


def _text(message: Message) -> str | None:
    texts = [part.text for part in parts_of(message) if isinstance(part, Text)]
    if not texts:
        return None
    return "\n".join(texts)


def _metadata(message: Message, role: str) -> HierarchyMetadata:
    """Return the members of a message for which the form has no place."""
    others = [chat_part(part) for part in parts_of(message) if not isinstance(part, Text)]
    extra = {name: value for name, value in message.extra.items() if name not in {"images", "is_error"}}
    metadata = HierarchyMetadata(name=message.name, parts=others or None, extra=extra or None)
    if role != message.role:
        metadata["original_role"] = message.role
    return metadata


def _response(message: Message, calls: Mapping[str, ToolCall], results: Mapping[str, ToolResult]) -> dict[str, Payload]:
    """Return a tool response: the object that the agent recorded, or else the text that the model saw."""
    identity = message.call_id or ""
    call, result = calls.get(identity), results.get(identity)
    text = _text(message) or ""
    name, arguments, response = message.name or "", {}, text
    if call is not None:
        name, arguments = name or call.name, arguments_object(call)
    if result is not None and result.result is not None:
        response = result.result
    return {
        "id": identity,
        "name": name,
        "arguments": arguments,
        "response": response,
        "error": _error(message, result, text),
        "metadata": None,
    }


def _error(message: Message, result: ToolResult | None, text: str) -> str | None:
    """Return why a tool failed, as the agent recorded it or as the model saw it, or None if the tool did not fail."""
    if result is not None and result.success is False:
        return result_text(result)
    if message.extra.get("is_error") is True:
        return text
    return None


def _usage(answered: AnsweredTurn) -> dict[str, int] | None:
    """Return the token counts under OpenAI's names, because the SDK adds up the counts with these names.

    `prompt_tokens` includes cached tokens.
    """
    counts = counts_of(answered.interaction)
    if counts is None:
        return None
    return without_none(
        prompt_tokens=counts.prompt,
        completion_tokens=counts.completion,
        total_tokens=counts.total,
        cache_read_tokens=counts.cache_read,
        cache_creation_tokens=counts.cache_write,
        reasoning_tokens=counts.reasoning,
    )


def _call_metadata(answered: AnsweredTurn) -> HierarchyMetadata:
    call, response = answered.interaction, answered.response
    others = [choice.to_document() for number, choice in enumerate(response.choices) if number != answered.choice]
    metadata = HierarchyMetadata(
        interaction_id=call.interaction_id,
        timestamp=call.timestamp,
        agent=call.agent,
        agent_id=call.agent_id,
        model=response.model or call.model,
        duration_seconds=call.duration_seconds,
        complete=None,
        other_answers=others or None,
        replayed_from=origin_of(call, _usage(answered)),
    )
    if not call.complete:
        metadata["complete"] = False
    return metadata
