"""The runs at several paths, with the facts that indexes have of them, and the work on all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from trace_recorder.catalog.fact_tables import Kept
from trace_recorder.catalog.planning import Planned, plan
from trace_recorder.catalog.query import Term
from trace_recorder.cli.engines import LOCAL, Engine
from trace_recorder.cli.jobs import batch_for, jobs_for
from trace_recorder.cli.read_files import UnreadableError, each_once, error_message, is_directory, remote_runs_at

R = TypeVar("R")


def planned_runs(
    paths: Sequence[Path], terms: Sequence[Term] = (), index: Path | None = None, what: Kept = "row"
) -> Iterator[Planned]:
    """Yield the runs at these paths, each once, planned as `plan` does for a directory. Raises UnreadableError."""
    return each_once(paths, lambda path: _planned_at(path, terms, index, what), lambda one: one.path)


def _planned_at(path: Path, terms: Sequence[Term], index: Path | None, what: Kept) -> Iterator[Planned]:
    if not is_directory(path):
        yield from map(Planned, remote_runs_at(path))
        return
    try:
        yield from plan(path, terms, index, what)
    except OSError as error:
        raise UnreadableError(error_message(path, error)) from error


def results(
    planned: Sequence[Planned],
    work: Callable[[Path], R],
    known: Callable[[Planned, str], R],
    jobs: int | None,
    engine: Engine = LOCAL,
) -> Iterator[R]:
    """Yield a result for each run that may match, in their order.

    `work` is called with the path of each run that must be read, in several processes if that is worth it. `known`
    is called with what the index keeps of each other run.
    """
    unread = [run.path for run in planned if run.matches is None]
    processes = jobs_for(unread, jobs)
    read = engine.in_order(work, unread, processes, batch_for(unread, processes))
    for run in planned:
        if run.matches is None:
            yield next(read)
        elif run.kept is not None:
            yield known(run, run.kept)
