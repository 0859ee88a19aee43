"""Finds JSON equivalents of paths, UUIDs, dates, times, decimals, and numpy's numbers and arrays.

`json_equivalent` returns a value of a built-in type. The elements of a returned list may still be of any type;
`jsonable.py` copies them. numpy is never imported: its values are recognised by the module of their class. `decimal` is
not imported either, because the import takes milliseconds. A program that has not imported `decimal` has no decimals.
"""

from __future__ import annotations

import datetime
import math
import operator
import sys
import uuid
from pathlib import PurePath
from typing import Any

from trace_recorder.signal_handlers import suppress

MAX_ARRAY_ELEMENTS = 10_000
"""An array with more elements than this gets no equivalent, because writing it would delay the agent."""

_AS_TEXT = (PurePath, uuid.UUID)
_AS_ISO_TIME = (datetime.date, datetime.time)


def json_equivalent(value: object) -> object:
    """Return the equivalent of a value, or the value itself if it has no equivalent."""
    decimal = sys.modules.get("decimal")
    if isinstance(value, _AS_TEXT) or (decimal is not None and isinstance(value, decimal.Decimal)):
        return str(value)
    if isinstance(value, _AS_ISO_TIME):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return iso_duration(value)
    if is_numpy(value):
        return _numpy_equivalent(value)
    return value


def is_numpy(value: object) -> bool:
    """Return whether the class of a value is a scalar or array class of numpy, or is derived from one."""
    kind = type(value)
    return hasattr(kind, "tolist") and any(base.__module__.partition(".")[0] == "numpy" for base in kind.__mro__)


def _numpy_equivalent(value: Any) -> object:
    if value.size > MAX_ARRAY_ELEMENTS:
        return value
    if value.dtype.kind == "M":
        return value.astype(str).tolist()
    converted = value.tolist()
    if type(converted) is type(value):  # a long double returns itself
        return float(converted)
    return converted


def iso_duration(value: datetime.timedelta) -> str:
    """Return a duration in ISO 8601, such as "P1DT2H3M4.5S"."""
    duration = abs(value)
    hours, seconds = divmod(duration.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = ""
    if duration.microseconds:
        fraction = f".{duration.microseconds:06}".rstrip("0")
    text = "-P" if value < datetime.timedelta() else "P"
    if duration.days:
        text += f"{duration.days}D"
    if not duration or duration.seconds or fraction:
        text += "T"
    if hours:
        text += f"{hours}H"
    if minutes:
        text += f"{minutes}M"
    if not duration or seconds or fraction:
        text += f"{seconds}{fraction}S"
    return text


def to_number(value: object) -> int | float | None:
    """Convert a number of any class to an int or a float. A bool becomes 0 or 1. Return None for any other value."""
    number: Any = value
    if is_numpy(number):
        if number.size != 1:
            return None
        number = number.item()
    if isinstance(number, str | bytes | bytearray):
        return None
    for kind in (int, float):
        if isinstance(number, kind):
            return kind(number)
    if hasattr(type(number), "__index__"):
        with suppress(TypeError):  # an array of floats has `__index__` and raises TypeError; `int` would truncate it
            return operator.index(number)
    if hasattr(type(number), "__float__"):
        return float(number)
    return None


def to_integer(value: object) -> int | None:
    """Convert a whole number of any class to an int. Return None for any other value."""
    number = to_number(value)
    if not isinstance(number, float):
        return number
    if math.isfinite(number) and number.is_integer():
        return int(number)
    return None
