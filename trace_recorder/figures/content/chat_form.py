"""Messages, tools and results as most export formats write them: as texts, or in the form of OpenAI's chat API.

`values/content_parts.py` reads the parts of messages. Each view decides whether its format can carry an image, or a
part that is neither text nor image.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_elements, map_inside
from trace_recorder.dialects.message_text import text_of
from trace_recorder.values.content_parts import Image, Part, Text, parts_of
from trace_recorder.values.json_text import write_json
from trace_recorder.values.messages import Message, Payload, Tool, ToolCall, ToolResult, without_none
from trace_recorder.values.structs import replace


def utf8_text(text: str) -> str:
    """Return a text in which U+FFFD replaces each lone surrogate, because UTF-8 cannot encode lone surrogates."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_lines(message: Message) -> str:
    """Return the texts of a message, each on its own line."""
    return "\n".join(part.text for part in parts_of(message) if isinstance(part, Text))


def text_of_result_message(message: Message) -> str:
    """Return a message with a tool's result as text: its texts, or its whole content as JSON if a part is not text."""
    if isinstance(message.content, list) and len([*parts_of(message)]) != len(_text_parts(message)):
        return write_json(message.content)
    return "\n".join(_text_parts(message))


def _text_parts(message: Message) -> list[str]:
    return [
        text_of(replace(message, content=[part], extra={}))
        for part in as_elements(message.content)
        if isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))
    ]


def chat_part(part: Part) -> Payload:
    """Return a part in the form of OpenAI's chat API. A part that is neither text nor image is returned unchanged."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": part.address}}
    return part.raw


def describe_part(part: Part, limit: int) -> tuple[str, bool]:
    """Encode a part other than text as JSON, and shorten strings of more than `limit` characters.

    Return the JSON, and whether a string was shortened. A text gives an empty string.
    """
    if isinstance(part, Text):
        return '""', False
    if isinstance(part, Image):
        return _shortened({"type": "image", "url": part.address}, limit)
    return _shortened(part.raw, limit)


def _shortened(raw: Payload, limit: int) -> tuple[str, bool]:
    """Encode a value as JSON with short strings. Return the JSON, and whether a string was shortened."""
    cut: list[int] = []

    def short(value: Payload) -> Payload:
        if isinstance(value, str) and len(value) > limit:
            cut.append(len(value))
            return f"{value[:80]}... ({len(value) - 80} more characters)"
        return map_inside(short, value)

    return write_json(short(raw)), bool(cut)


def function_of(tool: Tool) -> dict[str, Payload]:
    """Return a tool's declaration in the form of OpenAI's chat API.

    A tool whose schema is not an object, or is unknown, gets no `parameters`.
    """
    function = {"name": tool.name, **without_none(description=tool.description)}
    if isinstance(tool.parameters, dict):
        function["parameters"] = tool.parameters
    return {"type": "function", "function": function}


_FUNCTION_MEMBERS = {"type", "function", "name", "description", "parameters", "strict", "cache_control"}


def is_function(tool: Tool) -> bool:
    """Whether a tool was declared as a function, with or without parameters.

    All others are built in at the provider, take free text, or were recorded only by their names. A declaration with
    other members than a function's may have a schema that nobody has read, so it is not a function either.
    """
    if tool.parameters is not None:
        return isinstance(tool.parameters, dict)
    raw = as_dict(tool.raw)
    is_declared = raw.get("type") == "function" or ("type" not in raw and "name" in raw)
    return is_declared and (raw | as_dict(raw.get("function"))).keys() <= _FUNCTION_MEMBERS


def arguments_object(call: ToolCall) -> dict[str, Payload]:
    """Return a call's arguments as an object. Arguments of any other type become the member `input` of an object."""
    if isinstance(call.arguments, dict):
        return call.arguments
    return {"input": call.arguments}


def chat_call(call: ToolCall, arguments: Payload) -> dict[str, Payload]:
    """Return a call in the form of OpenAI's chat API.

    `arguments` are the arguments of the call as the export format requires them.
    """
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def arguments_text(call: ToolCall) -> str:
    """Return a call's arguments as JSON text. If the model wrote the arguments as text, the text is unchanged."""
    if isinstance(call.arguments, str):
        return call.arguments
    return write_json(call.arguments)


def result_text(result: ToolResult) -> str:
    """Return a tool's result as text: the text that the model was shown, or else the returned value, or else the error.

    A value that is not text is written as JSON.
    """
    if isinstance(result.sent, str | list):
        return text_of_result_message(Message("tool", result.sent))
    for value in (result.sent, result.result, result.error):
        if isinstance(value, str):
            return value
        if value is not None:
            return write_json(value)
    return ""
