"""The Hierarchy's messages: what each turn adds to its conversation, as `trajectory_sdk.primitives.Message` has it.

A turn adds what its request says that the one before did not, what the model said, and what tools returned where no
request shows that. What the form has no place for stands in a message's `metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trace_recorder.values.messages import Message, Payload, Tool, ToolCall, ToolResult, without_none
from trace_recorder.views.content.openai_functions import result_text
from trace_recorder.views.content.parts import Image, Other, Part, Text, parts_of
from trace_recorder.views.conversations.call_chains import Turn, answer_of
from trace_recorder.views.conversations.tool_results import AnsweredTurn
from trace_recorder.views.token_counts import counts_of

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
"""The form's four roles; whoever else speaks is a user, and `metadata.original_role` says who."""
_INSTRUCTIONS = frozenset({"system", "developer"})
_UNTRAINED = "not_trainable"
"""What the SDK gives to whatever it builds; which messages to train on is for its user to say."""


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a conversation, and the turn in which it came; `said` is whether it came after the prompt.

    Instructions for one request alone are its `own`; those that are given anew `renew` those before them.
    """

    message: dict[str, Payload]
    turn: AnsweredTurn
    said: bool = False
    own: bool = False
    renews: bool = False

    @property
    def role(self) -> str:
        """Who speaks."""
        role: str = self.message["role"]
        return role


def lines_of(one: AnsweredTurn, before: AnsweredTurn | None) -> list[Line]:
    """Give the messages that a turn adds to those of the one before."""
    calls = {call.call_id: call for call in (before.response.tool_calls if before else ())}
    results = {result.call_id: result for result in (before.results if before else ())}
    lines: list[Line] = []
    shown = {*map(id, one.turn.shown)}
    for place, message in enumerate(_added(one.turn)):
        calls |= {call.call_id: call for call in message.tool_calls}
        renews = before is not None and message.role in _INSTRUCTIONS and id(message) not in shown
        own = renews if before is not None else place < one.turn.instructions
        is_own = own and one.turn.instructions > 0
        lines.append(Line(_message(message, calls, results), one, own=is_own, renews=renews))
    if one.turn.answered:
        lines += [Line(message, one, said=True) for message in _said(one)]
    tools = one.turn.tools
    if lines and tools and (before is None or tools != before.turn.tools):
        defined = {**lines[0].message, "tool_definitions": [_definition(tool) for tool in tools]}
        lines[0] = Line(defined, one, lines[0].said)
    return lines


def last_results(one: AnsweredTurn) -> list[Line]:
    """Give what tools returned to the last turn of a conversation, where the prompt that shows it begins another."""
    calls = {call.call_id: call for call in one.response.tool_calls}
    results = {result.call_id: result for result in one.results}
    return [Line(_message(message, calls, results), one) for message in one.shown if message.call_id in calls]


def _added(turn: Turn) -> Sequence[Message]:
    """The messages of a prompt that belong behind those of the turn before."""
    if turn.relation == "extends":
        return turn.shown
    return turn.news if turn.relation in {"refers", "edits"} else turn.interaction.input_messages


def _said(one: AnsweredTurn) -> list[dict[str, Payload]]:
    """What the model said, and what its tools returned, where it was never shown that."""
    response = one.response
    calls = {call.call_id: call for call in response.tool_calls}
    results = {result.call_id: result for result in one.results}
    shown = {message.call_id for message in one.shown}
    about = {"usage": _usage(one), "finish_reason": response.finish_reason}
    answer = _message(answer_of(response), calls, results, **_about(one)) | about
    unseen = [message for message in one.shown_by_tools() if message.call_id not in shown]
    return [answer, *(_message(message, calls, results, shown_to_model=False) for message in unseen)]


def _message(
    message: Message, calls: Mapping[str, ToolCall], results: Mapping[str, ToolResult], **about: Payload
) -> dict[str, Payload]:
    parts = parts_of(message)
    texts = [part.text for part in parts if isinstance(part, Text)]
    others = [_raw(part) for part in parts if not isinstance(part, Text)]
    extra = {name: value for name, value in message.extra.items() if name not in {"images", "is_error"}}
    role = _ROLES.get(message.role, "user")
    about |= {"name": message.name, "parts": others or None, "extra": extra or None}
    about |= {"original_role": message.role if role != message.role else None}
    return {
        "role": role,
        "content": "\n".join(texts) if texts else None,
        "tool_calls": [_call(call) for call in message.tool_calls] or None,
        "tool_response": _response(message, calls, results) if role == "tool" else None,
        "tool_definitions": None,
        "usage": None,
        "finish_reason": None,
        "metadata": without_none(**about) or None,
        "reasoning": message.reasoning,
        "trainable_status": _UNTRAINED,
    }


def _call(call: ToolCall) -> dict[str, Payload]:
    return {"name": call.name, "arguments": _arguments(call), "id": call.call_id}


def _arguments(call: ToolCall) -> dict[str, Payload]:
    """Arguments, which have to be an object: any other are its only member."""
    return call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}


def _response(message: Message, calls: Mapping[str, ToolCall], results: Mapping[str, ToolResult]) -> dict[str, Payload]:
    """A tool's answer: the object that it returned where the agent recorded it, else the text that the model saw."""
    identity = message.call_id or ""
    call, result = calls.get(identity), results.get(identity)
    text = "\n".join(part.text for part in parts_of(message) if isinstance(part, Text))
    failed = text if message.extra.get("is_error") is True else None
    if result is not None and result.success is False:
        failed = result_text(result)
    return {
        "id": identity,
        "name": message.name or (call.name if call else ""),
        "arguments": _arguments(call) if call else {},
        "response": text if result is None or result.result is None else result.result,
        "error": failed,
        "metadata": None,
    }


def _definition(tool: Tool) -> dict[str, Payload]:
    parameters = tool.parameters if isinstance(tool.parameters, dict) else {}
    return {"name": tool.name, "description": tool.description or "", "parameters": parameters}


def _usage(one: AnsweredTurn) -> dict[str, int] | None:
    """Tokens in the words of OpenAI, as the SDK sums them; the prompt with its cached ones."""
    counts = counts_of(one.interaction)
    if counts is None:
        return None
    whole = None if counts.prompt is None or counts.completion is None else counts.prompt + counts.completion
    return without_none(
        prompt_tokens=counts.prompt,
        completion_tokens=counts.completion,
        total_tokens=whole,
        cache_read_tokens=counts.cache_read,
        cache_creation_tokens=counts.cache_write,
        reasoning_tokens=counts.reasoning,
    )


def _about(one: AnsweredTurn) -> dict[str, Payload]:
    call, response = one.interaction, one.response
    others = [choice.to_document() for number, choice in enumerate(response.choices) if number != one.choice]
    return {
        "interaction_id": call.interaction_id,
        "timestamp": call.timestamp,
        "agent": call.agent,
        "agent_id": call.agent_id,
        "model": response.model or call.model,
        "duration_seconds": call.duration_seconds,
        "complete": None if call.complete else False,
        "other_answers": others or None,
    }


def _raw(part: Part) -> Payload:
    match part:
        case Other(raw):
            return raw
        case Image():
            return {"type": "image_url", "image_url": {"url": part.address}}
        case Text(text):
            return text
