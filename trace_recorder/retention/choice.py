"""Chooses the runs that may be deleted, and says why the others stay.

A run stays if it is or may be still written, if a `retention.toml` or a query keeps it, or if a run that stays refers
to it: a fork, a replay, or a run whose process was started during it. Files of other tools stay.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

from trace_recorder.catalog.planning import RunOnDisk
from trace_recorder.catalog.query import Term, parse_query
from trace_recorder.errors import QueryError
from trace_recorder.guard import ignore_failures, try_call
from trace_recorder.reading.own_files import is_own_file
from trace_recorder.retention.retention_rules import RetentionRule, RetentionRules
from trace_recorder.retention.stored_runs import RunReader, RunReading, StoredRun
from trace_recorder.storage.run_files import journal_name

StayReason = Literal["running", "unknown", "link", "other file", "foreign", "kept", "young", "referred"]
"""Why a run stays.

It is being written; it may be written on another host; one of its files is a link, or not ours; another tool wrote it;
a query keeps it; it is too young; a run that stays refers to it.
"""
_ENDED = ("completed", "failed", "interrupted")
_SECONDS_A_DAY = 86400


@dataclass(frozen=True, slots=True)
class StayingRun:
    """A run that stays although it is selected, or a file of another tool. `why` is for people."""

    path: Path
    reason: StayReason
    why: str


@dataclass(frozen=True, slots=True)
class Criteria:
    """The terms that select runs, and the queries whose runs stay, each with its terms."""

    selected: tuple[Term, ...]
    kept: Mapping[str, tuple[Term, ...]]
    index: Path | None = None

    @classmethod
    def of(cls, where: str | None, keep: Iterable[str], index: Path | None) -> Criteria:
        """Parse the queries. If `where` is None, all runs are selected. Raises QueryError, also if a query is empty."""
        selected: tuple[Term, ...] = ()
        if where is not None:
            selected = _terms_of(where)
        return cls(selected, {query: _terms_of(query) for query in keep}, index)


def _terms_of(query: str) -> tuple[Term, ...]:
    """Return the terms of a query. An empty query, such as an unset variable of a shell, would match every run."""
    terms = parse_query(query)
    if not terms:
        raise QueryError("the query is empty, and would match every run; write a term, such as older:90d")
    return terms


@dataclass(slots=True)
class ExaminedRuns:
    """The runs of all paths.

    `runs` are all runs of this package, because each may refer to others. `candidates` are the selected runs that
    nothing keeps. `size` is the size in bytes of all runs at the paths.
    """

    criteria: Criteria
    runs: list[StoredRun] = field(default_factory=list)
    candidates: list[StoredRun] = field(default_factory=list)
    staying: list[StayingRun] = field(default_factory=list)
    failures: dict[Path, Exception] = field(default_factory=dict)
    unmatched: int = 0
    size: int = 0
    _rules: RetentionRules = field(default_factory=RetentionRules)
    _seen: set[tuple[Path, str]] = field(default_factory=set)
    _now: float = field(default_factory=time.time)

    def add(self, directory: Path, names: set[str] | None) -> None:
        """Examine the runs of a directory.

        If `names` is None, all runs in and below the directory are selected. Otherwise those whose journals have these
        names are selected, and the directories below are left out. Raises RetentionError, and OSError if the directory
        or a `retention.toml` cannot be read.
        """
        real_directory = lru_cache(maxsize=1000)(os.path.realpath)
        reader = RunReader(directory, self.criteria.index, recursive=names is None)
        for run in reader.runs():
            place, journal = Path(real_directory(str(run.files.place))), journal_name(run.files.name)
            if (place, journal) in self._seen:
                continue
            self._seen.add((place, journal))
            rules = None
            if names is None or journal in names:
                rules = self._rules.of(place)
            if rules is None:
                with ignore_failures:  # a run beside the given ones that cannot be read is not the question
                    self._read(reader, run)
            else:
                try_call(self._examine, partial(self.failures.__setitem__, run.files.path), reader, run, rules)

    def _read(self, reader: RunReader, run: RunOnDisk) -> StoredRun | None:
        stored = reader.read(run)
        if stored is not None:
            self.runs.append(stored)
        return stored

    def _examine(self, reader: RunReader, run: RunOnDisk, rules: Sequence[RetentionRule]) -> None:
        """Examine a selected run. `rules` are those of its directory."""
        stored = self._read(reader, run)
        if stored is None:
            self.staying.append(StayingRun(run.files.path, "foreign", "it is not a run of this package"))
            return
        self.size += stored.size
        matches = partial(reader.matches, run, RunReading(stored.path))
        if not matches(self.criteria.selected):
            self.unmatched += 1
            return
        staying = _held(stored) or self._kept(stored, rules, matches)
        if staying is None:
            self.candidates.append(stored)
        else:
            self.staying.append(staying)

    def _kept(
        self, run: StoredRun, rules: Sequence[RetentionRule], matches: Callable[[tuple[Term, ...]], bool]
    ) -> StayingRun | None:
        """Return why a query or a rule keeps a run, or None."""
        for query, terms in self.criteria.kept.items():
            if matches(terms):
                return StayingRun(run.path, "kept", f"it matches {query!r}")
        age, age_text = None, "it has no time"
        if run.moment is not None:
            age = self._now - run.moment
            age_text = f"it ended {age / _SECONDS_A_DAY:.1f} days ago"
        for rule in rules:
            if (age is None or age < rule.min_age.total_seconds()) and matches(rule.terms):
                return StayingRun(run.path, "young", f"{age_text}, and {rule}")
        return None


def _held(run: StoredRun) -> StayingRun | None:
    """Return why the files of a run must stay, or None."""
    if run.status == "running":
        return StayingRun(run.path, "running", "it is still being written")
    if run.status not in _ENDED:
        why = "its end is not on file, and it may still be written on another host"
        return StayingRun(run.path, "unknown", why)
    for file in run.files:
        if file.path.is_symlink():
            return StayingRun(run.path, "link", f"{file.path.name} is a link")
        if not is_own_file(file.path):
            return StayingRun(run.path, "other file", f"{file.path.name} is not a file of this package")
    return None


class Chosen(NamedTuple):
    """The runs that go, and the runs that stay because a run that stays refers to them."""

    runs: Sequence[StoredRun]
    staying: Sequence[StayingRun]


def choose(examined: ExaminedRuns, max_size: int | None) -> tuple[Chosen, int]:
    """Choose from the candidates, and return how many of them need not go.

    Without `max_size`, all candidates go to which no run refers that stays. With `max_size` in bytes, the oldest go
    until all runs fit. A run whose time is unknown counts as the youngest.
    """
    ordered = sorted(examined.candidates, key=lambda run: (run.moment is None, run.moment or 0.0, run.path))
    if max_size is None:
        return _unreferenced(ordered, examined.runs), 0

    def fit(count: int) -> bool:
        chosen = _unreferenced(ordered[:count], examined.runs)
        return examined.size - sum(run.size for run in chosen.runs) <= max_size

    count = min(len(ordered), bisect_left(range(len(ordered) + 1), True, key=fit))
    return _unreferenced(ordered[:count], examined.runs), len(ordered) - count


def _unreferenced(candidates: Sequence[StoredRun], runs: Sequence[StoredRun]) -> Chosen:
    """Choose the candidates to which no run refers that stays."""
    going = {run.path: run for run in candidates}
    by_id: dict[str, list[StoredRun]] = {}
    for run in candidates:
        by_id.setdefault(run.trajectory_id or "", []).append(run)
    staying = []
    waiting = [run for run in runs if run.path not in going]
    while waiting:
        referring = waiting.pop()
        for run in (run for identity in referring.refers_to for run in by_id.get(identity, ())):
            if going.pop(run.path, None) is not None:
                staying.append(StayingRun(run.path, "referred", f"{referring.path} stays, and refers to it"))
                waiting.append(run)
    return Chosen([*going.values()], staying)
