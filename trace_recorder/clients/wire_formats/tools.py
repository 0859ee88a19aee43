"""The tools that all clients accept: functions, or JSON Schemas in OpenAI's form or a plain form.

pydantic reads a function's parameters from its
signature. The docstring is the description. A tool that the provider runs itself is passed to the provider unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from trace_recorder.dialects.json_access import as_dict, as_text, map_inside
from trace_recorder.errors import MessageFormatError
from trace_recorder.values.messages import Payload, Tool, without_none

ToolInput = Callable[..., object] | Mapping[str, Payload] | Tool
"""One tool in a form that `chat()` accepts: a function, a JSON Schema, or the provider's own declaration."""

_TAKEN = ("type", "function", "name", "description", "parameters", "input_schema")


def to_tools(tools: Iterable[ToolInput] | None) -> list[Tool]:
    """Return tools in the form that all builders accept. Raises MessageFormatError for anything else."""
    return [_tool(place, tool) for place, tool in enumerate(tools or ())]


def is_function(tool: Tool) -> bool:
    """Whether the caller runs the tool. If the provider runs it, only `raw` is sent."""
    return tool.parameters is not None or tool.raw is None


def besides(tool: Tool) -> dict[str, Payload]:
    """Return the members of a declaration other than name, description and parameters: `strict`, `cache_control`."""
    raw = as_dict(tool.raw)
    members = raw | as_dict(raw.get("function"))
    return {name: value for name, value in members.items() if name not in _TAKEN}


def named(tool: Tool, parameters: str) -> dict[str, Payload]:
    """Return the declaration that most dialects share, with the schema under the dialect's name."""
    return {"name": tool.name, **without_none(description=tool.description), parameters: tool.parameters or _NOTHING}


_NOTHING = {"type": "object", "properties": {}}
"""The schema of a function without parameters."""


def _tool(place: int, tool: ToolInput) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, Mapping):
        return _of_schema(dict(tool))
    if callable(tool):
        return _of_function(tool)
    raise MessageFormatError(
        f"Tool {place} is of type {type(tool).__name__}. Pass a function, or a dict with a schema."
    )


def _of_schema(schema: dict[str, Payload]) -> Tool:
    members = as_dict(schema.get("function")) or schema
    name = as_text(members.get("name"))
    parameters = members.get("parameters", members.get("input_schema"))
    if name and parameters is None and schema.get("type") in (None, "function"):
        parameters = _NOTHING
    return Tool(name or "", as_text(members.get("description")), parameters if name else None, schema)


def _of_function(function: Callable[..., object]) -> Tool:
    from pydantic import TypeAdapter  # noqa: PLC0415 - importing the clients is quick
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
    """Drop the titles that pydantic makes from the names. A property that is called title stays."""
    if not isinstance(schema, dict):
        return map_inside(_untitled, schema)
    return {
        name: map_inside(_untitled, value) if name in ("properties", "$defs") else _untitled(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
    }
