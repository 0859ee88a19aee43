"""Token counts that another tool states, read by a table: for each count of ours, under which names the tool has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_int
from trace_recorder.imports.foreign.run import Members
from trace_recorder.values.messages import Payload, Usage

Places = Mapping[str, str]
"""For each count its names, separated by spaces. The first whole number counts. A slash leads into a member."""


def counts_at(stated: Members, places: Places) -> dict[str, Payload]:
    """Return the counts that are stated."""
    found = ((name, _first(stated, names.split(" "))) for name, names in places.items())
    return {name: count for name, count in found if count is not None}


def usage_at(remaining: Remaining, places: Places, extra: Members | None = None, **more: Payload) -> Usage:
    """Return the counts of a table, with `more` of a usage. Every other member that remains is in its `extra`."""
    counts: dict[str, Payload] = {name: remaining.integer(place) for name, place in places.items()}
    return Usage(**counts, **more, extra=remaining.rest() | (extra or {}))


def _first(stated: Members, names: Iterable[str]) -> int | None:
    return next((count for name in names if (count := as_int(_value_at(stated, name))) is not None), None)


def _value_at(stated: Members, name: str) -> Payload:
    outer, slash, inner = name.partition("/")
    return as_dict(stated.get(outer)).get(inner) if slash else stated.get(outer)


def other_counts(stated: Members, details: Iterable[str], places: Places) -> Members:
    """Return what the members named `details` state under names that the table lacks, without zeros."""
    known = {name.partition("/")[2] for names in places.values() for name in names.split(" ")}
    stating = [as_dict(stated.get(detail)) for detail in details]
    return {name: value for members in stating for name, value in members.items() if name not in known and value}
