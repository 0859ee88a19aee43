"""Converts the messages and the tools that a caller passes to the forms that all clients share.

Messages may be Message values, the plain dicts of the document (`role`, `content`, `tool_calls`, `call_id`, …), an
LLMResponse as the assistant's turn, a ToolResult as a tool message, or a text as the user's message. An image is one
part, `{"type": "image", "media_type": …, "data": …}` or `{"type": "image", "url": …}`. The providers' own forms of
images are read too, so a recorded conversation can continue with any provider. Any other part is unchanged. The other
files of this folder build each provider's requests.

Tools may be functions, or dicts: in OpenAI's form, or with name, description and parameters. pydantic reads a
function's parameters from its signature. The docstring is the description. A tool that the provider runs itself is
passed unchanged.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from trace_recorder.dialects import manual as by_hand
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of, map_inside, role_of, text_part
from trace_recorder.errors import MessageFormatError
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import LLMResponse, Message, Payload, Tool, ToolCall, ToolResult, without_none

MessageInput = Message | LLMResponse | ToolResult | Mapping[str, Payload] | str
"""One message of a conversation, in a form that `chat()` accepts."""
MessagesInput = Iterable[MessageInput] | str
"""A conversation, in a form that `chat()` accepts. A text is one user message."""

SYSTEM = ("system", "developer")
ROLES = ("system", "developer", "user", "assistant", "tool")
_RESULT = {"result", "success", "error"}
_MADE_UP = re.compile(r"call_\d{1,5}")
"""The pattern of the ids that `dialects/call_ids.py` makes up. A caller's dicts may lack the mark `call_id_made_up`."""


def to_messages(messages: MessagesInput) -> list[Message]:
    """Return messages in the form that all builders accept. Raises MessageFormatError for an unknown form."""
    if isinstance(messages, str):
        messages = [messages]
    return [_checked(index, _message(index, message)) for index, message in enumerate(messages)]


def only_text(message: Message) -> str:
    """Return the text of a message that must have only text. Raises MessageFormatError if a part is not text."""
    if isinstance(message.content, str | None):
        return message.content or ""
    other = [part for part in message.content if as_dict(part).get("type") != "text"]
    if other:
        first = as_dict(other[0])
        kind = as_text(first.get("type")) or next(iter(first), "nothing")
        raise MessageFormatError(
            f"A {message.role} message can hold only text here, but this one has {kind}. "
            "Put this part in a user message after that message."
        )
    return "".join(as_text(part.get("text")) or "" for part in map(as_dict, message.content))


def sendable_parts(message: Message) -> list[dict[str, Payload]]:
    """Return the parts of a message's content. A text is one part, and an empty text has no parts."""
    if not message.content:
        return []
    if isinstance(message.content, str):
        return [text_part(message.content)]
    return [part for part in map(as_dict, message.content) if part.get("text") != ""]


def object_of(call: ToolCall) -> dict[str, Payload]:
    """Return the arguments of a call as an object, as some dialects require.

    Arguments of any other type become the member `arguments` of an object.
    """
    if isinstance(call.arguments, dict):
        return call.arguments
    return {"arguments": call.arguments}


def names_of_calls(messages: Iterable[Message]) -> dict[str, str]:
    """Return the name of each call by its id, for results that do not name their tool."""
    return {call.call_id: call.name for message in messages for call in message.tool_calls}


def count_made_up_ids(messages: Iterable[Message]) -> int:
    """Return how many calls of a conversation have a made-up id. New made-up ids get the numbers after these."""
    return sum(call.call_id_made_up for message in messages for call in message.tool_calls)


def _message(index: int, message: MessageInput) -> Message:
    if isinstance(message, Message):
        return message
    if isinstance(message, LLMResponse):
        return Message(
            "assistant",
            message.content,
            message.tool_calls,
            reasoning=message.reasoning,
            extra=_extra_of_response(message.extra),
        )
    if isinstance(message, ToolResult):
        return _message_of_result(message)
    if isinstance(message, str):
        return Message("user", message)
    if not isinstance(message, Mapping):
        raise MessageFormatError(
            f"Message {index} is of type {type(message).__name__}. Pass a Message, a dict with role and content, an "
            "LLMResponse, a ToolResult, or a text."
        )
    if "role" not in message and _RESULT & message.keys():
        return _message_of_result(by_hand.read_tool_result(dict(message)))
    return _message_of_dict(dict(message))


def _message_of_dict(members: dict[str, Payload]) -> Message:
    calls = tuple(map(_call, as_list(members.get("tool_calls"))))
    read = by_hand.message_of_agent({**members, "tool_calls": None})
    extra = as_dict(members.get("extra")) | without_none(is_error=members.get("is_error"))
    return Message(read.role, read.content, calls, read.call_id, read.name, read.reasoning, extra)


def _call(call: ToolCall | dict[str, Payload]) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    read = by_hand.read_tool_call(call)
    made_up = call.get("call_id_made_up") is True or _MADE_UP.fullmatch(read.call_id) is not None
    return ToolCall(read.call_id, read.name, read.arguments, made_up, as_dict(call.get("extra")))


def _extra_of_response(extra: dict[str, Payload]) -> dict[str, Payload]:
    """Return the `extra` that the message of a response gets.

    Reasoning items of the Responses API become `reasoning`.
    """
    thinking = [item for item in as_list(extra.get("output")) if as_dict(item).get("type") == "reasoning"]
    return extra | without_none(reasoning=thinking or None)


def _message_of_result(result: ToolResult) -> Message:
    content, extra = result.result, {}
    if result.success is False or (result.success is None and result.error is not None):
        content, extra = result.error, {"is_error": True}
    if not isinstance(content, str) and not _is_parts(content):
        content = to_json(content)
    return Message("tool", content, call_id=result.call_id, name=result.name, extra=extra)


def _is_parts(value: Payload) -> bool:
    return isinstance(value, list) and bool(value) and all(as_text(as_dict(part).get("type")) for part in value)


def _checked(index: int, message: Message) -> Message:
    role = role_of(message.role)
    if role not in ROLES:
        raise MessageFormatError(f"Message {index} has the role {message.role!r}; roles are {', '.join(ROLES)}.")
    if role == "tool" and not message.call_id:
        raise MessageFormatError(f"Message {index} is a tool message without a call_id: state which call it answers.")
    if not isinstance(message.content, list):
        return message
    content = content_of([_part(index, part) for part in message.content])
    return Message(role, content, message.tool_calls, message.call_id, message.name, message.reasoning, message.extra)


def _part(index: int, part: Payload) -> dict[str, Payload]:
    if isinstance(part, str):
        return text_part(part)
    if not isinstance(part, dict):
        raise MessageFormatError(f"Message {index} has a part of type {type(part).__name__}; parts are dicts.")
    image = next(filter(None, (read(part) for read in _IMAGES)), None)
    if image is None and part.get("type") == "image" and not ({"data", "url"} & part.keys()):
        raise MessageFormatError(f"Message {index} has an image with neither data (base64) nor url.")
    return image or part


def _openai_image(part: dict[str, Payload]) -> dict[str, Payload] | None:
    """Read an image part of one of OpenAI's APIs.

    Return None for any other part. In chat completions, `image_url` is an object with `url`. In the Responses API,
    `image_url` is the URL itself.
    """
    inside = part.get("image_url")
    address = as_text(as_dict(inside).get("url")) or as_text(inside)
    if part.get("type") not in ("image_url", "input_image") or address is None:
        return None
    image = {"type": "image", "url": address}
    head, _, data = address.partition(";base64,")
    if data and head.startswith("data:"):
        image = {"type": "image", "media_type": head.removeprefix("data:"), "data": data}
    return image | without_none(detail=as_dict(inside).get("detail") or part.get("detail"))


def _anthropic_image(part: dict[str, Payload]) -> dict[str, Payload] | None:
    source = as_dict(part.get("source"))
    if part.get("type") != "image" or source.get("type") not in ("base64", "url"):
        return None
    rest = {name: value for name, value in part.items() if name not in ("type", "source")}
    image = without_none(media_type=source.get("media_type"), data=source.get("data"), url=source.get("url"))
    return {"type": "image", **image, **rest}


def _google_image(part: dict[str, Payload]) -> dict[str, Payload] | None:
    inline = as_dict(part.get("inlineData") or part.get("inline_data"))
    media_type = as_text(inline.get("mimeType") or inline.get("mime_type")) or ""
    if not media_type.startswith("image/") or len(part) > 1:
        return None
    return {"type": "image", "media_type": media_type, "data": inline.get("data")}


_IMAGES: tuple[Callable[[dict[str, Payload]], dict[str, Payload] | None], ...] = (
    _openai_image,
    _anthropic_image,
    _google_image,
)


def image_address(image: dict[str, Payload]) -> str:
    """Return the address of an image. Image data becomes a data: URL."""
    url = as_text(image.get("url"))
    if url is not None:
        return url
    return f"data:{media_type_of(image)};base64,{image.get('data')}"


def media_type_of(image: dict[str, Payload]) -> str:
    """Return the media type of an image. The default is PNG."""
    return as_text(image.get("media_type")) or "image/png"


def rest_of(part: dict[str, Payload], *taken: str) -> dict[str, Payload]:
    """Return the members of a part that are not in `taken`. Examples are `cache_control`, `detail` and a signature."""
    return {name: value for name, value in part.items() if name not in taken}


def message_groups(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield groups of messages. Adjacent tool messages form one group, because they answer one turn."""
    results: list[Message] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
            continue
        if results:
            yield results
            results = []
        yield [message]
    if results:
        yield results


ToolInput = Callable[..., object] | Mapping[str, Payload] | Tool
"""One tool in a form that `chat()` accepts: a function, a JSON Schema, or the provider's own declaration."""

_TAKEN = ("type", "function", "name", "description", "parameters", "input_schema")


def to_tools(tools: Iterable[ToolInput] | None) -> list[Tool]:
    """Return tools in the form that all builders accept. Raises MessageFormatError for an unknown form."""
    return [_tool(index, tool) for index, tool in enumerate(tools or ())]


def is_run_by_caller(tool: Tool) -> bool:
    """Return whether the caller runs the tool. If the provider runs the tool, only `raw` is sent."""
    return tool.parameters is not None or tool.raw is None or as_dict(tool.raw).get("type") == "function"


def other_members(tool: Tool) -> dict[str, Payload]:
    """Return the further members of a declaration, such as `strict`. Name, description and parameters are left out."""
    raw = as_dict(tool.raw)
    members = raw | as_dict(raw.get("function"))
    return {name: value for name, value in members.items() if name not in _TAKEN}


def declaration(tool: Tool, parameters: str) -> dict[str, Payload]:
    """Return the declaration that most dialects share, with the schema under the dialect's name `parameters`."""
    return {"name": tool.name, **without_none(description=tool.description), parameters: tool.parameters or _NOTHING}


_NOTHING = {"type": "object", "properties": {}}
"""The schema of a function without parameters."""


def _tool(index: int, tool: ToolInput) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, Mapping):
        return _tool_of_schema(dict(tool))
    if callable(tool):
        return _tool_of_function(tool)
    raise MessageFormatError(
        f"Tool {index} is of type {type(tool).__name__}. Pass a function, or a dict with a schema."
    )


def _tool_of_schema(schema: dict[str, Payload]) -> Tool:
    members = as_dict(schema.get("function")) or schema
    name, description = as_text(members.get("name")), as_text(members.get("description"))
    if not name:
        return Tool("", description, None, schema)
    parameters = members.get("parameters", members.get("input_schema"))
    if parameters is None and schema.get("type") in (None, "function"):
        parameters = _NOTHING
    return Tool(name, description, parameters, schema)


def _tool_of_function(function: Callable[..., object]) -> Tool:
    from pydantic import TypeAdapter  # noqa: PLC0415 - so that importing the clients is quick
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - likewise

    name = getattr(function, "__name__", type(function).__name__)
    try:
        schema = TypeAdapter(cast(Any, function)).json_schema()
    except PydanticUserError as error:
        raise MessageFormatError(f"No JSON Schema can be made of the function {name}: {error}") from error
    if schema.get("type") != "object":
        raise MessageFormatError(
            f"The function {name} has positional-only parameters, but a model passes all arguments by name."
        )
    return Tool(name, inspect.getdoc(function), _untitled(schema))


def _untitled(schema: Payload) -> Payload:
    """Return a schema without the titles that pydantic makes from names. A property with the name `title` remains."""
    if not isinstance(schema, dict):
        return map_inside(_untitled, schema)
    members: dict[str, Payload] = {}
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            members[name] = map_inside(_untitled, value)
        elif name != "title" or not isinstance(value, str):
            members[name] = _untitled(value)
    return members
