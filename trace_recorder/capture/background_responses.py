"""Which responses of this process's runs were not final when they came: they are polled, by requests of their own.

A poll may come from another client, thread or recorder than the call; it belongs to the call's run. No lock is taken:
each change is one operation of a dict.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import ref

from trace_recorder.dialects.background import NOT_FINAL, background_id, polled_response
from trace_recorder.recording.run import Run
from trace_recorder.values.json_text import parse_leniently

MAX_REMEMBERED = 1000
"""So many are remembered; of those that are never polled, the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A response that is not final: where it is polled, and the call that it answers. `began` is of `perf_counter`."""

    api: str
    response_id: str
    run: ref[Run]
    interaction_id: str
    attempt: int
    began: float


_begun: dict[tuple[str, str], Begun] = {}


def remember(run: Run, api: str, said: str, interaction_id: str, attempt: int, began: float) -> None:
    """Remember the response to a call, if it is not final; `said` has the members of its record, as JSON text."""
    if not any(f'"{status}"' in said for status in NOT_FINAL):
        return
    members = parse_leniently(f"{{{said}}}")
    identity = background_id(members.get("assembled", members.get("body")))
    if identity is None:
        return
    _begun[api, identity] = Begun(api, identity, ref(run), interaction_id, attempt, began)
    for oldest in list(_begun)[: max(0, len(_begun) - MAX_REMEMBERED)]:
        _begun.pop(oldest, None)


def find(method: str, path: str) -> tuple[Run, Begun] | None:
    """Return the run and the response that a request polls; None for other requests, and if the run has ended."""
    polled = polled_response(method, path) if _begun else None
    begun = _begun.get(polled) if polled is not None else None
    run = begun.run() if begun is not None else None
    return None if begun is None or run is None or run.closed else (run, begun)


def take(begun: Begun) -> bool:
    """Forget a response, which is final now. Return whether no other poll has said so before."""
    return _begun.pop((begun.api, begun.response_id), None) is begun
