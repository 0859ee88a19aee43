"""Values of files that anybody may have written, held against the types that they are declared to have.

`typed(value)` is for the dataclasses of `trajectory.py` and `messages.py`: whoever uses such a value, a view or the
command line, may take it at its word.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from sys import float_info
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trace_recorder.values.jsonable import is_description
from trace_recorder.values.messages import Payload

Value = TypeVar("Value")

MAX_SECONDS = 1e15
"""A duration that is longer is none: there is no date so far away."""
_ACCEPTED_TYPES: dict[Any, tuple[type, ...]] = {int: (int, float), float: (int, float)}
_CHECKED_TYPES = (str, bool, dict, list, tuple, NoneType)


def check_types(value: Value) -> Value:
    """Give a dataclass's value back. Raises TypeError where one of its fields is not of its type."""
    kind: Any = type(value)
    for name, kinds in _checked_fields(kind):
        found = getattr(value, name)
        if not isinstance(found, kinds) and not is_description(found):
            raise TypeError(f"{name} is {type(found).__name__}, and has to be {' or '.join(_type_names(kinds))}")
        limit = MAX_SECONDS if name.endswith(("_seconds", "_time")) else float_info.max
        if isinstance(found, int | float) and not -limit <= found <= limit:
            raise ValueError(f"{name} is {'no number' if math.isnan(found) else 'beyond all measure'}")
    return value


def _type_names(kinds: tuple[type, ...]) -> list[str]:
    return ["null" if kind is NoneType else kind.__name__ for kind in kinds]


@cache
def _checked_fields(kind: Any) -> list[tuple[str, tuple[type, ...]]]:
    """The fields whose types can be told by `isinstance`; what is within a list or a mapping is not looked at."""
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return [(name, kinds) for name in names if (kinds := _types_of_hint(hints[name]))]


def _types_of_hint(hint: Payload) -> tuple[type, ...]:
    """The classes that a hint names; none where it says nothing, or more than that."""
    if get_origin(hint) in {Union, UnionType}:
        kinds = [_types_of_hint(one) for one in get_args(hint)]
        return tuple(kind for one in kinds for kind in one) if all(kinds) else ()
    kind: Payload = get_origin(hint)
    kind = hint if kind is None else kind
    return _ACCEPTED_TYPES.get(kind, (kind,) if kind in _CHECKED_TYPES else ())
