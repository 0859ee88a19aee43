"""Groups of the runs in the viewer's list: the answer of `figures/groups.py` about the runs that match the filters.

The calls of a run have to be read for its measures, unless an index has them. So runs are read for a bounded time, and
an answer says how many runs are still to be read. `KeptMeasures` keeps the measures as JSON. Only one thread at a time
may use it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path

from trace_recorder.catalog.matching import RunState
from trace_recorder.catalog.value_tables import FilesState
from trace_recorder.figures.groups import GroupComparison, GroupedRuns
from trace_recorder.figures.run_measures import measures_from, measures_of
from trace_recorder.formats.any_file import load
from trace_recorder.guard import try_call
from trace_recorder.viewer.parts import Json

_RUNS_AT_ONCE = 500
"""The index is asked for the measures of this many runs at once."""
MAX_NAMES = 30
"""An answer has the groups with the first names of each grouping, up to this many names."""


class KeptMeasures:
    """The measures of runs by their names in the list.

    `known_to_index` returns the measures that an index has of runs in these states, as JSON by their names.
    """

    def __init__(self, known_to_index: Callable[[Mapping[str, FilesState]], Mapping[str, str]]) -> None:
        self._known_to_index = known_to_index
        self._texts: dict[str, tuple[FilesState, str | None]] = {}

    def read(
        self, names: Iterable[str], runs: Mapping[str, RunState], path_of: Callable[[str], Path | None], until: float
    ) -> int:
        """Read the runs whose measures are missing or old, until a time. Return how many are still to be read."""
        lacking = iter([name for name in names if self._texts.get(name, (None,))[0] != runs[name][0]])
        unread = 0
        while states := {name: runs[name][0] for name in islice(lacking, _RUNS_AT_ONCE)}:
            known: Mapping[str, str] = {}
            if time.monotonic() < until:
                known = self._known_to_index(states)
            for name, state in states.items():
                if name in known:
                    self._texts[name] = state, known[name]
                elif time.monotonic() < until:
                    path, text = path_of(name), None
                    if path is not None:
                        text = try_call(lambda: measures_of(load(path)).to_text(), lambda _: None)  # noqa: B023 - called at once
                    self._texts[name] = state, text
                else:
                    unread += 1
        for name in self._texts.keys() - runs.keys():
            del self._texts[name]
        return unread

    def fill(self, groups: GroupedRuns, names: Iterable[str], runs: Mapping[str, RunState]) -> int:
        """Add the runs whose measures are known. Return how many runs cannot be read."""
        unreadable = 0
        for name in names:
            kept = self._texts.get(name)
            if kept is None or kept[0] != runs[name][0]:
                continue
            if kept[1] is None:
                unreadable += 1
            else:
                groups.add(measures_from(kept[1]))
        return unreadable


def groups_json(comparison: GroupComparison) -> Json:
    """Return a comparison as JSON, with at most `MAX_NAMES` names of each grouping.

    The member `count` of a grouping is the number of all its names.
    """
    facts = comparison.to_json()
    by = [{**entry, "names": entry["names"][:MAX_NAMES], "count": len(entry["names"])} for entry in facts["by"]]
    return {**facts, "by": by}
