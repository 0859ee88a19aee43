"""Converts any Python value to JSON: `to_jsonable(value)` to plain Python values, `to_json(value)` to text on one line.

Invariant: neither function raises for any value, whatever the value's own code does, and every JSON reader can read the
result. A value that JSON can express is read back equal, but tuples become lists. A path, a date, a set, an Enum or an
array becomes an equivalent JSON value (`json_equivalents.py`). Everything else becomes a description, {"__type__": …,
"repr": …}: NaN, bytes, a lone surrogate, an integer beyond 64 bits, a cycle, a value that is nested too deep, an object
of an unknown class. The attributes of such an object are not read, because an argument may contain an SDK's whole
client. KeyboardInterrupt passes.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import reprlib
from collections.abc import Mapping
from typing import TypeGuard

from trace_recorder.guard import ignore_failures, try_call
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_equivalents import json_equivalent
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct, asdict

_MAX_DEPTH = 200
"""A value that is nested deeper becomes a description. Python's own json fails at a little under 1,000 levels."""
MAX_NODES = 1_000_000
"""At most this many parts of a value are copied, and the rest is left out.

A small value may have very many parts: 30 lists, each with the next list in it twice, have a billion.
"""
_MAX_REPR = 10_000
"""The repr in a description is cut after this many characters."""
_NOT_GIVEN_CLASSES = frozenset({"NotGiven", "Omit"})
"""The names of the SDKs' classes for an argument that was not given. A dict's member with such a value is left out."""
ATTRIBUTES = (
    *("role", "content", "tool_call", "tool_result", "tool_calls", "reasoning", "model", "finish_reason", "usage"),
    *("call_id", "name", "arguments", "success", "result", "error", "id", "type", "description", "parameters"),
    *("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "reasoning_tokens"),
)
"""The attributes of messages, responses, tools, tool calls and tool results that `object_to_jsonable` reads."""
_SCALARS = frozenset({str, int, float, bool})
"""Most values have one of these classes, so these classes are checked first."""
NESTED_ATTRIBUTES = frozenset({"tool_call", "tool_calls", "tool_result", "tool_results", "usage"})
"""The attributes whose values may again be objects of unknown classes: tool calls, tool results and usage."""


def to_json(value: object, *, max_nodes: int = MAX_NODES) -> str:
    """Write any value as JSON text on one line."""
    with ignore_failures:
        return _dump(to_jsonable(value, max_nodes=max_nodes))
    return _dump(describe_value(value))


def to_jsonable(value: object, *, max_nodes: int = MAX_NODES) -> Payload:
    """Copy any value into dicts, lists, strings, numbers, booleans and None.

    At most `max_nodes` parts of it are copied.
    """
    return _copy(value, max_nodes, depth=0, by_attributes=False)[0]


def is_error(value: object) -> TypeGuard[BaseException]:
    """Return whether a value is an exception. Return False if the check raises."""
    with ignore_failures:
        return isinstance(value, BaseException)
    return False


def error_message(error: BaseException) -> str:
    """Return the message of an exception. If its `__str__` raises, return its repr."""
    with ignore_failures:
        return _escape_surrogates(str(error))
    return _escape_surrogates(_repr(error))


def describe_error(error: BaseException) -> dict[str, Payload]:
    """Return the `type` and the `message` of an exception, as records have them."""
    return {"type": type(error).__name__, "message": error_message(error)}


def to_jsonable_of_type(value: object, *kinds: type) -> Payload:
    """Copy a value that must be None or of one of the classes `kinds`. Any other value becomes a description.

    If str is one of `kinds`, a number becomes its digits.
    """
    copied = to_jsonable(value)
    if type(copied) in {int, float} and str in kinds:
        return str(copied)
    if copied is None or type(copied) in kinds or is_description(copied):
        return copied
    return describe_value(value)


def object_to_jsonable(value: object) -> Payload:
    """Copy a message, a response, a tool, a tool call, a tool result, or a list of these, of any class.

    Unlike in `to_jsonable`, an object of an unknown class becomes a dict of its attributes, but only of those in
    `ATTRIBUTES`.
    """
    return _copy(value, MAX_NODES, depth=0, by_attributes=True)[0]


def objects_to_jsonable(value: object) -> list[Payload]:
    """Copy a list as `object_to_jsonable` does.

    A single value becomes a list with one element. None becomes an empty list.
    """
    copied = object_to_jsonable(value)
    if isinstance(copied, list):
        return copied
    if copied is None:
        return []
    return [copied]


def object_to_json(value: object) -> str:
    """Copy a value as `object_to_jsonable` does, and return it as JSON text on one line."""
    return element_to_json(value, 0)[0]


def element_to_json(value: object, depth: int) -> tuple[str, int]:
    """Write an element of a list as `object_to_json` does. Return the text, and how many parts the element has.

    `depth` is the element's level of nesting inside another value, which is not written here.
    """
    with ignore_failures:
        copied, count = _copy(value, MAX_NODES, depth=depth, by_attributes=True)
        return _dump(copied), count
    return _dump(describe_value(value)), 1


def describe_value(value: object) -> dict[str, str]:
    """Return the description of a value that JSON cannot express: its class and its repr, of bounded length."""
    kind = type(value)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return {
        "__type__": _escape_surrogates(name)[:_MAX_REPR],
        "repr": _escape_surrogates(_repr(value))[:_MAX_REPR],
    }


def _copy(value: object, max_nodes: int, *, depth: int, by_attributes: bool) -> tuple[Payload, int]:
    """Copy a value, and count its parts.

    If the code of a part's class raises an exception, copy the value again with a `_GuardedCopier`, so that only this
    part becomes a description.
    """
    copier = _Copier(max_nodes)
    with ignore_failures:
        copied = copier.copy(value, depth, (), by_attributes)
        return copied, max_nodes - copier.remaining
    guarded = _GuardedCopier(max_nodes)
    copied = guarded.copy(value, depth, (), by_attributes)
    return copied, max_nodes - guarded.remaining


class _Copier:
    """A copier of one value. If `by_attributes` is True, objects of unknown classes are copied by their attributes."""

    __slots__ = ("remaining",)

    def __init__(self, max_nodes: int) -> None:
        self.remaining = max_nodes

    def copy(self, value: object, depth: int, above: tuple[int, ...], by_attributes: bool) -> Payload:  # noqa: FBT001 - hot
        """Copy one value. Raises the exceptions of the value's own code."""
        self.remaining -= 1
        if value is None or type(value) in _SCALARS:
            return _scalar(value)  # type: ignore[arg-type]
        if isinstance(value, enum.Enum):
            return self.copy(value.value, depth, above, by_attributes)
        if isinstance(value, str | int | float):
            return _scalar(value)
        return self._parts(value, depth, above, by_attributes)

    def _parts(self, value: object, depth: int, above: tuple[int, ...], by_attributes: bool) -> Payload:
        if depth >= _MAX_DEPTH or id(value) in above or self.remaining <= 0:
            if is_description(value):
                return dict(value)
            return describe_value(value)
        inside = (*above, id(value))
        if isinstance(value, list | tuple):
            return self._list(value, depth + 1, inside, by_attributes)
        if isinstance(value, set | frozenset):
            return _sort_elements(self._list([*value], depth + 1, inside, by_attributes))
        if type(value) is not dict and (form := json_equivalent(value)) is not value:
            return self.copy(form, depth, above, by_attributes)
        fields = _fields(value, by_attributes)
        if fields is None:
            return describe_value(value)
        return self._mapping(fields, depth + 1, inside, by_attributes)

    def _list(
        self, value: list[object] | tuple[object, ...], depth: int, above: tuple[int, ...], by_attributes: bool
    ) -> list[Payload]:
        copied: list[Payload] = []
        for element in value:
            copied.append(self.copy(element, depth, above, by_attributes))
            if self.remaining <= 0:
                break
        return copied

    def _mapping(
        self, value: Mapping[Payload, object], depth: int, above: tuple[int, ...], by_attributes: bool
    ) -> Payload:
        copied: dict[str, Payload] = {}
        name_counts: dict[str, int] = {}
        for key, element in value.items():
            if type(element).__name__ not in _NOT_GIVEN_CLASSES:
                name = _unique_key(key, copied, name_counts)
                copied[name] = self.copy(element, depth, above, by_attributes and name in NESTED_ATTRIBUTES)
            if self.remaining <= 0:
                break
        return copied


class _GuardedCopier(_Copier):
    """A copier that replaces a part by its description if the code of the part's class raises an exception."""

    __slots__ = ()

    def copy(self, value: object, depth: int, above: tuple[int, ...], by_attributes: bool) -> Payload:  # noqa: FBT001 - hot
        """Copy one value. If its own code raises, return its description."""
        with ignore_failures:
            return super().copy(value, depth, above, by_attributes)
        return describe_value(value)


def _sort_elements(copied: list[Payload]) -> list[Payload]:
    """Return the elements of a set in a reproducible order.

    If all elements are numbers, or all are texts, they are sorted by value. Otherwise they are sorted by their JSON.
    """
    kinds = {type(element) for element in copied}
    if kinds <= {int, float} or kinds == {str}:
        return sorted(copied)
    return sorted(copied, key=_dump)


def is_description(value: object) -> TypeGuard[dict[str, str]]:
    """Return whether a value is a description that `describe_value` returned, or a dict that looks like one."""
    if type(value) is not dict or value.keys() != {"__type__", "repr"}:
        return False
    return isinstance(value["__type__"], str) and isinstance(value["repr"], str)


def _scalar(value: str | float | None) -> Payload:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        if text.isascii() or _is_utf8(text):
            return text
        return describe_value(text)
    if isinstance(value, int):
        number = int.__int__(value)
        if -(2**63) <= number < 2**64:
            return number
        return describe_value(number)
    real = float.__float__(value)
    if math.isfinite(real):
        return real
    return describe_value(real)


def _unique_key(key: object, taken: Mapping[str, object], counts: dict[str, int]) -> str:
    """Return a JSON name for a key that no other member has.

    If the name is taken, the key's class is added, and then a number if necessary.
    """
    name = member_name(key)
    if name not in taken:
        return name
    name = f"{name} ({type(key).__name__})"
    while name in taken:
        counts[name] = counts.get(name, 1) + 1
        name = f"{name[:-1]} {counts[name]})"
    return name


def member_name(key: object) -> str:
    """Return a text for a dict's key: the key itself, its JSON equivalent if that is a text, or its repr."""
    if type(key) is str and key.isascii():
        return key
    if isinstance(key, str) and not isinstance(key, enum.Enum):
        return _escape_surrogates(str.__str__(key))
    form = key
    with ignore_failures:
        if isinstance(key, enum.Enum):
            form = json_equivalent(key.value)
        else:
            form = json_equivalent(key)
    if isinstance(form, str):
        return _escape_surrogates(form)
    return _escape_surrogates(_repr(form))


def fields_of(value: object) -> dict[str, object] | None:
    """Return the fields of a pydantic model, a dataclass or a msgspec struct by name, or None for anything else."""
    kind = type(value)
    if hasattr(kind, "model_dump") and hasattr(kind, "model_fields"):
        return dict(value.model_dump(warnings=False))  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Struct):
        return asdict(value)
    return None


def _fields(value: object, by_attributes: bool) -> Mapping[Payload, object] | None:
    if isinstance(value, Mapping):
        return value
    fields = fields_of(value)
    if fields is not None or not by_attributes or isinstance(value, type):
        return fields
    absent = object()
    attributes: dict[Payload, object] = {}
    for name in ATTRIBUTES:
        attribute = absent
        with ignore_failures:
            attribute = getattr(value, name, absent)
        if attribute is not absent and not callable(attribute):
            attributes[name] = attribute
    return attributes or None


_dump = make_json_writer(",", ":", allow_nan=False)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except ours(UnicodeEncodeError):
        return False
    return True


def _escape_surrogates(text: str) -> str:
    return str.__str__(text).encode("utf-8", "backslashreplace").decode()


class _BoundedRepr(reprlib.Repr):
    """Makes a repr of bounded length.

    Containers are shown to a depth of six levels. If the repr of a part raises an exception, the name of the part's
    class takes its place.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 6
        self.maxother = self.maxstring = self.maxlong = _MAX_REPR
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = 100

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002 - the base class's signature
        """Write huge integers in hexadecimal: Python refuses to convert them to decimal."""
        if x.bit_length() < 10_000:
            return repr(x)
        return hex(x)


def _repr(value: object) -> str:
    return try_call(lambda: _BoundedRepr().repr(value), lambda error: f"<repr raised {type(error).__name__}>")
