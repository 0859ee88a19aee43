"""Checks the types of values that are read from files, and of arguments of the recorder's methods.

A file may come from anybody, and have values of any type. `check_types` checks the fields of a dataclass or a struct,
so that views and the command line may rely on the declared types. If an agent gave a value that JSON cannot express,
the file has a description of the value. `texts_of_members` turns a description into a text for fields that must be
texts. A description in place of a step's number or a reward's value stays a description.

`ArgumentReader` reads arguments that must be a bool or a number. Bools and numbers of any class, such as numpy's, are
accepted. Any other value is refused: the record has a description in place of a number, and None in place of a bool.
After the call is recorded, `raise_if_refused` raises a TypeError.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from sys import float_info
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trace_recorder.guard import ignore_failures
from trace_recorder.values.json_equivalents import to_integer, to_number
from trace_recorder.values.jsonable import describe_value, is_description, to_jsonable
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct


class ArgumentReader:
    """Reads the arguments of one call of a method.

    A refused argument raises an exception only in `raise_if_refused`. `method` is the method's name for the error
    message.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self._refused: list[TypeError] = []

    def number(self, name: str, value: object) -> Payload:
        """Convert a number of any class, such as numpy's, to its JSON value.

        Refuse any other value, and return its description.
        """
        return self._copy_or_describe(name, value, "a number", _number_of(value))

    def integer(self, name: str, value: object) -> Payload:
        """Convert a whole number of any class to its JSON value. Refuse any other value, and return its description."""
        number = None
        with ignore_failures:
            number = to_integer(_without_enum(value))
        return self._copy_or_describe(name, value, "a whole number", number)

    def optional_bool(self, name: str, value: object) -> bool | None:
        """Return True, False or None unchanged, and 0 and 1 as bools. Refuse any other value, and return None."""
        number = _number_of(value)
        if number in {0, 1}:
            return bool(number)
        if value is not None:
            self._refuse(name, value, "True, False or None")
        return None

    def raise_if_refused(self) -> None:
        """Raise TypeError if any argument was refused."""
        if self._refused:
            raise self._refused[0]

    def _copy_or_describe(self, name: str, value: object, kind: str, number: float | None) -> Payload:
        if number is None:
            self._refuse(name, value, kind)
            return describe_value(value)
        return to_jsonable(number)

    def _refuse(self, name: str, value: object, kind: str) -> None:
        shown = describe_value(value)["repr"][:200]
        self._refused.append(TypeError(f"{self._method}: {name} is {shown}, and must be {kind}."))


def _number_of(value: object) -> int | float | None:
    with ignore_failures:
        return to_number(_without_enum(value))
    return None


def _without_enum(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    return value


Value = TypeVar("Value")

MAX_SECONDS = 1e15
"""A duration of more than this many seconds is refused."""
_ACCEPTED_TYPES: dict[Any, tuple[type, ...]] = {int: (int, float), float: (int, float)}
_TEXTS = frozenset((str, NoneType))
_NUMBERS = (int, float)
"""The types of a number in JSON, without bool."""
_DESCRIBED = frozenset(("value", "weight", "step_number"))
"""The fields with a number that the agent gave.

If the agent gave a value that is not a number, the field has a description of that value.
"""
_CHECKED_TYPES = (str, bool, dict, list, tuple, NoneType)


def check_identity(identity: object, member: str) -> None:
    """Raise TypeError if a member by which records refer to each other is not a text."""
    if not isinstance(identity, str):
        raise TypeError(f"the {member} is not a text")


def text_of_member(value: Payload) -> str | None:
    """Return the value of a member as a text or None.

    A description becomes its `repr`, and any other value its JSON.
    """
    if value is None or isinstance(value, str):
        return value
    if is_description(value):
        return str(value["repr"])
    return json.dumps(value, ensure_ascii=False)


def number_or_text(value: Payload) -> Payload:
    """Return a number or None unchanged, and any other value as a text. The result can be a key of a dict."""
    if type(value) in _NUMBERS:
        return value
    return text_of_member(value)


def texts_of_members(data: Mapping[str, Payload], names: Sequence[str]) -> dict[str, Payload]:
    """Return the members `names` of a record or a document, each as a text or None."""
    values = [*map(data.get, names)]
    if not _TEXTS.issuperset(map(type, values)):
        values = [*map(text_of_member, values)]
    return dict(zip(names, values, strict=True))


def check_types(value: Value) -> Value:
    """Return the value.

    Raises TypeError if a field does not have its declared type, and ValueError if a number is out of range.
    """
    kind: Any = type(value)
    for name, kinds in _checked_fields(kind):
        member = getattr(value, name)
        if not isinstance(member, kinds) and not (name in _DESCRIBED and is_description(member)):
            expected = " or ".join(kind.__name__ for kind in kinds).replace("NoneType", "null")
            raise TypeError(f"{name} is {type(member).__name__}, and must be {expected}")
        if isinstance(member, int | float):
            _check_range(name, member)
    return value


def _check_range(name: str, number: float) -> None:
    limit = float_info.max
    if name.endswith(("_seconds", "_time")):
        limit = MAX_SECONDS
    if -limit <= number <= limit:
        return
    if isinstance(number, float) and math.isnan(number):  # an integer may be too large for a float
        raise ValueError(f"{name} is not a number")
    raise ValueError(f"{name} is too large")


@cache
def _checked_fields(kind: Any) -> list[tuple[str, tuple[type, ...]]]:
    """Return the fields that `isinstance` can check, each with its classes.

    The elements of a list or a mapping are not checked.
    """
    hints = get_type_hints(kind)
    if issubclass(kind, Struct):
        names = kind.__struct_fields__
    else:
        names = tuple(field.name for field in dataclasses.fields(kind))
    return [(name, kinds) for name in names if (kinds := _types_of_hint(hints[name]))]


def _types_of_hint(hint: Payload) -> tuple[type, ...]:
    """Return the classes that a type hint allows, or no class if `isinstance` cannot check the hint."""
    if get_origin(hint) in {Union, UnionType}:
        options = [_types_of_hint(option) for option in get_args(hint)]
        if not all(options):
            return ()
        return tuple(kind for kinds in options for kind in kinds)
    kind: Payload = get_origin(hint)
    if kind is None:
        kind = hint
    if kind in _CHECKED_TYPES:
        return (kind,)
    return _ACCEPTED_TYPES.get(kind, ())
