"""A search over a directory with counts: how many of the runs that match have each status, model, tool and reward."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trace_recorder.catalog.counted import COUNTED, counted_of
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.planning import plan
from trace_recorder.catalog.query import Term
from trace_recorder.imports.many_runs import Runs
from trace_recorder.values.messages import Payload


@dataclass(slots=True)
class Search:
    """The runs that match: their paths, and for each kind how many runs have each value."""

    paths: list[Path] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def counts_json(self) -> dict[str, Payload]:
        """Return the counts by kind, the most frequent value first."""
        ordered = sorted(self.counts.items(), key=lambda one: (-one[1], one[0]))
        return {kind: [[name, runs] for (of, name), runs in ordered if of == kind] for kind in COUNTED}

    def add(self, path: Path, counted: Iterable[Sequence[str]]) -> None:
        """Take a run that matches."""
        self.paths.append(path)
        self.counts.update((kind, name) for kind, name in counted)


def search(directory: Path, terms: Sequence[Term], may_read: Callable[[Path], bool]) -> Search:
    """Search the runs in and below a directory. A file that cannot be read, or has several runs, is left out.

    Only files that `may_read` accepts are searched.
    """
    found, matches = Search(), Matcher(terms)
    for one in plan(directory, terms, what="counted"):
        if one.matches is False or not may_read(one.path):
            continue
        if one.kept is not None:
            found.add(one.path, json.loads(one.kept))
        else:
            runs = [*Runs(iter([one.path]), strict=False, select=matches)]
            if len(runs) == 1:
                found.add(one.path, counted_of(runs[0]))
    return found
