"""Ollama's /api/chat. Images are next to the text of a message, arguments are objects, and a result names its tool.

Calls have no ids in the SDK's form. Thinking is sent back as text. An image must be passed as data, because the server
does not fetch addresses.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.clients.wire_formats.inputs import (
    declaration,
    is_run_by_caller,
    names_of_calls,
    object_of,
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
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.errors import MessageFormatError
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Message, Tool, without_none


def build_request(messages: list[Message], tools: list[Tool], params: JsonObject) -> JsonObject:
    """Build the arguments of the method `chat` of the SDK."""
    names = names_of_calls(messages)
    request = {**params, "messages": [_message(message, names) for message in messages]}
    if tools:
        request["tools"] = [*map(_tool, tools)]
    return request


def assistant(message: Message) -> JsonObject:
    """Build the assistant's message from the values of a `Message`."""
    members: JsonObject = {"role": "assistant", "content": _text(message)}
    if message.tool_calls:
        members["tool_calls"] = [
            {"function": {"name": call.name, "arguments": object_of(call)}} for call in message.tool_calls
        ]
    return members


def _message(message: Message, names: dict[str, str]) -> JsonObject:
    if message.role == "assistant":
        return as_dict(turn_of_message(message)) or assistant(message)
    images = []
    for part in sendable_parts(message):
        if part.get("type") == "image" and "data" not in part:
            raise MessageFormatError("Ollama fetches no images: pass the image's data (base64) instead of its url.")
        if part.get("type") == "image":
            images.append(part["data"])
    images += as_list(message.extra.get("images"))
    name = None
    if message.role == "tool":
        name = message.name or names.get(message.call_id or "")
    role = "system" if message.role == "developer" else message.role
    return {"role": role, "content": _text(message)} | without_none(images=images or None, tool_name=name)


def _text(message: Message) -> str:
    parts = [part for part in sendable_parts(message) if part.get("type") != "image"]
    if other := next((part for part in parts if part.get("type") != "text"), None):
        raise MessageFormatError(
            f"Ollama accepts only texts and images, but a message has {other.get('type') or other}."
        )
    return "\n".join(as_text(part.get("text")) or "" for part in parts)


def _tool(tool: Tool) -> JsonObject:
    if not is_run_by_caller(tool):
        return as_dict(tool.raw)
    return {"type": "function", "function": declaration(tool, "parameters")}


def _deltas(event: JsonObject, calls: int) -> Iterator[Delta]:
    message = as_dict(event.get("message"))
    if thought := as_text(message.get("thinking")):
        yield ReasoningDelta(thought)
    if text := as_text(message.get("content")):
        yield TextDelta(text)
    for index, call in enumerate(as_list(message.get("tool_calls")), start=calls):
        function = as_dict(as_dict(call).get("function"))
        yield ToolCallDelta(index, None, as_text(function.get("name")), to_json(function.get("arguments") or {}))


WIRE_FORMAT = WireFormat(
    "ollama-chat",
    build_request,
    assistant,
    turn_of=lambda body: as_dict(body.get("message")) or None,
    body_of=lambda turn: {"message": turn},
    deltas=_deltas,
    frame="%s\n",
)
