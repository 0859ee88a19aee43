"""OpenAI's chat completions, which Azure, Doubao, OpenRouter and many others accept too.

The dialect itself accepts no earlier reasoning. Some providers accept earlier reasoning in the assistant's message, in
members of their own. `reasoning_fields` names these members. The first member that a message has is sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

from trace_recorder.clients.wire_formats.inputs import (
    declaration,
    image_address,
    is_run_by_caller,
    only_text,
    other_members,
    rest_of,
    sendable_parts,
)
from trace_recorder.clients.wire_formats.wire_format import (
    Delta,
    JsonObject,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    WireFormat,
    turn_of_message,
)
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Message, Payload, Tool, ToolCall, without_none
from trace_recorder.values.structs import replace

_SENT = ("role", "content", "refusal", "tool_calls", "function_call")
"""Members of an answer's message that may be sent back in a request."""


def build_request(
    messages: list[Message], tools: list[Tool], params: JsonObject, reasoning_fields: tuple[str, ...] = ()
) -> JsonObject:
    """Build the arguments of `chat.completions.create`."""
    request = {**params, "messages": [_message(message, reasoning_fields) for message in messages]}
    if tools:
        request["tools"] = [*map(_tool, tools)]
    return request


def assistant(message: Message, reasoning_fields: tuple[str, ...] = ()) -> Payload:
    """Build an assistant's message from the values of a `Message`."""
    members: JsonObject = {"role": "assistant", "content": _content(message)}
    members |= without_none(refusal=message.extra.get("refusal"))
    if message.tool_calls:
        members["tool_calls"] = [_call(call) for call in message.tool_calls]
    return members | _thought(message, reasoning_fields)


def wire_format(reasoning_fields: tuple[str, ...] = ()) -> WireFormat:
    """Make the wire format of a provider that accepts earlier reasoning in these members."""
    return dataclasses.replace(
        WIRE_FORMAT,
        build_request=partial(build_request, reasoning_fields=reasoning_fields),
        assistant=partial(assistant, reasoning_fields=reasoning_fields),
        reasoning_fields=reasoning_fields,
    )


def _thought(message: Message, reasoning_fields: tuple[str, ...]) -> JsonObject:
    """Return the reasoning to send back: the first of the members `reasoning_fields` that the message's `extra` has."""
    for name in reasoning_fields:
        if value := message.extra.get(name):
            return {name: value}
    return {}


def _message(message: Message, reasoning_fields: tuple[str, ...]) -> JsonObject:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": only_text(message)}
    turn = as_dict(turn_of_message(message))
    if turn:
        sent = {name: value for name, value in turn.items() if name in _SENT}
        return {"content": None, **sent} | _thought(replace(message, extra=turn), reasoning_fields)
    if message.role == "assistant":
        return as_dict(assistant(message, reasoning_fields)) | without_none(name=message.name)
    return {"role": message.role, "content": _content(message) or ""} | without_none(name=message.name)


def _content(message: Message) -> Payload:
    if isinstance(message.content, str | None):
        return message.content
    return [_part(part) for part in sendable_parts(message)]


def _part(part: JsonObject) -> JsonObject:
    if part.get("type") != "image":
        return part
    image = {"url": image_address(part)} | without_none(detail=part.get("detail"))
    return {"type": "image_url", "image_url": image, **rest_of(part, "type", "url", "data", "media_type", "detail")}


def _call(call: ToolCall) -> JsonObject:
    text = call.arguments
    if not isinstance(text, str):
        text = to_json(text)
    if call.extra.get("type") == "custom":
        return {"id": call.call_id, "type": "custom", "custom": {"name": call.name, "input": text}}
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _tool(tool: Tool) -> JsonObject:
    if not is_run_by_caller(tool):
        return as_dict(tool.raw)
    return {"type": "function", "function": {**declaration(tool, "parameters"), **other_members(tool)}}


def _turn_of(body: JsonObject) -> Payload:
    first = next(iter(as_list(body.get("choices"))), None)
    return as_dict(first).get("message")


def _deltas(event: JsonObject, calls: int) -> Iterator[Delta]:  # noqa: ARG001 - the calls have their own index here
    """Yield the deltas of the first choice in a chunk."""
    for choice in map(as_dict, as_list(event.get("choices"))):
        delta = as_dict(choice.get("delta"))
        if choice.get("index") not in (0, None):
            continue
        if thought := as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning")):
            yield ReasoningDelta(thought)
        if text := as_text(delta.get("content")):
            yield TextDelta(text)
        yield from map(_call_delta, map(as_dict, as_list(delta.get("tool_calls"))))


def _call_delta(delta: JsonObject) -> ToolCallDelta:
    function = as_dict(delta.get("function") or delta.get("custom"))
    piece = as_text(function.get("arguments")) or as_text(function.get("input")) or ""
    return ToolCallDelta(
        as_int(delta.get("index")) or 0, as_text(delta.get("id")), as_text(function.get("name")), piece
    )


WIRE_FORMAT = WireFormat(
    "openai-chat",
    build_request,
    assistant,
    turn_of=_turn_of,
    body_of=lambda turn: {"choices": [{"index": 0, "message": turn}]},
    deltas=_deltas,
)
