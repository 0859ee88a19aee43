"""Makes keys of messages and tools: two values with equal keys are the same JSON.

A key is a tuple of the texts and numbers in a value, of the names of their members, and of the classes of the objects
around them. A key refers to the texts and does not copy them, and Python remembers the hash of a text. So the cost of a
key does not depend on the length of the texts. A dict with such keys finds an equal value, even if the agent has copied
the message. 1, 1.0 and True have different keys.

A value has a key only if reading the value runs no code of its class. These values have a key: dicts with texts or None
as names, lists, tuples, texts, numbers, enums, times, dataclasses, structs of msgspec, pydantic models that have no
serializers of their own, and objects with their attributes in `__dict__`. `jsonable.py` says how each of them becomes
JSON.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
import uuid
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from operator import attrgetter
from pathlib import PurePath
from typing import Any

from trace_recorder.guard import ignore_failures
from trace_recorder.values.jsonable import ATTRIBUTES, NESTED_ATTRIBUTES
from trace_recorder.values.structs import Struct

MAX_PARTS = 1_000
"""A value with more parts than this has no key. Texts, numbers, booleans and None are not counted."""
_MAX_CLASSES = 256
"""At most this many classes are remembered, each with the function that reads the fields of its objects."""

_EXACT = frozenset({str, type(None)})
"""A value of one of these classes is its own key."""
_SCALARS = frozenset({str, type(None), int, float, bool})
_TIMES = frozenset({datetime.datetime, datetime.date, datetime.time})
_WITH_OWN_JSON = (
    Mapping,
    AbstractSet,
    list,
    tuple,
    str,
    int,
    float,
    type,
    PurePath,
    uuid.UUID,
    datetime.date,
    datetime.time,
)
"""Objects of these classes do not become JSON objects with their fields as members."""
_PLAIN_ACCESS: tuple[object, ...] = (object.__getattribute__, types.SimpleNamespace.__getattribute__)
_OWN_SERIALIZERS = ("field_serializers", "model_serializers", "computed_fields")


def content_key(value: object) -> Hashable | None:
    """Return the key of an element of a list of messages or tools, or None if the element has no key."""
    if type(value) is dict:  # most messages are such dicts
        flat = (*value, *value.values())
        if _EXACT.issuperset(map(type, flat)):
            return flat
    with ignore_failures:
        return _KeyReader().read(value, True)  # noqa: FBT003 - hot
    return None


class _NoKeyError(ValueError):
    """The value has no key."""


class _KeyReader:
    """Makes the key of one value.

    If `by_attributes` is True, the key of an object of an unknown class has the object's attributes.
    """

    __slots__ = ("_remaining",)

    def __init__(self) -> None:
        self._remaining = MAX_PARTS

    def read(self, value: Any, by_attributes: bool) -> Hashable:  # noqa: FBT001 - hot, as are the loops without a call
        """Return the key of a value.

        Raises _NoKeyError if the value has no key, and any exception of the value's own code.
        """
        kind = type(value)
        if kind in _SCALARS:
            if kind is float:  # 0.0 equals -0.0, and their texts differ
                return kind, repr(value)
            return kind, value
        self._remaining -= 1
        if self._remaining < 0:
            raise _NoKeyError("it has too many parts")
        if kind is dict:
            flat = (*value, *value.values())
            if _EXACT.issuperset(map(type, flat)):
                return flat
            return self._members(flat, by_attributes)
        if kind is list or kind is tuple:
            key: list[Hashable] = [list]  # marks a list: the key of a dict begins with its names, never with a class
            for element in value:
                if type(element) in _EXACT:
                    key.append(element)
                else:
                    key.append(self.read(element, by_attributes))
            return tuple(key)
        if kind in _TIMES:
            return kind, value.isoformat()
        return self._object(value, kind, by_attributes)

    def _members(self, flat: tuple[Any, ...], by_attributes: bool) -> Hashable:  # noqa: FBT001 - hot
        """Return the key of a dict. `flat` has all names of the dict, followed by all its values."""
        names = flat[: len(flat) // 2]
        if not _EXACT.issuperset(map(type, names)):
            raise _NoKeyError("a name is not a text")
        key: list[Hashable] = [names]
        for name, member in zip(names, flat[len(names) :], strict=True):
            if type(member) in _EXACT:
                key.append(member)
            else:
                key.append(self.read(member, by_attributes and name in NESTED_ATTRIBUTES))
        return tuple(key)

    def _object(self, value: object, kind: type, by_attributes: bool) -> Hashable:  # noqa: FBT001 - hot
        if isinstance(value, enum.Enum) and _class_attribute(kind, "value") is enum.Enum.__dict__["value"]:
            return self.read(value.value, by_attributes)
        if fields := _fields_reader(kind):
            return kind, self.read(fields(value), False)  # noqa: FBT003 - hot
        if not by_attributes or not _has_plain_attributes(kind):
            raise _NoKeyError(f"{kind.__qualname__} has no key")
        own = vars(value)
        known = {name: own[name] for name in ATTRIBUTES if name in own}
        if not known or any(map(callable, known.values())):  # JSON has the repr of such an object
            raise _NoKeyError(f"{kind.__qualname__} has no attribute of a message")
        return kind, self._members((*known, *known.values()), by_attributes)


@lru_cache(_MAX_CLASSES)
def _fields_reader(kind: type) -> Callable[[Any], object] | None:
    """Return a function that reads all fields of an object of this class, or None if reading them may run code."""
    if issubclass(kind, _WITH_OWN_JSON):
        return None
    if hasattr(kind, "model_dump") and hasattr(kind, "model_fields"):
        if _is_dumped_by_pydantic(kind):
            return attrgetter("__dict__", "__pydantic_extra__")
        return None
    names: tuple[str, ...] = ()
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
    elif issubclass(kind, Struct):
        names = kind.__struct_fields__
    if not names or _has_own_access(kind) or any(_is_computed(kind, name) for name in names):
        return None
    return attrgetter(*names)


@lru_cache(_MAX_CLASSES)
def _has_plain_attributes(kind: type) -> bool:
    """Return whether objects of this class have the attributes of a message only in their `__dict__`."""
    if issubclass(kind, _WITH_OWN_JSON) or _has_own_access(kind) or dataclasses.is_dataclass(kind):
        return False
    has_dict = isinstance(_class_attribute(kind, "__dict__"), types.GetSetDescriptorType | types.MemberDescriptorType)
    return has_dict and not any(hasattr(kind, name) for name in (*ATTRIBUTES, "model_fields", "__slots__", "tolist"))


def _has_own_access(kind: type) -> bool:
    return kind.__getattribute__ not in _PLAIN_ACCESS or hasattr(kind, "__getattr__")


def _is_computed(kind: type, name: str) -> bool:
    """Return whether reading an attribute runs code of the class. Reading a slot or a default value runs none."""
    attribute = _class_attribute(kind, name)
    return hasattr(type(attribute), "__get__") and not isinstance(attribute, types.MemberDescriptorType)


def _class_attribute(kind: type, name: str) -> object:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _is_dumped_by_pydantic(kind: Any) -> bool:
    """Return whether pydantic makes the JSON of a model from its fields alone, without code of the model's class."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    is_own = getattr(kind.model_dump, "__module__", None) != "pydantic.main" or kind.__pydantic_root_model__
    return not is_own and not any(getattr(decorators, name, True) for name in _OWN_SERIALIZERS)
