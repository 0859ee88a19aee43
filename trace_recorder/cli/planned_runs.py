"""Finds the runs at several paths that may match a query.

An index has the facts of the runs that it knows. All other runs have to be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from trace_recorder.catalog.planning import Plan, Planned
from trace_recorder.catalog.query import EVERY_RUN, Condition
from trace_recorder.catalog.value_tables import KeptPart
from trace_recorder.cli.engines import LOCAL, Engine, batch_for, jobs_for
from trace_recorder.cli.read_files import UnreadableError, each_once, failure_message, is_directory, runs_at_address
from trace_recorder.storage.addresses import Part, remote_address

R = TypeVar("R")


@dataclass(slots=True)
class PlannedRuns:
    """The runs that may match a query, each once.

    `count` is how many runs the paths have, including runs that do not match.
    """

    candidates: list[Planned] = field(default_factory=list)
    count: int = 0
    unreadable: int = 0
    """How many files could not be read when the runs were selected, and may have a run that matches."""

    @property
    def paths(self) -> list[Path]:
        """The paths of all candidates."""
        return [run.path for run in self.candidates]

    @property
    def unread(self) -> list[Path]:
        """The paths of the candidates that have to be read, because no index knows them."""
        return [run.path for run in self.candidates if not run.is_known]


def planned_runs(
    paths: Sequence[Path],
    condition: Condition = EVERY_RUN,
    index: Path | None = None,
    parts: Sequence[KeptPart] = (),
    *,
    recursive: bool = True,
) -> PlannedRuns:
    """Return the runs at these paths that may match the condition.

    `Plan` selects the runs of a directory. A run whose own path is given is always a candidate. `parts` are the parts
    of a run that are taken from an index. Raises UnreadableError.
    """
    plans: list[Plan] = []

    def runs_at(path: Path) -> Iterator[Planned]:
        url = remote_address(path)
        if url is not None:
            yield from map(Planned, runs_at_address(path, url))
            return
        if not is_directory(path):
            yield Planned(path)
            return
        try:
            plans.append(Plan(path, condition, index, parts, recursive=recursive))
            yield from plans[-1]
        except OSError as error:
            raise UnreadableError(failure_message(path, error)) from error

    candidates = [*each_once(paths, runs_at, lambda run: run.path)]
    others = {os.path.realpath(place): runs for plan in plans for place, runs in plan.others.items()}
    return PlannedRuns(candidates, len(candidates) + sum(others.values()))


def naming_in(paths: Sequence[Path]) -> Callable[[str], str]:
    """Return a function that takes the path of a run and returns the name to show for the run.

    If `paths` is one directory, the name is the run's path relative to this directory. Otherwise the name is the whole
    path of the run.
    """
    if len(paths) != 1 or not is_directory(paths[0]):
        return str
    start = len(str(paths[0] / "_")) - 1  # a slice takes a tenth of the time of `relative_to`
    return lambda path: path[start:]


def results(
    planned: PlannedRuns,
    work: Callable[[Path], R],
    known: Callable[[Planned], R],
    jobs: int | None,
    engine: Engine = LOCAL,
    part: Part = "run",
) -> Iterator[R]:
    """Yield a result for each candidate, in the order of the candidates.

    `work` is called with the path of each run that has to be read, in several processes if there is much to read.
    `known` is called with each run that an index knows. `part` is the part of a run that `work` reads.
    """
    unread = planned.unread
    processes = jobs_for(unread, jobs)
    read = engine.in_order(work, unread, processes, batch_for(unread, processes), part)
    for run in planned.candidates:
        if run.is_known:
            yield known(run)
        else:
            yield next(read)
