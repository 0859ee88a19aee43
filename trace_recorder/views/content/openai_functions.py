"""Tools and their calls in the form of OpenAI's functions, which most formats use."""

from __future__ import annotations

import json
from collections.abc import Iterable

from trace_recorder.values.messages import Message, Payload, Tool, ToolCall, ToolResult, without_none
from trace_recorder.views.content.parts import text_of_message


def function_of(tool: Tool) -> dict[str, Payload]:
    """Return a tool's declaration in the form of OpenAI's chat API. A provider's built-in tool has only a name."""
    parameters = tool.parameters if isinstance(tool.parameters, dict) else None
    return {
        "type": "function",
        "function": {"name": tool.name, **without_none(description=tool.description, parameters=parameters)},
    }


def is_function(tool: Tool) -> bool:
    """Whether a tool is the agent's own, with a schema, and not built in at a provider."""
    return isinstance(tool.parameters, dict)


def built_in(tools: Iterable[Tool]) -> list[Payload]:
    """Return the declarations of the provider's built-in tools, as they were sent."""
    return [tool.raw for tool in tools if not is_function(tool)]


def arguments_of(call: ToolCall) -> dict[str, Payload]:
    """Return a call's arguments as an object. Arguments of another type become its member `input`."""
    return call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}


def call_of(call: ToolCall, arguments: Payload) -> dict[str, Payload]:
    """Return a call in the form of OpenAI's chat API.

    `arguments` are its arguments as the export format requires them.
    """
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def arguments_text(call: ToolCall) -> str:
    """Return a call's arguments as JSON text. If the model wrote the arguments as text, the text is unchanged."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def result_text(result: ToolResult) -> str:
    """Return a tool's result as text: the text that the model was shown, or else the returned value, or else the error.

    A value that is not text is written as JSON.
    """
    if isinstance(result.sent, str | list):
        return text_of_message(Message("tool", result.sent))
    returned = result.error if result.result is None else result.result
    value = returned if result.sent is None else result.sent
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
