"""Checks the values that are read from files against the types that their fields declare.

Anybody may have written a file. `check_types(value)` is for the types of `values/`: views and the command line
may then rely on the declared types. An agent may have given a value of another class, which is on file as a
description: `texts_of_members` makes texts of these where texts are declared. In place of a step's number, or of a
reward's, they stay.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from sys import float_info
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trace_recorder.values.jsonable import is_description
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

Value = TypeVar("Value")

MAX_SECONDS = 1e15
"""The longest duration that is accepted; a longer one would leave the range of dates."""
_ACCEPTED_TYPES: dict[Any, tuple[type, ...]] = {int: (int, float), float: (int, float)}
_TEXTS = frozenset((str, NoneType))
_NUMBERS = (int, float)
"""The types of a number in JSON, without bool."""
_DESCRIBED = frozenset(("value", "weight", "step_number"))
"""The numbers that an agent states: what it gave in place of one is described."""
_CHECKED_TYPES = (str, bool, dict, list, tuple, NoneType)


def text_of_member(value: Payload) -> str | None:
    """Return the text that a member has; of a description its `repr`, of another value in its place its JSON."""
    if value is None or isinstance(value, str):
        return value
    return str(value["repr"]) if is_description(value) else json.dumps(value, ensure_ascii=False)


def number_or_text(value: Payload) -> Payload:
    """Return a number, or None, as it is, and anything else in its place as a text, so that it can be a key."""
    return value if type(value) in _NUMBERS else text_of_member(value)


def texts_of_members(data: Mapping[str, Payload], names: Sequence[str]) -> dict[str, Payload]:
    """Return these members of a record or a document, each a text or None."""
    values = [*map(data.get, names)]
    if not _TEXTS.issuperset(map(type, values)):
        values = [*map(text_of_member, values)]
    return dict(zip(names, values, strict=True))


def check_types(value: Value) -> Value:
    """Return a value. Raises TypeError or ValueError where a field has not its declared type or range."""
    kind: Any = type(value)
    for name, kinds in _checked_fields(kind):
        found = getattr(value, name)
        if not isinstance(found, kinds) and not (name in _DESCRIBED and is_description(found)):
            raise TypeError(f"{name} is {type(found).__name__}, and must be {' or '.join(_type_names(kinds))}")
        limit = MAX_SECONDS if name.endswith(("_seconds", "_time")) else float_info.max
        if isinstance(found, int | float) and not -limit <= found <= limit:
            is_nan = isinstance(found, float) and math.isnan(found)  # an integer may be too large for a float
            raise ValueError(f"{name} is {'no number' if is_nan else 'beyond all measure'}")
    return value


def _type_names(kinds: tuple[type, ...]) -> list[str]:
    return ["null" if kind is NoneType else kind.__name__ for kind in kinds]


@cache
def _checked_fields(kind: Any) -> list[tuple[str, tuple[type, ...]]]:
    """Return the fields that `isinstance` can check; what is inside a list or a mapping is not checked."""
    hints = get_type_hints(kind)
    return [(name, kinds) for name in _names_of(kind) if (kinds := _types_of_hint(hints[name]))]


def _names_of(kind: Any) -> Iterable[str]:
    return kind.__struct_fields__ if issubclass(kind, Struct) else [field.name for field in dataclasses.fields(kind)]


def _types_of_hint(hint: Payload) -> tuple[type, ...]:
    """Return the classes that a type hint allows; none where `isinstance` cannot check it."""
    if get_origin(hint) in {Union, UnionType}:
        kinds = [_types_of_hint(one) for one in get_args(hint)]
        return tuple(kind for one in kinds for kind in one) if all(kinds) else ()
    kind: Payload = get_origin(hint)
    kind = hint if kind is None else kind
    return _ACCEPTED_TYPES.get(kind, (kind,) if kind in _CHECKED_TYPES else ())
