"""The runs of a directory, one row each, and the files that cannot be read. Unfinished runs have rows too.

`list_table.py` lays the rows out for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from trace_recorder.catalog.query import Term, condition_of
from trace_recorder.catalog.rows import Row, ended_summary, row_of, row_of_json, row_with_costs
from trace_recorder.cli.arguments import no_runs_message, paths_or_default
from trace_recorder.cli.output import fail
from trace_recorder.cli.planned_runs import naming_in, planned_runs
from trace_recorder.cli.read_files import Load, UnreadableError, find_runs, is_directory, load, process, read
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.cost import run_costs_or_unknown

if TYPE_CHECKING:
    from trace_recorder.catalog.matching import Matcher


@dataclass(frozen=True)
class ListedRun:
    """A row of the list, and the facts by which its run is selected. An index returns only rows that it selected."""

    path: Path
    row: Row
    summary: Trajectory | None = None
    """The facts of the run, or None if the row is from an index, which has the costs too."""

    @cached_property
    def row_with_costs(self) -> Row:
        """The row with the costs of all calls, as in the viewer's list. The calls are read if they may have a price."""
        if self.summary is None:
            return self.row
        return row_with_costs(self.row, partial(run_costs_or_unknown, self.path))

    def matches(self, matcher: Matcher) -> bool:
        """Return whether the run matches. The whole run is read if the matcher needs calls. Raises UnreadableError."""
        return self.summary is None or matcher(read(self.path) if matcher.needs_calls else self.summary)


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is not a trajectory. The reason is a sentence that names the file."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of runs, and the files that have the same suffixes but are not runs."""

    trajectories: list[Row]
    others: list[OtherFile]


Select = Callable[[Iterable[ListedRun]], list[ListedRun]]


def oldest_first(runs: Iterable[ListedRun]) -> list[ListedRun]:
    """Return all runs, in the order in which they began."""
    return sorted(runs, key=start_of)


def start_of(run: ListedRun) -> tuple[str, str]:
    """Return the sort key of a run: the start time, then the file."""
    return str(run.row.start_time or ""), run.row.file


def listing(  # noqa: PLR0913 - each has a default
    paths: Sequence[Path],
    *,
    select: Select = oldest_first,
    terms: Sequence[Term] = (),
    load_run: Load = load,
    with_costs: bool = False,
    index: Path | None = None,
) -> Listing:
    """Return the runs at these paths that match all terms. Runs of a single directory are named by their paths in it.

    A run is not read if the index of the directory has it. Raises UnreadableError if a directory cannot be read.
    """
    name_of = naming_in(paths)
    runs, others = [], []
    matcher = _matcher(terms) if terms else None
    for planned in planned_runs(paths, condition_of(terms), index).candidates:
        name = name_of(str(planned.path))
        if planned.is_known:
            runs.append(ListedRun(planned.path, row_of_json(planned.kept, name, planned.path)))
            continue
        try:
            run = process(planned.path, partial(_read_run, planned.path, name, load_run))
            if matcher is None or process(planned.path, partial(run.matches, matcher)):
                runs.append(run)
        except UnreadableError as error:
            others.append(OtherFile(name, str(error)))
    return Listing([run.row_with_costs if with_costs else run.row for run in select(runs)], others)


def run_at(path: Path) -> Path:
    """Return the path of a file, or the newest readable run of a directory.

    Raises UnreadableError if there is no run.
    """
    return newest_runs(path)[-1] if is_directory(path) else path


def newest_run(path: Path | None) -> Path:
    """Return the run at a path as `run_at` does. Without a path, return the newest run of the default directory."""
    return run_at(paths_or_default([path] if path else None)[0])


def newest_runs(directory: Path) -> list[Path]:
    """Return the readable runs of a directory, the newest last. Raises UnreadableError if there is no run."""
    rows = listing([directory]).trajectories
    if not rows:
        raise UnreadableError(no_runs_message([directory]))
    return [directory / row.file for row in rows]


def runs_of(paths: Sequence[Path], *, recursive: bool = True) -> list[Path]:
    """Return the runs at these paths, as `find_runs` does. Exits with a sentence if there is no run.

    Raises UnreadableError.
    """
    runs = [*find_runs(paths, recursive=recursive)]
    if not runs:
        has_more = not recursive and next(find_runs(paths), None) is not None
        fail(
            no_runs_message(paths) + (": add --recursive to include the runs in directories below" if has_more else "")
        )
    return runs


def _matcher(terms: Sequence[Term]) -> Matcher:
    from trace_recorder.catalog.matching import Matcher  # noqa: PLC0415 - a list of all runs does without it

    return Matcher(terms)


def _read_run(path: Path, name: str, load_run: Load) -> ListedRun:
    summary = read_summary(path, load_run)
    metrics = summary.metrics or metrics_of(summary.llm_interactions, summary.agent_steps)
    return ListedRun(path, row_of(name, path, summary, metrics), summary)


def read_summary(path: Path, load_run: Load = load) -> Trajectory:
    """Read the facts about a whole run. The calls of an ended run are not read. Raises UnreadableError."""
    return ended_summary(path) or read(path, load_run)
