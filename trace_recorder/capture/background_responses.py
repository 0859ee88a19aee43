"""Which responses of this process's runs were not final when they came: they are polled, by requests of their own.

A poll may come from another client, thread or recorder than the call; it belongs to the call's run. No lock is taken:
each change is one operation of a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from weakref import ref

from trace_recorder.dialects.background import NOT_FINAL, background_id
from trace_recorder.recording.run import Run
from trace_recorder.recording.weak_registry import WeakRegistry
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import parse_leniently

MAX_REMEMBERED = 1000
"""So many are remembered; of those that are never polled, the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class BackgroundCall:
    """A response that is not final: where it is polled, and the call that it answers. `began` is of `perf_counter`."""

    api: str
    response_id: str
    run: ref[Run]
    interaction_id: str
    attempt: int
    began: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is remembered by. Several recorders may have one call, and a local server may give an id twice."""
        run = self.run()
        return self.api, self.response_id, run.trajectory_id if run is not None else "", self.interaction_id


class Streaming(Protocol):
    """A call with a stream that has not ended, or is being put together."""

    @property
    def run(self) -> Run:
        """The run that it is recorded to."""

    def polled_early(self, api: str, response_id: str) -> BackgroundCall | None:
        """Return what a poll is to know of the call, if it began that response."""


_calls: dict[tuple[str, str, str, str], BackgroundCall] = {}
streams: WeakRegistry[Streaming] = WeakRegistry()
"""Calls with a stream that is open: they are not remembered yet."""


def remember(call: BackgroundCall) -> None:
    """Remember a response that is not final."""
    _calls[call.key] = call
    for oldest in list(_calls)[: max(0, len(_calls) - MAX_REMEMBERED)]:
        _calls.pop(oldest, None)


def response_id(said: str) -> str | None:
    """Return the id of a response that is not final, from its record's members, or its body, as JSON text."""
    if not any(f'"{status}"' in said for status in NOT_FINAL):
        return None
    try:
        members = parse_leniently(said if said.startswith("{") else f"{{{said}}}")
    except ours(ValueError, RecursionError):
        return None
    return background_id(members.get("assembled", members.get("body", members)))


def find(api: str, identity: str, preferred: Callable[[], Run | None]) -> tuple[Run, BackgroundCall] | None:
    """Return the newest call with a response of this id, in the preferred run if that has one; None if none is open."""
    found = [(one.run(), one) for one in list(_calls.values()) if (one.api, one.response_id) == (api, identity)]
    open_ones = [(run, one) for run, one in found if run is not None and not run.closed]
    if len(open_ones) > 1 and (own := preferred()) is not None:
        open_ones = [one for one in open_ones if one[0] is own] or open_ones
    return open_ones[-1] if open_ones else _find_streaming(api, identity)


def _find_streaming(api: str, identity: str) -> tuple[Run, BackgroundCall] | None:
    for streaming in streams:
        if not streaming.run.closed and (call := streaming.polled_early(api, identity)) is not None:
            return streaming.run, call
    return None


def take(call: BackgroundCall) -> bool:
    """Forget a response, which is final now. Return whether no other poll has said so before."""
    return _calls.pop(call.key, None) is call
