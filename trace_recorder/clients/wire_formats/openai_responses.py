"""OpenAI's Responses API, whose requests and responses are lists of items.

An assistant's turn is sent back as the received items, including encrypted reasoning. If the request has `store=False`,
the server stores no items. Then a reasoning item without encrypted content is left out, because the server would not
find it. A system message at the beginning becomes `instructions`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.clients.wire_formats.inputs import (
    declaration,
    image_address,
    is_run_by_caller,
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
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Message, Payload, Tool, ToolCall, without_none

_IN_MESSAGES = ("text", "image", "refusal", "input_text", "output_text", "input_image", "input_file", "input_audio")


def build_request(messages: list[Message], tools: list[Tool], params: JsonObject) -> JsonObject:
    """Build the arguments of `responses.create`."""
    request = dict(params)
    if "instructions" not in params and messages and messages[0].role == "system":
        content = messages[0].content
        if isinstance(content, str):
            request["instructions"] = content
            messages = messages[1:]
    items = [item for message in messages for item in _items(message)]
    request["input"] = [item for item in items if params.get("store") is not False or not _is_lost(item)]
    if tools:
        request["tools"] = [*map(_tool, tools)]
    return request


def assistant(message: Message) -> list[JsonObject]:
    """Build the items of an assistant's turn from the values of its message: thinking, content, calls."""
    parts = sendable_parts(message)
    contents = [part for part in parts if part.get("type") in _IN_MESSAGES]
    items = [*as_list(message.extra.get("reasoning"))]
    if contents:
        items.append({"role": "assistant", "content": _content(message, contents)})
    items += [part for part in parts if part.get("type") not in _IN_MESSAGES]
    return [*items, *map(_call, message.tool_calls)]


def _items(message: Message) -> list[JsonObject]:
    if message.role == "assistant":
        return as_list(turn_of_message(message)) or assistant(message)
    content = _content(message, sendable_parts(message))
    if message.role == "tool":
        kind = as_text(message.extra.get("type")) or "function_call_output"
        return [{"type": kind, "call_id": message.call_id, "output": content}]
    return [{"role": message.role, "content": content}]


def _content(message: Message, parts: list[JsonObject]) -> Payload:
    if isinstance(message.content, str | None):
        return message.content or ""
    kind = "output_text" if message.role == "assistant" else "input_text"
    return [_part(part, kind) for part in parts]


def _part(part: JsonObject, kind: str) -> JsonObject:
    if part.get("type") == "text":
        return {**part, "type": kind}
    if part.get("type") != "image":
        return part
    rest = rest_of(part, "type", "url", "data", "media_type")
    return {"type": "input_image", "image_url": image_address(part), **rest}


def _call(call: ToolCall) -> JsonObject:
    kind = as_text(call.extra.get("type")) or "function_call"
    members = {"type": kind, "call_id": call.call_id} | without_none(
        id=call.extra.get("id"), status=call.extra.get("status")
    )
    if kind not in ("function_call", "custom_tool_call"):
        return members | as_dict(call.arguments)
    text = call.arguments
    if not isinstance(text, str):
        text = to_json(text)
    if kind == "custom_tool_call":
        return members | {"name": call.name, "input": text}
    return members | {"name": call.name, "arguments": text}


def _tool(tool: Tool) -> JsonObject:
    """Return the declaration of a tool. As in the other dialects, `strict` is false unless the tool states it."""
    if not is_run_by_caller(tool):
        return as_dict(tool.raw)
    return {"type": "function", **declaration(tool, "parameters"), "strict": False, **other_members(tool)}


def _is_lost(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _deltas(event: JsonObject, calls: int) -> Iterator[Delta]:
    kind = as_text(event.get("type")) or ""
    piece = as_text(event.get("delta")) or ""
    item = as_dict(event.get("item"))
    if kind == "response.output_text.delta":
        yield TextDelta(piece)
    elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
        yield ReasoningDelta(piece)
    elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
        yield ToolCallDelta(calls - 1, arguments=piece)
    elif kind == "response.output_item.added" and item.get("type") in ("function_call", "custom_tool_call"):
        yield ToolCallDelta(calls, as_text(item.get("call_id")), as_text(item.get("name")))


WIRE_FORMAT = WireFormat(
    "openai-responses",
    build_request,
    assistant,
    turn_of=lambda body: as_list(body.get("output")) or None,
    body_of=lambda turn: {"output": turn},
    deltas=_deltas,
    reasoning_fields=("reasoning",),
)
