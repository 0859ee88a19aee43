"""Anthropic's Messages.

System messages from any place in the conversation are sent in the parameter `system`. The results of one turn's tools
form one user message. Thinking is sent back before the text, with its signature. Redacted thinking is sent back
unchanged. The API requires `max_tokens`, so the default is 8,192.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_recorder.clients.wire_formats.inputs import (
    SYSTEM,
    declaration,
    is_run_by_caller,
    media_type_of,
    message_groups,
    object_of,
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
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.values.messages import Message, Tool, ToolCall

MAX_TOKENS = 8192
_THINKING = ("thinking", "redacted_thinking")


def build_request(messages: list[Message], tools: list[Tool], params: JsonObject) -> JsonObject:
    """Build the arguments of `messages.create`."""
    system = [message for message in messages if message.role in SYSTEM]
    spoken = [message for message in messages if message.role not in SYSTEM]
    request = {"max_tokens": MAX_TOKENS, **params, "messages": [_message(group) for group in message_groups(spoken)]}
    if len(system) == 1 and isinstance(system[0].content, str):
        request["system"] = system[0].content
    elif system:
        request["system"] = [part for message in system for part in sendable_parts(message)]
    if tools:
        request["tools"] = [*map(_tool, tools)]
    return request


def assistant(message: Message) -> list[JsonObject]:
    """Build the blocks of an assistant's turn from the values of its message."""
    thinking = [block for block in as_list(message.extra.get("content")) if as_dict(block).get("type") in _THINKING]
    return [*thinking, *map(_block, sendable_parts(message)), *map(_call, message.tool_calls)]


def _message(group: list[Message]) -> JsonObject:
    message = group[0]
    if message.role == "tool":
        return {"role": "user", "content": [_result(each) for each in group]}
    if message.role == "assistant":
        blocks = as_list(turn_of_message(message)) or assistant(message)
        if isinstance(message.content, str) and blocks == [{"type": "text", "text": message.content}]:
            return {"role": "assistant", "content": message.content}
        return {"role": "assistant", "content": blocks}
    if isinstance(message.content, str):
        return {"role": "user", "content": message.content}
    return {"role": "user", "content": [_block(part) for part in sendable_parts(message)]}


def _block(part: JsonObject) -> JsonObject:
    if part.get("type") != "image":
        return part
    if "url" in part:
        source = {"type": "url", "url": part["url"]}
    else:
        source = {"type": "base64", "media_type": media_type_of(part), "data": part.get("data")}
    rest = rest_of(part, "type", "url", "data", "media_type", "detail")
    return {"type": "image", "source": source, **rest}


def _result(message: Message) -> JsonObject:
    result: JsonObject = {"type": "tool_result", "tool_use_id": _identity(message.call_id or "")}
    if isinstance(message.content, str):
        result["content"] = message.content
    elif message.content is not None:
        result["content"] = [_block(part) for part in sendable_parts(message)]
    return result | {name: message.extra[name] for name in ("is_error", "cache_control") if name in message.extra}


def _call(call: ToolCall) -> JsonObject:
    return {"type": "tool_use", "id": _identity(call.call_id), "name": call.name, "input": object_of(call)}


def _identity(call_id: str) -> str:
    """Return an id with only characters that Anthropic allows. Ids of other providers may have dots and colons."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)


def _tool(tool: Tool) -> JsonObject:
    if not is_run_by_caller(tool):
        return as_dict(tool.raw)
    return {**declaration(tool, "input_schema"), **other_members(tool)}


def _deltas(event: JsonObject, calls: int) -> Iterator[Delta]:
    delta, block = as_dict(event.get("delta")), as_dict(event.get("content_block"))
    if block.get("type") == "tool_use":
        yield ToolCallDelta(calls, as_text(block.get("id")), as_text(block.get("name")))
    elif text := as_text(delta.get("text")):
        yield TextDelta(text)
    elif thought := as_text(delta.get("thinking")):
        yield ReasoningDelta(thought)
    elif delta.get("type") == "input_json_delta" and calls:
        yield ToolCallDelta(calls - 1, arguments=as_text(delta.get("partial_json")) or "")


WIRE_FORMAT = WireFormat(
    "anthropic-messages",
    build_request,
    assistant,
    turn_of=lambda body: as_list(body.get("content")) or None,
    body_of=lambda turn: {"type": "message", "content": turn},
    deltas=_deltas,
    reasoning_fields=("content",),
)
