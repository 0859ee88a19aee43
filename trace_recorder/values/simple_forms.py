"""Values that JSON has no word for and that have a plain form all the same: paths, times, sets, numpy's.

`form_of` gives a value of Python's own kinds, whose parts may be anything again; `jsonable.py` copies these.
numpy is never imported: its values are known by where their class comes from.
"""

from __future__ import annotations

import datetime
import decimal
import math
import operator
import uuid
from contextlib import suppress
from pathlib import PurePath
from typing import Any

MAX_ARRAY_ELEMENTS = 10_000
"""An array with more elements has no plain form: writing it out would keep the agent waiting."""

_AS_TEXT = (PurePath, uuid.UUID, decimal.Decimal)
_AS_ISO_TIME = (datetime.date, datetime.time)


def simple_form(value: object) -> object:
    """The plain form of a value, or the value itself where it has none."""
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, _AS_ISO_TIME):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return iso_duration(value)
    if is_numpy(value):
        return _numpy_form(value)
    return value


def is_numpy(value: object) -> bool:
    """Whether a value is one of numpy's scalars or arrays, be it of a class derived from them."""
    kind = type(value)
    return hasattr(kind, "tolist") and any(base.__module__.partition(".")[0] == "numpy" for base in kind.__mro__)


def _numpy_form(value: Any) -> object:
    if value.size > MAX_ARRAY_ELEMENTS:
        return value
    if value.dtype.kind == "M":
        return value.astype(str).tolist()
    plain = value.tolist()
    return float(plain) if type(plain) is type(value) else plain  # a long double gives itself


def iso_duration(value: datetime.timedelta) -> str:
    """A span of time as ISO 8601 has it: P1DT2H3M4.5S."""
    left = abs(value)
    hours, seconds = divmod(left.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{left.microseconds:06}".rstrip("0") if left.microseconds else ""
    date = f"{left.days}D" if left.days else ""
    parts = [(hours, f"{hours}H"), (minutes, f"{minutes}M"), (seconds or fraction, f"{seconds}{fraction}S")]
    time = "".join(text for there, text in parts if there)
    said = date + (f"T{time}" if time else "") or "T0S"
    return f"{'-' if value < datetime.timedelta() else ''}P{said}"


def to_number(value: object) -> int | float | None:
    """What plainly is a number, as Python's own; None of anything else. A bool is 0 or 1."""
    found: Any = value
    if is_numpy(found):
        found = found.item() if found.size == 1 else None
    if isinstance(found, str | bytes | bytearray):
        return None
    for kind in (int, float):
        if isinstance(found, kind):
            return kind(found)
    if hasattr(type(found), "__index__"):
        with suppress(TypeError):  # an array of another kind has the method, and refuses; `int` would cut it
            return operator.index(found)
    return float(found) if hasattr(type(found), "__float__") else None


def to_integer(value: object) -> int | None:
    """What plainly is a whole number; None of anything else."""
    number = to_number(value)
    if isinstance(number, float):
        return int(number) if math.isfinite(number) and number.is_integer() else None
    return number
