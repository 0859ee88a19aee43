"""Checks arguments of the recorder's methods that must be a bool or a number, of any class: numpy's, an Enum's value.

Any other value is misuse and raises a TypeError, but only after everything else in the call is recorded. Until then the
wrong value is recorded as a description. The caller calls `raise_if_refused` last.
"""

from __future__ import annotations

import enum
from functools import partial

from trace_recorder.guard import try_call
from trace_recorder.values.json_equivalents import to_integer, to_number
from trace_recorder.values.jsonable import describe_value, to_jsonable
from trace_recorder.values.messages import Payload


class ArgumentReader:
    """Reads the arguments of one call of a method; `who` is its name, for the error message."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._refused: list[TypeError] = []

    def number(self, name: str, value: object) -> Payload:
        """Return a number as JSON has it, or a description of the value."""
        found = try_call(lambda: to_number(_without_enum(value)), lambda _: None)
        return self._copy_or_describe(name, value, "a number", found)

    def integer(self, name: str, value: object) -> Payload:
        """Return a whole number as JSON has it, or a description of the value."""
        found = try_call(lambda: to_integer(_without_enum(value)), lambda _: None)
        return self._copy_or_describe(name, value, "a whole number", found)

    def optional_bool(self, name: str, value: object) -> bool | None:
        """Return a bool, where 0 and 1 count as one; None for None, and for a value that is no bool."""
        found = None if value is None else try_call(partial(_to_bool, value), lambda _: None)
        if found is None and value is not None:
            self._refuse(name, value, "True, False or None")
        return found

    def raise_if_refused(self) -> None:
        """Raise TypeError if any argument was of a wrong kind."""
        if self._refused:
            raise self._refused[0]

    def _copy_or_describe(self, name: str, value: object, kind: str, found: float | None) -> Payload:
        if found is None:
            self._refuse(name, value, kind)
            return describe_value(value)
        return to_jsonable(found)

    def _refuse(self, name: str, value: object, kind: str) -> None:
        said = describe_value(value)["repr"][:200]
        self._refused.append(TypeError(f"{self._who}: {name} is {said}, and must be {kind}."))


def _without_enum(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else value


def _to_bool(value: object) -> bool | None:
    number = to_number(_without_enum(value))
    return bool(number) if number in {0, 1} else None
