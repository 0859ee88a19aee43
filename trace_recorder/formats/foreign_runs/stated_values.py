"""Converts values of other tools: times to ISO 8601 with an offset, token counts to a usage, contents to text.

It also reads tool calls, and what a tool's result says about its success.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain

from trace_recorder import clocks
from trace_recorder.clocks import parse_time
from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_int, as_text, join_texts, json_value
from trace_recorder.facts import Json
from trace_recorder.values.messages import Payload, ToolCall, Usage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = (1, 1_000, 1_000_000, 1_000_000_000)
"""How many seconds, milliseconds, microseconds and nanoseconds a second has."""


def stated_time(value: Payload) -> str:
    """Return a time of a source as ISO 8601, or "" if the value is not a time.

    A number, or a text of digits, counts seconds, milli-, micro- or nanoseconds since 1970. The size of the number
    shows the unit. A text without an offset is a local time in an unknown time zone, and is taken as UTC.
    """
    if isinstance(value, str):
        return _stated_number(int(value[:_MAX_DIGITS])) if value.isdecimal() else _stated_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _stated_number(value)
    return ""


def _stated_text(text: str) -> str:
    time = parse_time(text)
    if time is None:
        return ""
    if not time.tzinfo:
        time = time.replace(tzinfo=UTC)
    return time.isoformat(timespec="microseconds")


def _stated_number(value: float) -> str:
    if not 0 < value < 10**_MAX_DIGITS:  # a larger whole number may be too large for a float
        return ""
    number = float(value)
    unit = next((unit for unit in _PER_SECOND if number / unit < _MAX_PLAUSIBLE_SECONDS), None)
    if unit is None:
        return ""
    if isinstance(value, int):
        exact = timedelta(microseconds=value * 1_000_000 // unit)
    else:
        exact = timedelta(seconds=number / unit)
    return (_EPOCH + exact).isoformat(timespec="microseconds")


_MAX_DIGITS = 24
_MAX_PLAUSIBLE_SECONDS = 10_000_000_000
"""This many seconds after 1970 is the year 2286. So a larger number does not count seconds, but a smaller unit."""


def stated_seconds(start: str, end: str) -> float | None:
    """Return the seconds between two times, at least 0, or None if one of the times is unknown."""
    seconds = clocks.seconds_between(stated_time(start), stated_time(end))
    return None if seconds is None else max(0.0, seconds)


def time_after(time: str, seconds: float | None) -> str:
    """Return the time that is `seconds` after `time`, or "" if `time` or `seconds` is unknown."""
    start = parse_time(stated_time(time))
    if start is None or seconds is None or not abs(seconds) < _MAX_PLAUSIBLE_SECONDS:
        return ""
    try:
        return (start + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
    except OverflowError:
        return ""


CountNames = Mapping[str, str]
"""For each count, the names of the members that may have the count, separated by spaces.

The first member with a whole number is taken. `a/b` is the member `b` of the member `a`.
"""


def counts_at(members: Json, names: CountNames) -> dict[str, Payload]:
    """Return the counts in `names` that an object states."""
    counts = ((name, _first_count(members, alternatives.split(" "))) for name, alternatives in names.items())
    return {name: count for name, count in counts if count is not None}


def usage_at(remaining: Remaining, names: CountNames, extra: Json | None = None, **more: Payload) -> Usage:
    """Return a usage with the counts in `names`, and with the members `more`.

    The usage's `extra` gets all other members of `remaining`, and the members of the argument `extra`.
    """
    counts: dict[str, Payload] = {name: remaining.integer(member) for name, member in names.items()}
    return Usage(**counts, **more, extra=remaining.rest() | (extra or {}))


def _first_count(members: Json, names: Iterable[str]) -> int | None:
    for name in names:
        outer, slash, inner = name.partition("/")
        value = members.get(outer)
        if slash:
            value = as_dict(value).get(inner)
        if (count := as_int(value)) is not None:
            return count
    return None


def other_counts(members: Json, details: Iterable[str], names: CountNames) -> Json:
    """Return the counts of the objects `details` that `names` does not read. Counts of 0 are left out."""
    known = {name.partition("/")[2] for alternatives in names.values() for name in alternatives.split(" ")}
    counts = chain.from_iterable(as_dict(members.get(detail)).items() for detail in details)
    return {name: count for name, count in counts if name not in known and count}


def first_known(*counts: int | None) -> int | None:
    """Return the first count that is not None, even 0."""
    return next((count for count in counts if count is not None), None)


def stated_members(members: Json, names: Iterable[str]) -> dict[str, Payload]:
    """Return the members with these names, except members that are null, empty, false or 0."""
    return {name: members[name] for name in names if members.get(name)}


def stated_object(value: Payload) -> dict[str, Payload]:
    """Return an object, which may be stated as a JSON text. Return an empty object for any other value."""
    if isinstance(value, str):
        value = json_value(value)
    return as_dict(value)


def stated_call(call_id: Payload, name: Payload, arguments: Payload) -> ToolCall:
    """Return a tool call. Absent arguments are an empty object; any others stay as they are."""
    if arguments is None:
        arguments = {}
    return ToolCall(as_text(call_id) or "", as_text(name) or "", arguments)


def bare_call(value: Payload) -> ToolCall:
    """Return a tool call in OpenAI's form, without its members that have no field."""
    call = manual.read_tool_call(value)
    return ToolCall(call.call_id, call.name, call.arguments)


def stated_flag(value: Payload) -> bool | None:
    """Return the value if it is true or false, else None."""
    return value if isinstance(value, bool) else None


def success_of(failed: Payload) -> bool | None:
    """Return whether a tool succeeded, or None if it is unknown whether the tool `failed`."""
    return None if failed is None else not failed


def joined_text(content: Payload, between: str = "\n\n") -> str | None:
    """Return a content as text: the text itself, or the joined texts of its parts.

    Return None if the content has no text.
    """
    if isinstance(content, list):
        return join_texts((as_text(as_dict(part).get("text")) for part in content), between)
    return as_text(content)


def text_in_tag(text: str, tag: str) -> str | None:
    """Return the text in the first element `<tag>` of a text, or None if there is no such element.

    Some programs put tags around the words that the user typed.
    """
    _, begin, rest = text.partition(f"<{tag}>")
    inside, end, _ = rest.partition(f"</{tag}>")
    return inside.strip() if begin and end else None
