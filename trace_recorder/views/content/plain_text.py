"""Any value of a message or a tool as plain text, for people and for searches."""

from __future__ import annotations

import json
from collections.abc import Callable

from trace_recorder.values.messages import Payload


def json_line(value: Payload) -> str:
    """Write a JSON value on one line."""
    return json.dumps(value, ensure_ascii=False)


def text_of(value: Payload, to_json: Callable[[Payload], str] = json_line) -> str:
    """Return any value as text: a text unchanged, a list as the texts of its elements, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(text_of(element, to_json) for element in value)
    if isinstance(value, dict):
        shown = value.get("text") if value.get("type") == "text" else value.get("repr") if "__type__" in value else None
        if isinstance(shown, str):
            return shown
    return to_json(value)
