"""Interactions that were recorded by hand although their response was captured too: they are shown once, as captured.

They are recognised by the id of the response. Which came first makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_recorder.values.llm_interaction import LLMInteraction

MAX_REMEMBERED_IDS = 4096
"""The live document remembers the ids of this many captured responses."""


@dataclass(slots=True)
class Duplicates:
    """Takes the responses of a run in the order of their records.

    - `found`: the ids of the interactions recorded by hand that turned out to be captured too
    - `_captured`: the response ids of captured interactions
    - `_manual`: the response ids of interactions recorded by hand, each with the ids of these interactions
    """

    found: dict[str, None] = field(default_factory=dict)
    _captured: dict[str, None] = field(default_factory=dict)
    _manual: dict[str, dict[str, None]] = field(default_factory=dict)

    def has(self, one: LLMInteraction) -> bool:
        """Whether the response of an interaction that was recorded by hand was captured before."""
        return one.response.id in self._captured

    def add(self, one: LLMInteraction) -> Mapping[str, None]:
        """Add a response with an id; return the interactions recorded by hand of which it is the captured one."""
        identity = one.response.id or ""
        if one.api is None:
            same = self._manual.setdefault(identity, {})
            same[one.interaction_id] = None
            _keep_newest(same)
            return {}
        self._captured[identity] = None
        duplicates = self._manual.pop(identity, {})
        self.found |= duplicates
        return duplicates

    def forget_oldest(self) -> None:
        """Keep the newest of the ids by which duplicates are recognised."""
        if len(self._captured) + len(self._manual) > MAX_REMEMBERED_IDS:
            for ids in (self._captured, self._manual, self.found):
                _keep_newest(ids)


def _keep_newest(ids: dict[str, Any]) -> None:
    while len(ids) > MAX_REMEMBERED_IDS:
        del ids[next(iter(ids))]
