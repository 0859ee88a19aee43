"""Reads lists of messages in the attributes of spans, in the form of any provider or framework.

The form of each element is recognised: OpenAI's chats and response items, Anthropic's blocks, Google's contents,
LangChain's messages, and the parts of the GenAI conventions (`{"role", "parts", "finish_reason"}`). A part for which a
message has no field stays a part of the message's content.

Source of the conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (the JSON schemas of input and output
messages), and the older names of pydantic-ai.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trace_recorder.dialects import anthropic_messages, google_generate, openai_chat, openai_responses
from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import number_messages
from trace_recorder.dialects.json_access import (
    arguments_of,
    as_dict,
    as_list,
    as_text,
    is_plain_text,
    role_of,
    text_part,
)
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.spans.reading.span import parsed
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Block, Message, Payload, ToolCall, without_none
from trace_recorder.values.structs import replace

_TEXT = {"text"}
_REASONING = {"reasoning", "thinking"}
_CALL = {"tool_call"}
_RESULT = {"tool_call_response"}
_READ = {"type", "id", "name", "arguments", "result", "response", "content"}


def type_of_part(part: Payload) -> str:
    """Return the type of a part or a block, or "" if the part states no type."""
    return as_text(as_dict(part).get("type")) or ""


def has_parts(element: Payload) -> bool:
    """Return whether an element is a message in the form of the GenAI conventions."""
    parts = as_dict(element).get("parts")
    return isinstance(parts, list) and all(map(_is_part, parts))


def _is_part(value: Payload) -> bool:
    return isinstance(as_dict(value).get("type"), str)


def read_span_message(element: Payload) -> list[Message]:
    """Read one message in the form of the GenAI conventions.

    Each tool result becomes a message of role "tool". The parts between two tool results become one message. The order
    is kept.
    """
    members = as_dict(element)
    role = role_of(members.get("role"))
    messages: list[Message] = []
    rest: list[Members] = []
    for part in map(as_dict, as_list(members.get("parts"))):
        if type_of_part(part) not in _RESULT:
            rest.append(part)
            continue
        if rest:
            messages.append(_of_parts(role, rest))
            rest = []
        messages.append(_result(part))
    if rest or not messages:
        messages.append(_of_parts(role, rest))
    return messages


def blocks_of(parts: Iterable[Members], calls: Iterable[ToolCall]) -> tuple[Block, ...]:
    """Return the blocks of an answer in their order, or () if the order is reasoning, text, tool calls."""
    return _gather(parts).blocks.interleaved(calls)


def joined_outputs(outputs: Iterable[Members]) -> Members:
    """Join outputs that are the items or the chunks of one answer into one message.

    An output without a finish reason is a chunk, and the next output may continue its last part.
    """
    whole: Members = {}
    parts: list[Members] = []
    is_chunk = False
    for output in outputs:
        whole = output
        for part in map(as_dict, as_list(output.get("parts"))):
            if is_chunk and _continues(parts[-1], part):
                parts[-1] = parts[-1] | {"content": f"{parts[-1]['content']}{part['content']}"}
            else:
                parts.append(part)
            is_chunk = False
        is_chunk = bool(parts) and not output.get("finish_reason")
    return {**whole, "parts": parts}


def _continues(previous: Members, part: Members) -> bool:
    """Return whether a part continues the text or the reasoning of the part before it."""
    texts = (previous.get("content"), part.get("content"))
    return (
        previous.keys() == {"type", "content"}
        and type_of_part(previous) == type_of_part(part)
        and all(map(as_text, texts))
    )


def _of_parts(role: str, parts: list[Members]) -> Message:
    gathered = _gather(parts)
    thoughts = [part for part in parts if type_of_part(part) in _REASONING and part.keys() - {"type", "content"}]
    return Message(
        role,
        gathered.blocks.content(gathered.content),
        tuple(gathered.calls),
        reasoning=gathered.blocks.all_reasoning(),
        extra=without_none(thinking=thoughts or None),
    )


class _GatheredParts(NamedTuple):
    """The parts of a message: their blocks in order, the tool calls, and the content."""

    blocks: Blocks
    calls: list[ToolCall]
    content: list[Payload]


def _gather(parts: Iterable[Members]) -> _GatheredParts:
    gathered = _GatheredParts(Blocks(), [], [])
    blocks, calls, content = gathered
    for part in parts:
        kind = type_of_part(part)
        if kind in _REASONING:
            blocks.add_reasoning(as_text(part.get("content")))
        elif kind in _CALL:
            blocks.add_call()
            calls.append(_call(part))
        else:
            element = content_part(part)
            content.append(element)
            if is_plain_text(element):
                blocks.add_text(element["text"])
            else:
                blocks.add_other(len(content) - 1)
    return gathered


def _call(part: Members) -> ToolCall:
    extra = {name: value for name, value in part.items() if name not in _READ and value is not None}
    arguments = arguments_of(part.get("arguments"))
    return ToolCall(as_text(part.get("id")) or "", as_text(part.get("name")) or "", arguments, extra=extra)


def _result(part: Members) -> Message:
    extra = {name: value for name, value in part.items() if name not in _READ and value is not None}
    content = _result_content(part.get("response", part.get("result")))
    return Message("tool", content, call_id=as_text(part.get("id")), name=as_text(part.get("name")), extra=extra)


def _result_content(result: Payload) -> str | list[Payload] | None:
    """Return the result of a tool as content: a text, or a list of parts. Any other value becomes JSON text."""
    if isinstance(result, str | None):
        return result
    if isinstance(result, list) and result and all(map(_is_part, result)):
        return [content_part(part) for part in result]
    return to_json(result)


def content_part(part: Members) -> Members:
    """Return a part of a content in the form of OpenAI's chats.

    Return a part that is neither text nor an image unchanged.
    """
    kind, content = type_of_part(part), part.get("content")
    if kind in _TEXT and isinstance(text := part.get("text", content), str):
        extra = {name: value for name, value in part.items() if name not in {"type", "content", "text"} and value}
        return text_part(text, extra)
    address = _image_address(part)
    if address is None:
        return part
    return {"type": "image_url", "image_url": {"url": address}}


def _image_address(part: Members) -> str | None:
    """Return the address of an image, or None for other parts.

    If the part has the image itself, the address is a data URI.
    """
    media = as_text(part.get("mime_type")) or as_text(part.get("media_type")) or ""
    if part.get("modality") != "image" and not media.startswith("image/") and part.get("type") != "image-url":
        return None
    if isinstance(url := part.get("uri") or part.get("url"), str):
        return url
    content = part.get("content")
    if isinstance(content, str) and media:
        return f"data:{media};base64,{content}"
    return None


def parts_in(text: Payload) -> list[Members]:
    """Return the parts of system instructions, which are a list of parts or the JSON text of such a list."""
    value = parsed(text)
    if isinstance(value, str):
        return [text_part(value)]
    parts: list[Members] = []
    for part in as_list(value):
        if isinstance(part, dict):
            parts.append(part)
        else:
            parts.append(text_part(str(part)))
    return parts


_ROLES = {"human": "user", "ai": "assistant", "chat": "user", "aimessagechunk": "assistant"}
"""The roles of those message types of LangChain whose names are not roles."""
_KNOWN = {"system", "developer", "user", "assistant", "tool", "function", "model"}
_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking"}
_MESSAGE_MEMBERS = {"content", "tool_calls", "parts", "function_call", "tool_call_id", "reasoning_content"}


def read_messages(value: Payload) -> list[Message] | None:
    """Read a list of messages, or one message.

    Return None for any other value. A tool call without an id gets an id, which is the same whenever the value is read.
    """
    elements = _flat(parsed(value))
    if not elements or not all(map(is_message, elements)):
        return None
    return number_messages(_with_tool_roles(_read_all([_unified(element) for element in elements])))


def _flat(value: Payload) -> list[Payload]:
    """Return the elements of a list, or of the list that is its only element.

    Any other value becomes a list of one element.
    """
    if not isinstance(value, list):
        return [value]
    if len(value) == 1 and isinstance(value[0], list):
        return value[0]
    return value


def is_message(element: Payload) -> bool:
    """Return whether a value is a message in one of the forms that this module reads."""
    if not isinstance(element, dict):
        return False
    if isinstance(element.get("role"), str):
        return not element.keys().isdisjoint(_MESSAGE_MEMBERS)
    return _is_item(element) or _langchain(element) is not None or _is_google(element)


def _is_item(element: Members) -> bool:
    """Return whether an element is an item of OpenAI's Responses API, and not a message."""
    kind = element.get("type")
    return isinstance(kind, str) and (kind == "reasoning" or kind.endswith(("_call", "_call_output")))


def _is_google(element: Members) -> bool:
    return isinstance(element.get("parts"), list) and not has_parts(element)


def _read_all(elements: Sequence[Members]) -> list[Message]:
    if any(_is_item(element) for element in elements):
        return [*openai_responses.read_request({"input": [*elements]}).messages]
    if any(map(_is_google, elements)):
        return [*google_generate.read_request({"contents": [*elements]}).messages]
    return [message for element in elements for message in _read(element)]


def _read(element: Members) -> list[Message]:
    if has_parts(element):
        return read_span_message(element)
    content = element.get("content")
    if any(type_of_part(block) in _BLOCKS for block in as_list(content)):
        return anthropic_messages.read_message(element)
    return openai_chat.read_message(element)


def _unified(element: Members) -> Members:
    """Return a message with a role, and with tool calls in OpenAI's form."""
    unified = dict(_langchain(element) or element)
    additional = as_dict(unified.pop("additional_kwargs", None))
    calls = as_list(unified.get("tool_calls")) or as_list(additional.get("tool_calls"))
    if not calls and (written := _written_calls(unified.get("content"))):
        calls, unified["content"], unified["role"] = written, None, "assistant"
    if calls:
        unified["tool_calls"] = [_with_function(call) for call in calls]
        if isinstance(unified.get("content"), list):
            unified["content"] = [part for part in unified["content"] if type_of_part(part) != "tool_use"]
    elif "tool_calls" in unified:
        del unified["tool_calls"]
    return unified


def _written_calls(content: Payload) -> list[Payload]:
    """Return the tool calls of a content that is only the JSON text of calls, as koog writes for messages of any role.

    Return [] for other contents.
    """
    if not isinstance(content, str) or not content.startswith('[{"function":'):
        return []
    calls = as_list(parsed(content))
    if not all(isinstance(as_dict(call).get("function"), dict) for call in calls):
        return []
    return calls


def _with_function(call: Payload) -> Payload:
    """Return a tool call with the member `function`. Some frameworks write the name and the arguments beside the id."""
    members = as_dict(call)
    if "name" not in members or "function" in members:
        return call
    known = {"id", "name", "args", "arguments", "type", "tool_call_id"}
    arguments = members.get("arguments", members.get("args"))
    rest = {name: value for name, value in members.items() if name not in known}
    identity = members.get("id", members.get("tool_call_id"))
    return {**rest, "id": identity, "function": {"name": members["name"], "arguments": arguments}}


def _langchain(element: Members) -> Members | None:
    """Return a LangChain message, nested in `kwargs` or flat, as a message with a role.

    Return None if the element is not a LangChain message.
    """
    if element.get("lc") == 1 and isinstance(element.get("kwargs"), dict):
        name = as_text((as_list(element.get("id")) or [None])[-1]) or ""
        inner, kind = as_dict(element["kwargs"]), name.removesuffix("Chunk").removesuffix("Message").lower()
    elif isinstance(element.get("type"), str) and "content" in element and "role" not in element:
        inner, kind = element, as_text(element["type"]) or ""
    else:
        return None
    role = _ROLES.get(kind.lower(), kind)
    if role not in _KNOWN:
        return None
    names = ("content", "tool_calls", "tool_call_id", "name", "additional_kwargs", "reasoning_content")
    message: Members = {"role": role} | {name: inner[name] for name in names if inner.get(name) is not None}
    if inner.get("status") == "error":
        message["is_error"] = True
    return message


def _with_tool_roles(messages: Sequence[Message]) -> list[Message]:
    """Return messages with the role "tool" for results.

    Some frameworks use the tool's name as the role of a result.
    """
    tools: set[str] = set()
    result = []
    for message in messages:
        tools.update(call.name for call in message.tool_calls)
        if message.role in tools and message.role not in _KNOWN:
            result.append(replace(message, role="tool", name=message.role))
        else:
            result.append(message)
    return result
