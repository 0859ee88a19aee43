"""Google's generateContent in its wire JSON, which the SDK accepts.

Parameters other than `model` and `config` are members of the config. A signature is sent back with the part that had
it. Gemini 3 refuses a first function call without a signature, so a call of another provider gets the placeholder that
Google documents for this case (https://ai.google.dev/gemini-api/docs/thought-signatures). Made-up ids are not sent.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from trace_recorder.clients.wire_formats.inputs import (
    SYSTEM,
    declaration,
    is_function,
    media_type_of,
    message_groups,
    names_of_calls,
    object_of,
    parts_of,
    rest_of,
    text_of,
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
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, json_value
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Message, Payload, Tool, ToolCall, without_none

UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
_OWN = ("model", "config")
_SIGNATURE = "thoughtSignature"


def build_request(messages: list[Message], tools: list[Tool], params: JsonObject) -> JsonObject:
    """Build the arguments of `models.generate_content`."""
    system = [message for message in messages if message.role in SYSTEM]
    config = _config(system, tools, params)
    contents = _contents([message for message in messages if message.role not in SYSTEM])
    model = {name: params[name] for name in ("model",) if name in params}
    return {**model, "contents": contents} | ({"config": config} if config else {})


def _contents(messages: list[Message]) -> list[JsonObject]:
    names = names_of_calls(messages)
    made_up = {call.call_id for message in messages for call in message.tool_calls if call.call_id_made_up}
    return [_content(group, names, made_up) for group in message_groups(messages)]


def _config(system: list[Message], tools: list[Tool], params: JsonObject) -> JsonObject:
    """Build the member `config`: parameters, system messages and tools."""
    config: JsonObject = without_none(**dict(params.get("config") or {}))
    config |= {name: value for name, value in params.items() if name not in _OWN}
    if system:
        config["system_instruction"] = {"parts": [_part(part) for message in system for part in parts_of(message)]}
    if tools:
        config["tools"] = [*(config.get("tools") or []), *_tools(tools)]
    return config


def assistant(message: Message) -> JsonObject:
    """Build the content of the model's turn from the values of its message."""
    calls = [_call(call) for call in message.tool_calls]
    if calls and not any(_SIGNATURE in call for call in calls):
        calls[0][_SIGNATURE] = UNSIGNED
    signed = [part for part in as_list(message.extra.get("parts")) if as_dict(part).get("thought") is True]
    return {"role": "model", "parts": [*signed, *map(_part, parts_of(message)), *calls]}


def _content(group: list[Message], names: dict[str, str], made_up: set[str]) -> JsonObject:
    message = group[0]
    if message.role == "tool":
        return {"role": "user", "parts": [_response(each, names, made_up) for each in group]}
    if message.role == "assistant":
        return as_dict(turn_of_message(message)) or assistant(message)
    return {"role": "user", "parts": [_part(part) for part in parts_of(message)]}


def _part(part: JsonObject) -> JsonObject:
    if part.get("type") == "text":
        return {"text": part.get("text"), **rest_of(part, "type", "text", "cache_control")}
    if part.get("type") != "image":
        return part
    if "url" in part:
        return {"fileData": {"mimeType": media_type_of(part), "fileUri": part["url"]}}
    return {"inlineData": {"mimeType": media_type_of(part), "data": part.get("data")}}


def _call(call: ToolCall) -> JsonObject:
    identity = {} if call.call_id_made_up else {"id": call.call_id}
    signature = {_SIGNATURE: call.extra[_SIGNATURE]} if _SIGNATURE in call.extra else {}
    return {"functionCall": {**identity, "name": call.name, "args": object_of(call)}, **signature}


def _response(message: Message, names: dict[str, str], made_up: set[str]) -> JsonObject:
    """Return the part with a tool's result: the part of a recorded request if there is one, or else a new part."""
    if "functionResponse" in message.extra:
        return {name: value for name, value in message.extra.items() if name != "is_error"}
    images = [part for part in parts_of(message) if part.get("type") == "image"]
    response = _result(_texts_of(message) if images else text_of(message), is_error=bool(message.extra.get("is_error")))
    identity = {} if message.call_id in made_up else {"id": message.call_id}
    answered = {**identity, "name": message.name or names.get(message.call_id or "", ""), "response": response}
    return {"functionResponse": answered | ({"parts": [_part(part) for part in images]} if images else {})}


def _texts_of(message: Message) -> str:
    return "\n".join(as_text(part.get("text")) or "" for part in parts_of(message))


def _result(text: str, *, is_error: bool) -> JsonObject:
    """Return a function's result as an object: a JSON object unchanged, other text as `result`, an error as `error`."""
    if is_error:
        return {"error": text}
    parsed = json_value(text)
    return parsed if isinstance(parsed, dict) else {"result": text}


def _tools(tools: list[Tool]) -> list[JsonObject]:
    functions = [declaration(tool, _schema_name(tool)) for tool in tools if is_function(tool)]
    own = [as_dict(tool.raw) for tool in tools if not is_function(tool)]
    return [*([{"functionDeclarations": functions}] if functions else []), *own]


def _schema_name(tool: Tool) -> str:
    """Return the name of the member for a tool's schema.

    A schema in Google's own form, as in recorded declarations, has types in capitals or as numbers.
    """
    kind = as_dict(tool.parameters).get("type", "object")
    return "parametersJsonSchema" if isinstance(kind, list) or str(kind).islower() else "parameters"


def _turn_of(body: JsonObject) -> Payload:
    candidates = as_list(body.get("candidates"))
    content = as_dict(as_dict(candidates[0]).get("content")) if candidates else {}
    # a stream ends with an empty text, but the API refuses an empty text in a request
    parts = [part for part in as_list(content.get("parts")) if part != {"text": ""}]
    return {"role": "model", **content, "parts": parts} if parts else None


def _deltas(event: JsonObject, calls: int) -> Iterator[Delta]:
    for part in map(as_dict, as_list(as_dict(_turn_of(event)).get("parts"))):
        call, text = as_dict(part.get("functionCall")), as_text(part.get("text"))
        if call:
            yield ToolCallDelta(
                calls, as_text(call.get("id")), as_text(call.get("name")), to_json(call.get("args") or {})
            )
            calls += 1
        elif text:
            yield ReasoningDelta(text) if part.get("thought") is True else TextDelta(text)


WIRE_FORMAT = WireFormat(
    "google-generate",
    build_request,
    assistant,
    turn_of=_turn_of,
    body_of=lambda turn: {"candidates": [{"content": turn, "index": 0}]},
    deltas=_deltas,
    reasoning_fields=("parts",),
)
