"""Messages without their marks for a provider's cache, which move from call to call and change nothing that is said."""

from __future__ import annotations

from trace_recorder.dialects.json_access import map_inside
from trace_recorder.values.messages import Payload


def without_cache_marks(value: Payload) -> Payload:
    """Remove cache marks, and what exists only because of them: a list of one text part, an empty extra."""
    if isinstance(value, dict):
        members = ((name, without_cache_marks(member)) for name, member in value.items() if name != "cache_control")
        return {name: member for name, member in members if member != {}}
    return _without_list(map_inside(without_cache_marks, value))


def _without_list(value: Payload) -> Payload:
    """Return a list of one text part as its text."""
    only = value[0] if isinstance(value, list) and len(value) == 1 else None
    return only["text"] if isinstance(only, dict) and only.keys() == {"type", "text"} else value
