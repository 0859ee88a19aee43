"""Finds which runs at addresses may be the first ones in the order of time, from the beginnings of their files.

A run began before the last change of its files, and a store lists the times of these changes. So if the newest runs
come first, the runs whose files changed before the last one of them began are not fetched at all. There is no such
limit for the oldest runs, because a file may be copied long after its run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trace_recorder.catalog.planning import Planned
from trace_recorder.catalog.rows import start_time_at
from trace_recorder.catalog.run_values import seconds_of
from trace_recorder.catalog.selection import OrderKey, Selection
from trace_recorder.storage.addresses import listed_times, remote_address
from trace_recorder.storage.local_copies import copied_ahead

_GROUP_RUNS = 16
"""At least this many beginnings are fetched together."""
_CLOCK_SECONDS = 3600.0
"""The clock of the machine that recorded a run may be ahead of the store's clock by this much."""


class FirstRuns(NamedTuple):
    """The runs that may be the first ones."""

    known: list[Planned]
    """The first ones of the runs whose start is known. If one of them cannot be read, others may be the first ones."""
    others: list[Planned]
    """The runs that have to be read: their beginnings do not state a start."""


def first_runs(runs: Sequence[Planned], selection: Selection) -> FirstRuns:
    """Return which of these runs may be among the first ones of a selection, which has a limit and the order of time.

    The runs at addresses are compared by their starts. All other runs may be the first ones.
    """
    limit = selection.limit or len(runs)
    others = [run for run in runs if remote_address(run.file) is None]
    waiting = [run for run in runs if remote_address(run.file) is not None]
    if selection.reverse:
        waiting.sort(key=_changed, reverse=True)
    began: dict[Planned, float] = {}
    for group in _groups(waiting, max(limit, _GROUP_RUNS)):
        if selection.reverse and len(began) >= limit:
            last = heapq.nlargest(limit, began.values())[-1]
            if _changed(group[0]) + _CLOCK_SECONDS < last:
                break
        for run, path in zip(group, copied_ahead([run.path for run in group], "start"), strict=True):
            start, _ = seconds_of(start_time_at(path))
            if start is None:
                others.append(run)
            else:
                began[run] = start
    known = selection.in_order(began, lambda run: OrderKey(None, began[run], run.file))
    return FirstRuns(known, others)


def _groups(runs: Sequence[Planned], size: int) -> Iterator[Sequence[Planned]]:
    return (runs[start : start + size] for start in range(0, len(runs), size))


def _changed(run: Planned) -> float:
    """Return the time of the last change of the run's file, or infinity if the store does not state it."""
    return listed_times.get(run.path.as_posix(), math.inf)
