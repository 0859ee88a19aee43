"""Finds the runs at several paths that may match a query.

An index has the facts of the runs that it knows. All other runs have to be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from trace_recorder.catalog.planning import Plan, Planned, with_parts
from trace_recorder.catalog.query import EVERY_RUN, Condition
from trace_recorder.catalog.selection import ALL_RUNS, Selection
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

    def as_unread(self) -> PlannedRuns:
        """Return the same runs, of which no index knows what is asked."""
        return replace(self, candidates=[Planned(str(path)) for path in self.paths])

    @property
    def unread(self) -> list[Path]:
        """The paths of the candidates that have to be read, because no index knows them."""
        return [run.path for run in self.candidates if not run.is_known]


def planned_runs(
    paths: Sequence[Path],
    condition: Condition | None = EVERY_RUN,
    index: Path | None = None,
    values: Sequence[str] = (),
    *,
    recursive: bool = True,
    selection: Selection = ALL_RUNS,
) -> PlannedRuns:
    """Return the runs at these paths that may match the condition. If it is None, no index is read.

    `Plan` selects the runs of a directory. A run whose own path is given is always a candidate. `values` are the
    names of the values that a run has from an index. If `selection` has a limit, runs that cannot be among its first
    ones may be left out. Raises UnreadableError.
    """
    plans: list[Plan] = []
    if len(paths) > 1:  # a run may be at two of them
        selection = ALL_RUNS

    def runs_at(path: Path) -> Iterator[Planned]:
        url = remote_address(path)
        if url is not None:
            yield from (Planned(str(run)) for run in runs_at_address(path, url))
            return
        if not is_directory(path):
            yield Planned(str(path))
            return
        try:
            plans.append(Plan(path, condition, index, values, recursive=recursive, selection=selection))
            yield from plans[-1]
        except OSError as error:
            raise UnreadableError(failure_message(path, error)) from error

    candidates = [*each_once(paths, runs_at, lambda run: run.file)]
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


def results(  # noqa: PLR0913, PLR0917 - each caller states all but the engine
    planned: PlannedRuns,
    work: Callable[[Path], R],
    known: Callable[[str], R],
    part: KeptPart,
    jobs: int | None,
    engine: Engine = LOCAL,
) -> Iterator[R]:
    """Yield a result for each candidate, in the order of the candidates.

    `work` is called with the path of each run that has to be read, in several processes if there is much to read.
    `known` is called with this part of each other run, as JSON. Only some parts are in memory at once.
    """
    read = results_of_unread(planned, work, jobs, engine)
    for run, parts in with_parts(planned.candidates, [part]):
        if not run.is_known:
            yield next(read)
        elif parts is None:  # the index was updated meanwhile
            yield work(run.path)
        else:
            yield known(parts[part])


def results_of_unread(
    planned: PlannedRuns,
    work: Callable[[Path], R],
    jobs: int | None,
    engine: Engine = LOCAL,
    fetched: Part = "run",
) -> Iterator[R]:
    """Yield what `work` returns for each candidate that no index knows, in the order of the candidates.

    `fetched` is the part that `work` reads of a run at an address.
    """
    unread = planned.unread
    processes = jobs_for(unread, jobs)
    return engine.in_order(work, unread, processes, batch_for(unread, processes), fetched)
