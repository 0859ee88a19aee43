"""Lists of messages as attributes hold them, in the form of any provider or framework, as our messages.

The form is found element by element: OpenAI's chats and response items, Anthropic's blocks, Google's contents, the
parts of the GenAI conventions (`parts.py`), LangChain's messages. What is no list of messages gives None.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.dialects import anthropic_messages, google_generate, openai_chat, openai_responses
from trace_recorder.dialects.call_ids import number_messages
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.spans import parts
from trace_recorder.imports.foreign.spans.span import parsed
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.structs import replace

_ROLES = {"human": "user", "ai": "assistant", "chat": "user", "aimessagechunk": "assistant"}
"""The types of LangChain's messages that are no roles."""
_KNOWN = {"system", "developer", "user", "assistant", "tool", "function", "model"}
_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking"}
_MESSAGE_MEMBERS = {"content", "tool_calls", "parts", "function_call", "tool_call_id", "reasoning_content"}


def read_messages(value: Payload) -> list[Message] | None:
    """Read a list of messages, or a single one; None where it is neither. Calls without ids get the same ids again."""
    listed = _flat(parsed(value))
    if not listed or not all(map(is_message, listed)):
        return None
    return number_messages(_named_tools(_read_all([_unified(element) for element in listed])))


def _flat(value: Payload) -> list[Payload]:
    """Return the elements of a list, of the only list in a list, or of one message."""
    listed = value if isinstance(value, list) else [value]
    return listed[0] if len(listed) == 1 and isinstance(listed[0], list) else listed


def is_message(element: Payload) -> bool:
    """Whether a value is a message in any of the forms."""
    if not isinstance(element, dict):
        return False
    if isinstance(element.get("role"), str):
        return not element.keys().isdisjoint(_MESSAGE_MEMBERS)
    return _is_item(element) or _langchain(element) is not None or _is_google(element)


def _is_item(element: Members) -> bool:
    """Whether this is an item of OpenAI's responses other than a message."""
    kind = element.get("type")
    return isinstance(kind, str) and (kind == "reasoning" or kind.endswith(("_call", "_call_output")))


def _is_google(element: Members) -> bool:
    return isinstance(element.get("parts"), list) and not parts.has_parts(element)


def _read_all(listed: Sequence[Members]) -> list[Message]:
    if any(_is_item(element) for element in listed):
        return [*openai_responses.read_request({"input": [*listed]}).messages]
    if any(map(_is_google, listed)):
        return [*google_generate.read_request({"contents": [*listed]}).messages]
    return [message for element in listed for message in _read(element)]


def _read(element: Members) -> list[Message]:
    if parts.has_parts(element):
        return parts.read_message(element)
    content = element.get("content")
    if any(parts.kind_of(block) in _BLOCKS for block in as_list(content)):
        return anthropic_messages.read_message(element)
    return openai_chat.read_message(element)


def _unified(element: Members) -> Members:
    """Return a message with a role, and with tool calls as OpenAI has them."""
    unified = dict(_langchain(element) or element)
    beside = as_dict(unified.pop("additional_kwargs", None))
    calls = as_list(unified.get("tool_calls")) or as_list(beside.get("tool_calls"))
    if not calls and (written := _written_calls(unified.get("content"))):
        calls, unified["content"], unified["role"] = written, None, "assistant"
    if calls:
        unified["tool_calls"] = [_called(call) for call in calls]
        if isinstance(unified.get("content"), list):
            unified["content"] = [part for part in unified["content"] if parts.kind_of(part) != "tool_use"]
    elif "tool_calls" in unified:
        del unified["tool_calls"]
    return unified


def _written_calls(content: Payload) -> list[Payload]:
    """Return the tool calls that a content is as a JSON text, as koog has them, whatever the message's role."""
    if not isinstance(content, str) or not content.startswith('[{"function":'):
        return []
    listed = as_list(parsed(content))
    return listed if all(isinstance(as_dict(call).get("function"), dict) for call in listed) else []


def _called(call: Payload) -> Payload:
    """Return a tool call with `function`, where a framework has it flat."""
    members = as_dict(call)
    if "name" not in members or "function" in members:
        return call
    known = {"id", "name", "args", "arguments", "type", "tool_call_id"}
    arguments = members.get("arguments", members.get("args"))
    left = {name: value for name, value in members.items() if name not in known}
    identity = members.get("id", members.get("tool_call_id"))
    return {**left, "id": identity, "function": {"name": members["name"], "arguments": arguments}}


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
    shown = ("content", "tool_calls", "tool_call_id", "name", "additional_kwargs", "reasoning_content")
    found: Members = {"role": role} | {name: inner[name] for name in shown if inner.get(name) is not None}
    return found | ({"is_error": True} if inner.get("status") == "error" else {})


def _named_tools(messages: Sequence[Message]) -> list[Message]:
    """Return messages in which the result of a tool, with the tool's name in place of its role, is a tool's message."""
    names: set[str] = set()
    named = []
    for message in messages:
        names.update(call.name for call in message.tool_calls)
        is_result = message.role in names and message.role not in _KNOWN
        named.append(replace(message, role="tool", name=message.role) if is_result else message)
    return named
