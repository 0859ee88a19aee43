"""The rows of the command `list`, one for each run, and the files that cannot be read. Unfinished runs have rows too.

`selecting.py` selects the runs. `list_table.py` lays the rows out for people. The order of all rows is known before the
first row is made. Then each row is made when it is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trace_recorder.catalog.rows import Row, ended_summary
from trace_recorder.catalog.selection import ALL_RUNS, Selection
from trace_recorder.cli.arguments import local_paths, no_runs_message
from trace_recorder.cli.list_table import LINKS, Links, TreeRow, as_tree, flat_row
from trace_recorder.cli.planned_runs import naming_in
from trace_recorder.cli.read_files import UnreadableError, is_directory, read_run
from trace_recorder.cli.selecting import LoadRuns, SelectedRows, listed_rows, load_one, select_rows
from trace_recorder.values.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is not a trajectory. The reason is a sentence that names the file."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The selected runs in order, and the files that have the same suffixes but are not runs."""

    others: list[OtherFile]
    _selected: SelectedRows = field(repr=False)
    _name_of: Callable[[str], str] = field(repr=False)
    _load_runs: LoadRuns = field(repr=False)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._selected.runs)

    def rows(self) -> Iterator[Row]:
        """Yield the rows in order. Each row is read when it is reached. A run that is gone by then has no row."""
        return (row for row in self._rows() if row is not None)

    def flat_rows(self) -> Iterator[TreeRow]:
        """Yield the rows in order, without indents."""
        return map(flat_row, self.rows())

    def tree_rows(self) -> Iterator[TreeRow]:
        """Yield the rows as a tree."""
        runs = self._selected.runs
        branches = as_tree([Links(self._name_of(run.planned.file), *run.values[-len(LINKS) :]) for run in runs])
        self._selected.runs = [runs[branch.row] for branch in branches]
        for row, branch in zip(self._rows(), branches, strict=True):
            if row is not None:
                yield branch.of(row)

    def _rows(self) -> Iterator[Row | None]:
        return listed_rows(self._selected.runs, self._name_of, self._load_runs)


def listing(
    paths: Sequence[Path],
    selection: Selection = ALL_RUNS,
    *,
    load_runs: LoadRuns = load_one,
    index: Path | None = None,
) -> Listing:
    """Return the selected runs at these paths.

    If `paths` is one directory, the runs are named by their paths from this directory. Raises UnreadableError if a
    directory cannot be read.
    """
    name_of = naming_in(paths)
    selected = select_rows(paths, selection, index=index, values=LINKS, with_costs=True, load_runs=load_runs)
    others = [OtherFile(name_of(str(file.path)), file.reason) for file in selected.unread_files]
    return Listing(others, selected, name_of, load_runs)


def run_at(path: Path) -> Path:
    """Return the path of a file, or the newest readable run of a directory.

    Raises UnreadableError if there is no run.
    """
    if is_directory(path):
        return newest_runs(path, 1)[-1]
    return path


def newest_run(path: Path | None, command: str) -> Path:
    """Return the run at a path as `run_at` does, for a command that needs local files.

    If `path` is None, return the newest run of the default directory. Raises UnreadableError.
    """
    [named] = local_paths([path] if path else None, command)
    return run_at(named)


def newest_runs(directory: Path, count: int) -> list[Path]:
    """Return the newest readable runs of a directory, the newest last. Raises UnreadableError if there is no run."""
    runs = select_rows([directory], Selection(reverse=True, limit=count)).runs
    if not runs:
        raise UnreadableError(no_runs_message([directory]))
    return [run.planned.path for run in reversed(runs)]


def read_summary(path: Path) -> Trajectory:
    """Read the facts about a whole run. The calls of an ended run are not read. Raises UnreadableError."""
    return ended_summary(path) or read_run(path)
