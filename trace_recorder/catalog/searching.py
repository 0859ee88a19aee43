"""A search over runs that change: the matching runs, and how many of them have each status, model, tool and reward.

The caller lists the runs with the states of their files, again and again. If an index has a run in that state, the run
is not read. The caller reads the other runs one at a time, so that the search can stop at any moment and continue
later. A file that cannot be read, or has several runs, does not match.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trace_recorder.catalog.facts import COUNTED, counted_of
from trace_recorder.catalog.loading import Matcher
from trace_recorder.catalog.planning import State
from trace_recorder.catalog.query import Term
from trace_recorder.imports.loader import Runs
from trace_recorder.values.messages import Payload

RunState = tuple[State, Payload]
"""The state of a run's files, and the status of the run. The status may change while the files stay the same."""
KnownRuns = Mapping[str, tuple[State, str | None]]
"""The runs of an index by name: the state of the files, and the counted values of those that match, as JSON."""


class Search:
    """One query over some runs.

    The caller chooses the names of the runs. `known` has the runs of an index. Not safe for several threads at once.
    """

    def __init__(self, terms: tuple[Term, ...], known: KnownRuns) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.waiting: dict[str, RunState] = {}
        """The runs that have to be read."""
        self.matches: dict[str, str] = {}
        """The counted values of the runs that match, as JSON."""
        self._known = known
        self._matches = Matcher(terms)
        self._searched: dict[str, RunState] = {}

    def follow(self, states: Mapping[str, RunState]) -> bool:
        """Take the current list of runs. Runs that changed wait to be read. Return whether the result changed."""
        is_changed = False
        for name in self._searched.keys() - states.keys():
            is_changed |= self._set(name, None)
            del self._searched[name]
        self.waiting = {}
        for name, state in states.items():
            if self._searched.get(name) == state:
                continue
            known = self._known.get(name)
            if known is not None and known[0] == state[0]:
                self._searched[name] = state
                is_changed |= self._set(name, known[1])
            else:
                self.waiting[name] = state
        return is_changed

    def counted_in(self, path: Path) -> str | None:
        """Read a run, and return its counted values as JSON; None if it does not match."""
        runs = [*Runs(iter([path]), strict=False, select=self._matches)]
        return json.dumps(counted_of(runs[0])) if len(runs) == 1 else None

    def take(self, name: str, counted: str | None) -> bool:
        """Take the counted values of a run that was read, or None if it does not match.

        Return whether the result changed.
        """
        self._searched[name] = self.waiting.pop(name)
        return self._set(name, counted)

    def counts_json(self) -> dict[str, Payload]:
        """Return the counts by kind, the most frequent value first."""
        ordered = sorted(((key, runs) for key, runs in self.counts.items() if runs), key=lambda one: (-one[1], one[0]))
        return {kind: [[name, runs] for (of, name), runs in ordered if of == kind] for kind in COUNTED}

    def _set(self, name: str, counted: str | None) -> bool:
        before = self.matches.pop(name, None)
        if before is not None:
            self.counts.subtract((kind, value) for kind, value in json.loads(before))
        if counted is not None:
            self.matches[name] = counted
            self.counts.update((kind, value) for kind, value in json.loads(counted))
        return before != counted
