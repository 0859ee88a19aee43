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
from typing import Protocol, TypeGuard

from trace_recorder.guard import attempt
from trace_recorder.conversation import Payload

_DEPTH = 200
"""Deeper nesting is not walked: Python's own json refuses to read back a little under 1,000 levels."""
_REPR = 10_000
"""The longest repr that is kept, in characters."""
_LEFT_OUT = frozenset({"NotGiven", "Omit"})
"""Classes by which the SDKs say that an argument was not given: as a dict's value they say that it is not there."""


def to_json(value: object) -> str:
    """Write any value as JSON text on one line."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def plain(value: object) -> Payload:
    """Copy any value into dicts, lists, strings, numbers, booleans and None."""
    return _plain(value, 0, ())


def marked(value: object) -> dict[str, str]:
    """Describe a value that JSON has no word for: its class and its repr, cut at 10,000 characters."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {"__type__": name, "repr": _safe(_repr(value))[:_REPR]}


def _plain(value: object, depth: int, above: tuple[int, ...]) -> Payload:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str | int | float):
        return _scalar(value)
    if depth >= _DEPTH or id(value) in above:
        return marked(value)
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return _mapping(value, depth + 1, inside)
    if isinstance(value, list | tuple):
        elements = attempt(lambda: list(value), lambda _: [marked(value)])
        return [_plain(element, depth + 1, inside) for element in elements]
    fields = fields_of(value)
    return marked(value) if fields is None else _mapping(fields, depth + 1, inside)


def _scalar(value: str | float) -> Payload:
    if isinstance(value, enum.Enum):
        return _plain(value.value, 0, ())
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
    def model_dump(self) -> dict[str, object]: ...


def _is_model(value: object) -> TypeGuard[_Model]:
    return not isinstance(value, type) and hasattr(type(value), "model_dump") and hasattr(type(value), "model_fields")


def fields_of(value: object) -> dict[str, object] | None:
    """The fields of a pydantic model or a dataclass by name, or None for anything else."""
    return attempt(lambda: _fields_of(value), lambda _: None)


def _fields_of(value: object) -> dict[str, object] | None:
    if _is_model(value):
        return dict(value.model_dump())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


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
