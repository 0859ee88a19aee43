"""Any Python value as plain JSON: `plain(value)` copies it, `to_json(value)` writes it on one line.

Invariant: neither ever raises for a value, and what they give can be read by every JSON reader. What JSON can say
comes back equal (tuples as lists). What it has no word for, a NaN, bytes, a set, a lone surrogate, an integer
beyond 64 bits, a cycle, a value nested too deep, an object of a class unknown here, becomes
{"__type__": …, "repr": …}. Objects are not walked by their attributes: a client inside an argument would be.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Protocol, TypeGuard

from trace_recorder.conversation import Payload
from trace_recorder.guard import attempt

_DEPTH = 200
"""Deeper nesting is not walked: Python's own json refuses to read back a little under 1,000 levels."""
_REPR = 10_000
"""The longest repr that is kept, in characters."""
_LEFT_OUT = frozenset({"NotGiven", "Omit"})
"""Classes by which the SDKs say that an argument was not given: as a dict's value they say that it is not there."""


def to_json(value: object) -> str:
    """Write any value as JSON text on one line."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def members(value: Mapping[str, object]) -> str:
    """Write a mapping's members as JSON text, without the braces around them."""
    return to_json(value)[1:-1]


def plain(value: object) -> Payload:
    """Copy any value into dicts, lists, strings, numbers, booleans and None."""
    return _plain(value, 0, ())


def marked(value: object) -> dict[str, str]:
    """Describe a value that JSON has no word for: its class and its repr, cut at 10,000 characters."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {"__type__": name, "repr": _safe(_repr(value))[:_REPR]}


def _plain(value: object, depth: int, above: tuple[int, ...]) -> Payload:
    if isinstance(value, enum.Enum):
        return _plain(value.value, depth, above)
    if value is None or isinstance(value, str | int | float):
        return _scalar(value)
    if depth >= _DEPTH or id(value) in above:
        return marked(value)
    inside = (*above, id(value))
    if isinstance(value, list | tuple):
        elements = attempt(lambda: list(value), lambda _: [marked(value)])
        return [_plain(element, depth + 1, inside) for element in elements]
    fields = value if isinstance(value, Mapping) else fields_of(value)
    return marked(value) if fields is None else _mapping(fields, depth + 1, inside)


def _scalar(value: str | float | None) -> Payload:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        return text if _encodes(text) else marked(text)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else marked(int(value))
    return float(value) if math.isfinite(value) else marked(float(value))


def _mapping(value: Mapping[Payload, object], depth: int, above: tuple[int, ...]) -> Payload:
    copied: dict[str, Payload] = {}
    pairs = attempt(lambda: list(value.items()), lambda _: None)
    if pairs is None:
        return marked(value)
    for key, element in pairs:
        if type(element).__name__ not in _LEFT_OUT:
            copied[_key(key, copied)] = _plain(element, depth, above)
    return copied


def _key(key: object, taken: Mapping[str, object]) -> str:
    """A JSON name for any key; one that is taken already gets its class beside it, so that nothing is overwritten."""
    name = str.__str__(key) if isinstance(key, str) else _repr(key)
    name = _safe(name)
    while name in taken:
        name = f"{name} ({type(key).__name__})"
    return name


class _Model(Protocol):
    def model_dump(self, *, warnings: bool) -> dict[str, object]: ...


def _is_model(value: object) -> TypeGuard[_Model]:
    return not isinstance(value, type) and hasattr(type(value), "model_dump") and hasattr(type(value), "model_fields")


def fields_of(value: object) -> dict[str, object] | None:
    """The fields of a pydantic model or a dataclass by name, or None for anything else."""
    return attempt(lambda: _fields_of(value), lambda _: None)


def _fields_of(value: object) -> dict[str, object] | None:
    if _is_model(value):
        return dict(value.model_dump(warnings=False))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


_NAMES = (
    *("role", "content", "tool_call", "tool_result", "tool_calls", "reasoning", "model", "finish_reason", "usage"),
    *("call_id", "name", "arguments", "success", "result", "error", "id", "type", "description", "parameters"),
    *("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens"),
)
_OPENED = frozenset({"tool_call", "tool_calls", "tool_result", "tool_results", "usage"})


def handed_over(value: object) -> Payload:
    """Copy a message, a response, a tool, a call or a result, or a list of them, of whatever class.

    Beside what `plain` takes, an object counts by its attributes, of which those are read that such values have.
    """
    if value is None or isinstance(value, str | int | float | bytes | type):
        return plain(value)
    if isinstance(value, list | tuple):
        return [handed_over(element) for element in value]
    fields = value if isinstance(value, Mapping) else fields_of(value) or _attributes(value)
    if not fields:
        return plain(value)
    opened = {name: handed_over(fields[name]) for name in _OPENED if name in fields}
    copied = plain({name: None if name in opened else element for name, element in fields.items()})
    return {**copied, **opened} if isinstance(copied, dict) else copied


def _attributes(value: object) -> dict[str, object]:
    """What an object has of the attributes of such values; methods of these names are none of them."""
    absent = object()
    found = ((name, attempt(partial(getattr, value, name, absent), lambda _: absent)) for name in _NAMES)
    return {name: element for name, element in found if element is not absent and not callable(element)}


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _safe(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _repr(value: object) -> str:
    return attempt(lambda: repr(value), lambda error: f"<repr raised {type(error).__name__}>")
