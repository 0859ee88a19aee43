"""Differences that a comparison ignores: ids and times, in members and in texts."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from typing import Literal

from trace_recorder.dialects.json_access import map_inside
from trace_recorder.values.messages import Payload

Ignored = Literal[
    "ids", "times", "prompt", "model", "tools", "parameters", "answer", "reasoning", "tool_call", "tool_result"
]
"""Differences that can be ignored: ids, times, or one kind of difference."""

_ID_NAMES = frozenset({"id", "call_id", "tool_call_id", "tool_use_id", "item_id", "response_id", "execution_id"})
_TIME_NAMES = frozenset({"timestamp", "time", "created", "created_at", "duration_seconds"})
_VALUES = frozenset({"arguments", "input", "args", "result", "response"})
"""Members that hold values of the agent's own tools. An `id` in them is not the id of a call."""
_ID = re.compile(
    r"\b(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?:call|toolu|resp|msg|chatcmpl|req)[_-][A-Za-z0-9]{6,})\b"
)
_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|(?<=\bin )\d+\.\d+ ?s(?:econds)?\b"  # durations, as test runners print them
)


class LeftAside:
    """Removes ids and times from values, as requested."""

    def __init__(self, ignore: Collection[Ignored]) -> None:
        self._names = (_ID_NAMES if "ids" in ignore else frozenset()) | (_TIME_NAMES if "times" in ignore else set())
        self._patterns = [
            (pattern, f"<{name}>") for name, pattern in (("ids", _ID), ("times", _TIME)) if name in ignore
        ]

    def without(self, value: Payload, *, of_tool: bool = False) -> Payload:
        """Return a value without them. Members of a tool's own value stay; ids and times in its texts are removed."""
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self._without_in_text(value)
        if of_tool or not isinstance(value, dict):
            return map_inside(partial(self.without, of_tool=of_tool), value)
        kept = ((name, one) for name, one in value.items() if name not in self._names)
        return {name: self.without(one, of_tool=name in _VALUES) for name, one in kept}

    def _without_in_text(self, text: str) -> str:
        for pattern, name in self._patterns:
            text = pattern.sub(name, text)
        return text
