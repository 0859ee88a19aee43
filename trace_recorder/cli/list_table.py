"""The table of the command `list`: one line for each run, with the most important columns that fit.

The file and the status are always shown. The other columns are added in the order of their ranks, as long as they fit.
The remaining width goes to the file first, then to the task. In a pipe, all columns are printed. If runs are in the
order of time, a tree has forks and replays below the runs that they continue or repeat. Runs of a process that was
started during another run are below that run. The other runs of a session are below its first run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from trace_recorder.catalog.rows import Row
from trace_recorder.catalog.run_tree import run_tree
from trace_recorder.catalog.searched_values import Single
from trace_recorder.cli.output import StyledLine
from trace_recorder.cli.text_layout import in_one_line, local_time, number, rounded_number, seconds, shown_text
from trace_recorder.values.messages import Payload

_DEFAULT_NAME = re.compile(r"trajectory_(\d{8}_\d{6}\w*(?:\.\d+)?)\.jsonl?")
"""Matches the default name of a run's file: its start time, and a number if two runs started at once."""
_TIME = re.compile(r"(?:^|\W)\d{8}_\d{6}\w*(?:\.\d+)?$")
"""Matches the start time at the end of a path whose default file name was shortened by `_with_short_name`."""
_STATUS_STYLES = {"completed": "green", "failed": "red", "interrupted": "yellow", "running": "cyan"}
_SUCCESS_STYLES = {"yes": "green", "no": "red"}
_MAX_TASK_WIDTH = 60
"""In a pipe, at most this many characters of a task are shown."""
_MIN_WIDTH = 16
"""A column does not shrink below this width."""
_GAP = "  "


BRANCH = "└ "


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A run and its place in the tree: `indent` is drawn before the name of its file.

    `origin` names the file and the call that a fork continues from, or only the call if the fork is drawn below its
    parent run. `parent` is the id of a parent run below which the run is not drawn, and which `origin` does not name.
    """

    row: Row
    indent: str = ""
    origin: str = ""
    parent: str = ""


def flat_row(row: Row) -> TreeRow:
    """Return a row without an indent."""
    if row.forked_from:
        return TreeRow(row, origin=row.forked_from)
    return TreeRow(row, parent=row.parent or "")


LINKS = ("trajectory_id", "parent", "session", "origin_file")
"""The names of the values (`SINGLE`) that decide where a run is in the tree."""


class Links(NamedTuple):
    """The name of a run's file in the list, and the values of `LINKS`."""

    file: str
    trajectory_id: Single
    parent: Single
    session: Single
    origin_file: Single


class DrawnPlace(NamedTuple):
    """The place of a row in the tree, by the number of the row in the list."""

    row: int
    depth: int
    is_below_origin: bool
    """Whether the row above it in the tree is the run that it continues or repeats, or its parent."""

    def of(self, row: Row) -> TreeRow:
        """Return the row with its indent."""
        branch = flat_row(row)
        if self.is_below_origin:
            branch = TreeRow(row, origin=(row.forked_from or "").rpartition(" ")[2])
        if self.depth > 0:
            branch = replace(branch, indent="  " * (self.depth - 1) + BRANCH)
        return branch


def as_tree(rows: Sequence[Links]) -> list[DrawnPlace]:
    """Return the rows as a tree: each run is indented below the run that it continues or repeats, or below its parent.

    A fork or a replay names the file of the other run. Any other run names the id of its parent. A run that is below no
    such run is below the first of the rows of its session.
    """
    by_id = {row.trajectory_id: place for place, row in enumerate(rows) if row.trajectory_id is not None}
    by_name: dict[str, int] = {}
    if any(row.origin_file for row in rows):
        by_name = {_name(row.file): place for place, row in enumerate(rows)}
    uppers = []
    for row in rows:
        upper = by_id.get(row.parent or "")
        origin = PurePath(str(row.origin_file or ""))
        if origin.name:  # the file is in the same directory, even if both were moved
            upper = by_name.get(_name(str(PurePath(row.file).with_name(origin.name))), upper)
        uppers.append(upper)
    return [
        DrawnPlace(row, depth, depth > 0 and uppers[row] is not None)
        for row, depth in run_tree(uppers, [row.session for row in rows])
    ]


def _name(file: str) -> str:
    """Return the path of a run without its suffix, so that both files of the run have the same name."""
    return file.removesuffix(".jsonl").removesuffix(".json")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table.

    Columns of rank 0 are always shown. The others are shown if they fit, the lowest rank first.
    """

    title: str
    rank: int
    cell: Callable[[TreeRow], str]
    right: bool = False
    share: float = 1
    """The share of the terminal's width to which the column may shrink."""
    shown_if_empty: bool = True
    """Whether the column is shown if it is empty in every row."""
    styles: Mapping[str, str] | str = ""
    """One style for all cells, or the style for each text that a cell may have."""

    def style_of(self, cell: str) -> str:
        if isinstance(self.styles, str):
            return self.styles
        return self.styles.get(cell, "")


@dataclass(frozen=True, slots=True)
class _Cells:
    """A column with the cells of all rows, and its width."""

    column: _Column
    cells: Sequence[str]
    width: int

    def min_width(self, terminal: int) -> int:
        return min(self.width, max(_MIN_WIDTH, int(terminal * self.column.share)))

    def fitted(self, cell: str, terminal: int | None) -> str:
        """Return a cell of a row that was not there when the width was chosen."""
        if terminal is None and self.column is not _TASK and cell_len(cell) > self.width:
            return cell
        return self.padded(cell)

    def padded(self, cell: str) -> str:
        """Return a cell of exactly this width: shortened, or padded with spaces."""
        missing = self.width - cell_len(cell)
        if missing < 0:
            return set_cell_size(cell, self.width - 3) + "..."
        if self.column.right:
            return " " * missing + cell
        return cell + " " * missing


def _success(run: TreeRow) -> str:
    return {"True": "yes", "False": "no"}.get(str(run.row.success), "")


def _tokens(run: TreeRow) -> str:
    counts = [count for count in (run.row.input_tokens, run.row.output_tokens) if isinstance(count, int | float)]
    if not counts:
        return ""
    return rounded_number(sum(counts))


def _errors(run: TreeRow) -> str:
    counts = (run.row.failed_llm_calls, run.row.failed_tool_calls)
    failed = sum(count for count in counts if isinstance(count, int))
    if failed == 0:
        return ""
    return number(failed)


def _cost(run: TreeRow) -> str:
    """Return a cost as one cell.

    As in `stats`, `~` means that the cost is an estimate, and `+ ?` that some calls have no known price.
    """
    cost: Payload = run.row.cost
    text = f"{cost:.4f}" if isinstance(cost, int | float) else shown_text(cost)
    if text and run.row.calls_without_price:
        text += " + ?"
    if run.row.cost_estimated:
        text = f"~{text}"
    return text


def _model(run: TreeRow) -> str:
    return "/".join(filter(None, (shown_text(run.row.provider), shown_text(run.row.model))))


def _rewards(run: TreeRow) -> str:
    rewards: Mapping[str, Payload] = run.row.rewards  # a file may have a value of any type here
    texts = []
    for name, value in rewards.items():
        if isinstance(value, int | float):
            texts.append(f"{name} {value:g}")
        else:
            texts.append(f"{name} {shown_text(value)}")
    return ", ".join(texts)


_START = _Column("start", 3, lambda run: local_time(run.row.start_time, "%Y-%m-%d %H:%M"))
_FILE = _Column("file", 0, lambda run: run.indent + run.row.file, share=1 / 3)
_TASK = _Column("task", 1, lambda run: " ".join(shown_text(run.row.task).split()), share=1 / 4)
_COLUMNS = (
    _FILE,
    _START,
    _TASK,
    _Column("status", 0, lambda run: shown_text(run.row.status), styles=_STATUS_STYLES),
    _Column("success", 2, _success, styles=_SUCCESS_STYLES),
    _Column("steps", 4, lambda run: number(run.row.agent_steps), right=True),
    _Column("tokens", 5, _tokens, right=True),
    _Column("cost", 6, _cost, right=True, shown_if_empty=False),
    _Column("errors", 7, _errors, right=True, shown_if_empty=False, styles="red"),
    _Column("session", 8, lambda run: shown_text(run.row.session), share=1 / 8, shown_if_empty=False),
    _Column("took", 9, lambda run: seconds(run.row.execution_time), right=True),
    _Column("calls", 12, lambda run: number(run.row.llm_calls), right=True),
    _Column("model", 11, _model),
    _Column("rewards", 10, _rewards, shown_if_empty=False),
    _Column("forked from", 13, lambda run: run.origin, shown_if_empty=False),
    _Column("replay of", 14, lambda run: shown_text(run.row.replay_of), shown_if_empty=False),
    _Column("parent", 15, lambda run: shown_text(run.parent), shown_if_empty=False),
)


_FIRST_ROWS = 500
"""The columns and their widths are those of this many rows. Later rows are read after these are printed."""


def run_table(rows: Iterable[TreeRow], width: int | None) -> Iterator[StyledLine]:
    """Yield the titles, and a line for each run. `width` is the width of the terminal, or None for no limit.

    Rows are taken as they are printed. If there are more than the first 500 rows, a column that is empty in these is
    shown too, because a later row may need it. A later cell that is too long is shortened. Without a limit of the
    width, it is printed whole, and its line is longer.
    """
    remaining = iter(rows)
    first = [*islice(remaining, _FIRST_ROWS)]
    columns = []
    for column in _COLUMNS:
        cells = _with_cells(column, first)
        if width is None and column is _TASK:
            cells = replace(cells, width=min(cells.width, _MAX_TASK_WIDTH))
        if column.shown_if_empty or len(first) == _FIRST_ROWS or any(cells.cells):
            columns.append(cells)
    is_short = width is not None and sum(cells.width + len(_GAP) for cells in columns) - len(_GAP) > width
    if width is not None and is_short:
        short = _with_cells(_FILE, [_with_short_name(row) for row in first])
        columns = _fitting([short, *(cells for cells in columns if cells.column is not _FILE)], width)
    yield [(_GAP.join(cells.padded(cells.column.title) for cells in columns).rstrip(), "bold")]
    for index in range(len(first)):
        cells_of_row = [(cells, cells.cells[index]) for cells in columns]
        yield [(cells.padded(cell) + _GAP, cells.column.style_of(cell)) for cells, cell in cells_of_row]
    for row in remaining:
        if is_short:
            row = _with_short_name(row)  # noqa: PLW2901 - the same row
        cells_of_row = [(cells, in_one_line(cells.column.cell(row))) for cells in columns]
        yield [(cells.fitted(cell, width) + _GAP, cells.column.style_of(cell)) for cells, cell in cells_of_row]


def _with_cells(column: _Column, rows: Sequence[TreeRow]) -> _Cells:
    cells = [in_one_line(column.cell(row)) for row in rows]
    return _Cells(column, cells, max(map(cell_len, (column.title, *cells))))


def _with_short_name(branch: TreeRow) -> TreeRow:
    """Return a row in which a default file name is shortened to the start time."""
    path = PurePath(branch.row.file)
    match = _DEFAULT_NAME.fullmatch(path.name)
    if match is None:
        return branch
    return replace(branch, row=replace(branch.row, file=str(path.with_name(match[1]))))


def _fitting(columns: Sequence[_Cells], width: int) -> list[_Cells]:
    """Return the columns that fit. Columns that may shrink share the remaining width, the file first."""
    [file] = (cells for cells in columns if cells.column is _FILE)
    states_start = all(map(_TIME.search, file.cells))  # a start column would repeat the time
    kept: set[str] = set()
    room = width + len(_GAP)
    for cells in sorted(columns, key=lambda cells: cells.column.rank + 100 * (cells.column is _START and states_start)):
        least = cells.min_width(width) + len(_GAP)
        if cells.column.rank == 0 or least <= room:
            kept.add(cells.column.title)
            room -= least
    fitting = []
    for cells in columns:
        if cells.column.title in kept:
            least = cells.min_width(width)
            growth = max(0, min(room, cells.width - least))
            room -= growth
            fitting.append(replace(cells, width=least + growth))
    return fitting
