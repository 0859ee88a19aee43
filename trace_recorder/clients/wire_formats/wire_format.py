"""A wire format as the clients use it: pure functions from messages to a request, and from an event of a stream to
deltas.

The readers in `dialects/` convert a response to an LLMResponse. A wire format has only functions that the readers do
not have. Each module of a dialect in this folder makes one `WireFormat`.

A conversation can continue only if signed reasoning is sent back unchanged. If the values of a message rebuild the
assistant's turn exactly, only the values are kept. Otherwise the turn is kept as the provider sent it, with its dialect
and provider, in `extra["turn"]` of the response and of the message. The turn is sent back only to the same provider in
the same dialect. A message that was changed later is rebuilt from its values. A message from a different provider loses
its reasoning. The client annotates the run with the number of these messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.dialects.json_access import as_dict, map_inside
from trace_recorder.values.messages import LLMResponse, Message, Payload, Tool, ToolCall
from trace_recorder.values.structs import replace


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call. The first piece has its `name`, and its `call_id` if the provider sends one.

    `index` counts the calls of the answer from 0. `arguments` is a piece of the JSON text of the arguments.
    """

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event: the whole response. `complete` is True if the protocol's end was received."""

    response: LLMResponse
    complete: bool


Delta = TextDelta | ReasoningDelta | ToolCallDelta
StreamEvent = Delta | Finished


JsonObject = dict[str, Payload]


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The functions of one wire dialect.

    `build_request` returns the arguments for the SDK's method. `assistant` encodes an assistant message for a request.
    `turn_of` returns the assistant's turn in a response body. `body_of` returns the smallest response body that has a
    turn. `deltas` returns the deltas of one event of a stream. Its second argument says how many tool calls have begun.
    `frame` is the text of an event in a stream, where `%s` stands for the event's JSON. `reasoning_fields` names the
    members of a message's `extra` whose reasoning is sent back.
    """

    api: str
    build_request: Callable[[list[Message], list[Tool], JsonObject], JsonObject]
    assistant: Callable[[Message], Payload]
    turn_of: Callable[[JsonObject], Payload]
    body_of: Callable[[Payload], JsonObject]
    deltas: Callable[[JsonObject, int], Iterable[Delta]]
    frame: str = "data: %s\n\n"
    reasoning_fields: tuple[str, ...] = ()


TURN = "turn"
"""The member of `extra` that has the turn as the provider sent it, and the names of the dialect and the provider."""
_REASONING = ("reasoning", "reasoning_details", "content", "parts")
"""The members of a message's `extra` in which readers keep structured reasoning."""
_ARGUMENTS = ("input", "args", "arguments")
"""The names of a tool call's arguments in the dialects."""
_SIGNATURE = "thoughtSignature"
"""The member of a tool call's `extra` in which Google's reader keeps the signature of the call."""


def with_turn(response: LLMResponse, wire_format: WireFormat, provider: str, body: dict[str, Payload]) -> LLMResponse:
    """Return the response, with the provider's turn added if the values of the response would not rebuild the turn."""
    turn = _without_nulls(wire_format.turn_of(body))
    rebuilt = wire_format.assistant(Message("assistant", response.content, response.tool_calls, extra=response.extra))
    if turn is None or _without_lists(turn) == _without_lists(_without_nulls(rebuilt)):
        return response
    return replace(
        response, extra=response.extra | {TURN: {"api": wire_format.api, "provider": provider, "said": turn}}
    )


def prepare_messages(messages: list[Message], wire_format: WireFormat, provider: str) -> tuple[list[Message], int]:
    """Return messages in a form that this provider accepts, and how many of them lose their reasoning."""
    left_out = 0
    prepared: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            accepted = _acceptable_message(message, wire_format, provider)
            left_out += _has_reasoning(message) and not _sends_reasoning(accepted, wire_format)
            prepared.append(accepted)
        else:
            prepared.append(message)
    return prepared, left_out


def turn_of_message(message: Message) -> Payload:
    """Return the provider's own turn in a message that `prepare_messages` returned, or None."""
    return as_dict(message.extra.get(TURN)).get("said")


def _without_nulls(value: Payload) -> Payload:
    """Return a value without nulls, which only responses have. The arguments of tool calls are not changed."""
    if not isinstance(value, dict):
        return map_inside(_without_nulls, value)
    kept: JsonObject = {}
    for name, each in value.items():
        if each is not None and name in _ARGUMENTS:
            kept[name] = each
        elif each is not None:
            kept[name] = _without_nulls(each)
    return kept


def _without_lists(value: Payload) -> Payload:
    """Return a value without members that are empty lists, for comparison.

    An empty list means the same as no member.
    """
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if each != []}
    return map_inside(_without_lists, value)


def _acceptable_message(message: Message, wire_format: WireFormat, provider: str) -> Message:
    """Return an assistant message without its turn, or without its reasoning, if the provider must not get them."""
    turn = as_dict(message.extra.get(TURN))
    if not turn:
        return message
    if (turn.get("api"), turn.get("provider")) != (wire_format.api, provider):
        calls = tuple(replace(call, extra={}) for call in message.tool_calls)
        return replace(message, tool_calls=calls, reasoning=None, extra={})
    if not _is_unchanged(turn.get("said"), message, wire_format):
        return replace(message, extra={name: value for name, value in message.extra.items() if name != TURN})
    return message


def _is_unchanged(turn: Payload, message: Message, wire_format: WireFormat) -> bool:
    """Return whether a message still has the content and the tool calls of its turn. A caller may change messages."""
    dialect = dialect_of(wire_format.api)
    if dialect is None:
        return False
    answer = dialect.read_response(wire_format.body_of(turn))
    if (answer.content or None) != (message.content or None) or len(answer.tool_calls) != len(message.tool_calls):
        return False
    return all(map(_say_same, answer.tool_calls, message.tool_calls))


def _say_same(call: ToolCall, other: ToolCall) -> bool:
    """Return whether two tool calls have the same name, arguments and id. All made-up ids are equal."""
    if (call.name, call.arguments) != (other.name, other.arguments):
        return False
    if call.call_id_made_up or other.call_id_made_up:
        return call.call_id_made_up == other.call_id_made_up
    return call.call_id == other.call_id


def _has_reasoning(message: Message) -> bool:
    """Return whether a message has reasoning that a provider may need back: a text, blocks, or signatures."""
    signed = any(_SIGNATURE in call.extra for call in message.tool_calls)
    return bool(message.reasoning) or signed or any(message.extra.get(name) for name in _REASONING)


def _sends_reasoning(message: Message, wire_format: WireFormat) -> bool:
    """Return whether a request in this format would contain the reasoning of a message."""
    signed = "parts" in wire_format.reasoning_fields and any(_SIGNATURE in call.extra for call in message.tool_calls)
    return (
        signed or bool(message.extra.get(TURN)) or any(message.extra.get(name) for name in wire_format.reasoning_fields)
    )
