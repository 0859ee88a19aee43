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
    is_run_by_caller,
    media_type_of,
    message_groups,
    names_of_calls,
    object_of,
    only_text,
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
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, json_value
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Message, Payload, Tool, ToolCall, without_none

UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
_OWN = ("model", "config")
_SIGNATURE = "thoughtSignature"


def build_request(messages: list[Message], tools: list[Tool], params: JsonObject) -> JsonObject:
    """Build the arguments of `models.generate_content`."""
    system = [message for message in messages if message.role in SYSTEM]
    spoken = [message for message in messages if message.role not in SYSTEM]
    names = names_of_calls(spoken)
    made_up = {call.call_id for message in spoken for call in message.tool_calls if call.call_id_made_up}
    request: JsonObject = {}
    if "model" in params:
        request["model"] = params["model"]
    request["contents"] = [_content(group, names, made_up) for group in message_groups(spoken)]
    config = _config(system, tools, params)
    if config:
        request["config"] = config
    return request


def _config(system: list[Message], tools: list[Tool], params: JsonObject) -> JsonObject:
    """Build the member `config`: parameters, system messages and tools."""
    config: JsonObject = without_none(**dict(params.get("config") or {}))
    config |= {name: value for name, value in params.items() if name not in _OWN}
    if system:
        config["system_instruction"] = {
            "parts": [_part(part) for message in system for part in sendable_parts(message)]
        }
    if tools:
        declared = [*(config.get("tools") or [])]
        functions = [declaration(tool, _schema_name(tool)) for tool in tools if is_run_by_caller(tool)]
        if functions:
            declared.append({"functionDeclarations": functions})
        declared += [as_dict(tool.raw) for tool in tools if not is_run_by_caller(tool)]
        config["tools"] = declared
    return config


def assistant(message: Message) -> JsonObject:
    """Build the content of the model's turn from the values of its message."""
    calls = [_call(call) for call in message.tool_calls]
    if calls and not any(_SIGNATURE in call for call in calls):
        calls[0][_SIGNATURE] = UNSIGNED
    signed = [part for part in as_list(message.extra.get("parts")) if as_dict(part).get("thought") is True]
    return {"role": "model", "parts": [*signed, *map(_part, sendable_parts(message)), *calls]}


def _content(group: list[Message], names: dict[str, str], made_up: set[str]) -> JsonObject:
    message = group[0]
    if message.role == "tool":
        return {"role": "user", "parts": [_response(each, names, made_up) for each in group]}
    if message.role == "assistant":
        return as_dict(turn_of_message(message)) or assistant(message)
    return {"role": "user", "parts": [_part(part) for part in sendable_parts(message)]}


def _part(part: JsonObject) -> JsonObject:
    if part.get("type") == "text":
        return {"text": part.get("text"), **rest_of(part, "type", "text", "cache_control")}
    if part.get("type") != "image":
        return part
    if "url" in part:
        return {"fileData": {"mimeType": media_type_of(part), "fileUri": part["url"]}}
    return {"inlineData": {"mimeType": media_type_of(part), "data": part.get("data")}}


def _call(call: ToolCall) -> JsonObject:
    function_call = {"name": call.name, "args": object_of(call)}
    if not call.call_id_made_up:
        function_call = {"id": call.call_id, **function_call}
    part: JsonObject = {"functionCall": function_call}
    if _SIGNATURE in call.extra:
        part[_SIGNATURE] = call.extra[_SIGNATURE]
    return part


def _response(message: Message, names: dict[str, str], made_up: set[str]) -> JsonObject:
    """Return the part with a tool's result: the part of a recorded request if there is one, or else a new part."""
    if "functionResponse" in message.extra:
        return {name: value for name, value in message.extra.items() if name != "is_error"}
    parts = sendable_parts(message)
    images = [part for part in parts if part.get("type") == "image"]
    if images:
        text = "\n".join(as_text(part.get("text")) or "" for part in parts)
    else:
        text = only_text(message)
    answer: JsonObject = {}
    if message.call_id not in made_up:
        answer["id"] = message.call_id
    answer["name"] = message.name or names.get(message.call_id or "", "")
    answer["response"] = _result(text, is_error=bool(message.extra.get("is_error")))
    if images:
        answer["parts"] = [_part(part) for part in images]
    return {"functionResponse": answer}


def _result(text: str, *, is_error: bool) -> JsonObject:
    """Return a function's result as an object: a JSON object unchanged, other text as `result`, an error as `error`."""
    if is_error:
        return {"error": text}
    parsed = json_value(text)
    if isinstance(parsed, dict):
        return parsed
    return {"result": text}


def _schema_name(tool: Tool) -> str:
    """Return the name of the member for a tool's schema.

    A schema in Google's own form, as in recorded declarations, has types in capitals or as numbers.
    """
    kind = as_dict(tool.parameters).get("type", "object")
    if isinstance(kind, list) or str(kind).islower():
        return "parametersJsonSchema"
    return "parameters"


def _turn_of(body: JsonObject) -> Payload:
    first = next(iter(as_list(body.get("candidates"))), None)
    content = as_dict(as_dict(first).get("content"))
    # a stream ends with an empty text, but the API refuses an empty text in a request
    parts = [part for part in as_list(content.get("parts")) if part != {"text": ""}]
    if not parts:
        return None
    return {"role": "model", **content, "parts": parts}


def _deltas(event: JsonObject, calls: int) -> Iterator[Delta]:
    for part in map(as_dict, as_list(as_dict(_turn_of(event)).get("parts"))):
        call, text = as_dict(part.get("functionCall")), as_text(part.get("text"))
        if call:
            yield ToolCallDelta(
                calls, as_text(call.get("id")), as_text(call.get("name")), to_json(call.get("args") or {})
            )
            calls += 1
        elif text and part.get("thought") is True:
            yield ReasoningDelta(text)
        elif text:
            yield TextDelta(text)


WIRE_FORMAT = WireFormat(
    "google-generate",
    build_request,
    assistant,
    turn_of=_turn_of,
    body_of=lambda turn: {"candidates": [{"content": turn, "index": 0}]},
    deltas=_deltas,
    reasoning_fields=("parts",),
)
