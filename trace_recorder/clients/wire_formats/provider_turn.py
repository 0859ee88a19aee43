"""A provider's own turn, riding along in `extra["turn"]` of a response and of the message that it becomes.

A conversation goes on only if signed reasoning comes back as it was given, in its place. Where the to_messages values
rebuild the assistant's turn exactly, nothing rides along. Where they do not, the turn is kept as the provider gave
it, with its wire_format and provider, and is handed back to these alone. A message that was changed since is rebuilt
from its values; one that comes from elsewhere loses its reasoning, and that is with_attempt_header.
"""

from __future__ import annotations

from dataclasses import replace

from trace_recorder.clients.wire_formats.wire_format import WireFormat
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.dialects.readers import reader_of
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall

TURN = "turn"
_REASONING = ("reasoning", "reasoning_details", "content", "parts")
"""Where readers keep reasoning that has a structure, in the `extra` of a message."""
_ARGUMENTS = ("input", "args", "arguments")
"""What the dialects call a call's arguments."""
_SIGNATURE = "thoughtSignature"
"""Where Google's reader keeps a call's, in the `extra` of the call."""


def with_turn(response: LLMResponse, wire_format: WireFormat, provider: str, body: dict[str, Payload]) -> LLMResponse:
    """Have the turn ride along, where the values alone would not rebuild it."""
    turn = _without_nulls(wire_format.turn_of(body))
    rebuilt = wire_format.assistant(Message("assistant", response.content, response.tool_calls, extra=response.extra))
    if turn is None or _without_lists(turn) == _without_lists(_without_nulls(rebuilt)):
        return response
    return replace(
        response, extra=response.extra | {TURN: {"api": wire_format.api, "provider": provider, "said": turn}}
    )


def prepare_messages(messages: list[Message], wire_format: WireFormat, provider: str) -> tuple[list[Message], int]:
    """Give messages with what can go back to this provider, and of how many the reasoning is left out."""
    left_out = 0
    taken: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            kept = _kept(message, wire_format, provider)
            left_out += _has_reasoning(message) and not _takes_back(kept, wire_format)
            taken.append(kept)
        else:
            taken.append(message)
    return taken, left_out


def turn_of_message(message: Message) -> Payload:
    """The turn that rides along in a message that `prepare_messages` returned; None where there is none."""
    return as_dict(message.extra.get(TURN)).get("said")


def _without_nulls(value: Payload) -> Payload:
    """The value without nulls, which answers have and requests do not; arguments of calls stay as they are."""
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: each for name, each in value.items() if each is not None}
    return {name: each if name in _ARGUMENTS else _without_nulls(each) for name, each in kept.items()}


def _without_lists(value: Payload) -> Payload:
    """The value without the members that are empty lists, for comparison: they say no more than absence."""
    if isinstance(value, list):
        return [_without_lists(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_lists(each) for name, each in value.items() if each != []}


def _kept(message: Message, wire_format: WireFormat, provider: str) -> Message:
    turn = as_dict(message.extra.get(TURN))
    if not turn:
        return message
    if (turn.get("api"), turn.get("provider")) != (wire_format.api, provider):
        calls = tuple(replace(call, extra={}) for call in message.tool_calls)
        return replace(message, tool_calls=calls, reasoning=None, extra={})
    if not _still_said(turn.get("said"), message, wire_format):
        return replace(message, extra={name: value for name, value in message.extra.items() if name != TURN})
    return message


def _still_said(turn: Payload, message: Message, wire_format: WireFormat) -> bool:
    """Whether a message says what its turn says: the caller may have changed it."""
    reader = reader_of(wire_format.api)
    if reader is None:
        return False
    said = reader.read_response(wire_format.body_of(turn))
    same_calls = [_told(call) for call in said.tool_calls] == [_told(call) for call in message.tool_calls]
    return same_calls and (said.content or None) == (message.content or None)


def _told(call: ToolCall) -> tuple[str | None, str, Payload]:
    return None if call.call_id_made_up else call.call_id, call.name, call.arguments


def _has_reasoning(message: Message) -> bool:
    """Whether a message has reasoning that some provider may want back: its text, its blocks, or its signatures."""
    signed = any(_SIGNATURE in call.extra for call in message.tool_calls)
    return bool(message.reasoning) or signed or any(message.extra.get(name) for name in _REASONING)


def _takes_back(message: Message, wire_format: WireFormat) -> bool:
    signed = "parts" in wire_format.reasoning_fields and any(_SIGNATURE in call.extra for call in message.tool_calls)
    return (
        signed or bool(message.extra.get(TURN)) or any(message.extra.get(name) for name in wire_format.reasoning_fields)
    )
