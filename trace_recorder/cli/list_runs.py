"""Runs of a directory, one row each, also unfinished ones, and the files that cannot be read, which hide no others.

`list_table.py` lays the rows out for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from trace_recorder.catalog.rows import Row, ended_summary, row_of, row_with_costs
from trace_recorder.cli.arguments import no_runs_message, paths_or_default
from trace_recorder.cli.output import fail
from trace_recorder.cli.read_files import Load, UnreadableError, find_runs, is_directory, load, process, read
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.run_costs import run_costs_or_unknown


@dataclass(frozen=True)
class Run:
    """A row, and what else runs are selected and sorted by."""

    path: Path
    row: Row
    metrics: Mapping[str, Payload]
    metadata: Mapping[str, Payload]
    error: ErrorInfo | None

    @cached_property
    def row_with_costs(self) -> Row:
        """The row with the costs of all calls, as in the viewer's list. The calls are read if one may have a price."""
        return row_with_costs(self.row, partial(run_costs_or_unknown, self.path))

    def tool_names(self) -> set[str]:
        """Read the run, and return the names of the tools that models asked for. Raises UnreadableError."""
        trajectory = read(self.path)
        calls = (call for one in trajectory.llm_interactions for call in one.response.tool_calls)
        own = (call for step in trajectory.agent_steps for call in step.tool_calls)
        return {call.name for call in (*calls, *own)}


@dataclass(frozen=True, slots=True)
class Other:
    """A file that is no trajectory. The reason is a sentence that names the file."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs, and other files with the same endings."""

    trajectories: list[Row]
    others: list[Other]


Select = Callable[[Iterable[Run]], list[Run]]


def oldest_first(runs: Iterable[Run]) -> list[Run]:
    """Return all runs, in the order in which they began."""
    return sorted(runs, key=start_of)


def start_of(run: Run) -> tuple[str, str]:
    """Return what runs are sorted by: the start, and where that is equal, the file."""
    return str(run.row.start_time or ""), run.row.file


def listing(
    paths: Sequence[Path], *, select: Select = oldest_first, load_run: Load = load, with_costs: bool = False
) -> Listing:
    """Read the runs at these paths. Those of a single directory are named by their paths from there.

    Raises UnreadableError where a directory cannot be read.
    """
    within = len(paths) == 1 and is_directory(paths[0])
    runs, others = [], []
    for path in find_runs(paths):
        name = str(path.relative_to(paths[0]) if within else path)
        try:
            runs.append(process(path, partial(_read_run, path, name, load_run)))
        except UnreadableError as error:
            others.append(Other(name, str(error)))
    return Listing([run.row_with_costs if with_costs else run.row for run in select(runs)], others)


def run_at(path: Path) -> Path:
    """Return a file as it is; of a directory, the readable run that began last.

    Raises UnreadableError where there is none.
    """
    return newest_runs(path)[-1] if is_directory(path) else path


def newest_run(path: Path | None) -> Path:
    """Return the run at a path as `run_at` does, or if there is no path, the newest of the default directory."""
    return run_at(paths_or_default([path] if path else None)[0])


def newest_runs(directory: Path) -> list[Path]:
    """Return the readable runs of a directory, the newest last. Raises UnreadableError where there is none."""
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
        fail(no_runs_message(paths) + (": --recursive takes those in the directories below" if has_more else ""))
    return runs


def _read_run(path: Path, name: str, load_run: Load) -> Run:
    summary = read_summary(path, load_run)
    metrics = summary.metrics or metrics_of(summary.llm_interactions, summary.agent_steps)
    row = row_of(name, path, summary, metrics)
    return Run(path, row, metrics, summary.metadata, summary.error)


def read_summary(path: Path, load_run: Load = load) -> Trajectory:
    """Read what a run says of itself as a whole; of an ended run, without its calls. Raises UnreadableError."""
    return ended_summary(path) or read(path, load_run)
