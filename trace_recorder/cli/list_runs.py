"""Lists the runs of directories, one row each, and the files that cannot be read. Unfinished runs have rows too.

`selecting.py` selects the runs. `list_table.py` lays the rows out for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trace_recorder.catalog.rows import Row, ended_summary
from trace_recorder.catalog.selection import ALL_RUNS, Selection
from trace_recorder.cli.arguments import local_paths, no_runs_message
from trace_recorder.cli.planned_runs import naming_in
from trace_recorder.cli.read_files import UnreadableError, is_directory, read_run
from trace_recorder.cli.selecting import LoadRuns, load_one, select_rows
from trace_recorder.values.trajectory import Trajectory


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


def listing(
    paths: Sequence[Path],
    selection: Selection = ALL_RUNS,
    *,
    load_runs: LoadRuns = load_one,
    with_costs: bool = False,
    index: Path | None = None,
) -> Listing:
    """Return the rows of the selected runs at these paths, as `select_rows` does.

    If `paths` is one directory, the runs are named by their paths from this directory. Raises UnreadableError if a
    directory cannot be read.
    """
    name_of = naming_in(paths)
    selected = select_rows(paths, selection, index=index, with_costs=with_costs, load_runs=load_runs)
    rows = [replace(run.row, file=name_of(run.row.path)) for run in selected.runs]
    return Listing(rows, [OtherFile(name_of(str(file.path)), file.reason) for file in selected.unread_files])


def run_at(path: Path) -> Path:
    """Return the path of a file, or the newest readable run of a directory.

    Raises UnreadableError if there is no run.
    """
    if is_directory(path):
        return newest_runs(path)[-1]
    return path


def newest_run(path: Path | None, command: str) -> Path:
    """Return the run at a path as `run_at` does, for a command that needs local files.

    If `path` is None, return the newest run of the default directory. Raises UnreadableError.
    """
    [named] = local_paths([path] if path else None, command)
    return run_at(named)


def newest_runs(directory: Path) -> list[Path]:
    """Return the readable runs of a directory, the newest last. Raises UnreadableError if there is no run."""
    rows = listing([directory]).trajectories
    if not rows:
        raise UnreadableError(no_runs_message([directory]))
    return [directory / row.file for row in rows]


def read_summary(path: Path) -> Trajectory:
    """Read the facts about a whole run. The calls of an ended run are not read. Raises UnreadableError."""
    return ended_summary(path) or read_run(path)
