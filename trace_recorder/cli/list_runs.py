"""The command `list`: runs, one row each, also unfinished ones, and the files that cannot be read.

A file that cannot be read does not hide the others. The table has as many columns as there is room for, and a row is
one line; a task, which may be long, gets the room that is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from trace_recorder.cli.output import fail
from trace_recorder.cli.read_files import Load, UnreadableError, find_runs, is_directory, load, process, read
from trace_recorder.cli.text_layout import in_one_line, local_time, number, seconds, text_of
from trace_recorder.derive.document import from_document
from trace_recorder.imports.document_ends import document_ends
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import are_of_older_version, metrics_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.rewards import rewards_of


@dataclass(frozen=True, slots=True)
class Row:
    """One run. What is not known is None."""

    file: str
    start_time: str | None
    task: str | None
    status: str
    success: bool | None
    provider: str | None
    model: str | None
    llm_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    execution_time: float | None
    rewards: dict[str, float]
    forked_from: str | None
    """The file of the run that this one continues, and the call from which it does."""


@dataclass(frozen=True, slots=True)
class Run:
    """A row, and what else runs are selected and sorted by."""

    path: Path
    row: Row
    metrics: Mapping[str, Payload]
    metadata: Mapping[str, Payload]
    error: ErrorInfo | None

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


def listing(paths: Sequence[Path], *, select: Select = oldest_first, load_run: Load = load) -> Listing:
    """Read the runs at these paths. Those of a single directory are listed without the directory.

    Raises UnreadableError where a directory cannot be read.
    """
    within = len(paths) == 1 and is_directory(paths[0])
    runs, others = [], []
    for path in find_runs(paths):
        name = path.name if within else str(path)
        try:
            runs.append(process(path, partial(_read_run, path, name, load_run)))
        except UnreadableError as error:
            others.append(Other(name, str(error)))
    return Listing([run.row for run in select(runs)], others)


def run_at(path: Path) -> Path:
    """Return a file as it is; of a directory, the readable run that began last.

    Raises UnreadableError where there is none.
    """
    if not is_directory(path):
        return path
    rows = listing([path]).trajectories
    if not rows:
        raise UnreadableError(no_runs_message([path]))
    return path / rows[-1].file


def runs_of(paths: Sequence[Path]) -> list[Path]:
    """Return the runs at these paths. Exits with a sentence where there are none; raises UnreadableError."""
    runs = [*find_runs(paths)]
    if not runs:
        fail(no_runs_message(paths))
    return runs


def no_runs_message(paths: Sequence[Path]) -> str:
    """Say that there are no runs."""
    return f"there are no trajectories in {', '.join(map(str, paths))}"


def _read_run(path: Path, name: str, load_run: Load) -> Run:
    summary = read_summary(path, load_run)
    metrics = summary.metrics or metrics_of(summary.llm_interactions, summary.agent_steps)
    row = _row(name, summary, metrics)
    for column in _COLUMNS:
        column.cell(row)  # what cannot be written is no row
    return Run(path, row, metrics, summary.metadata, summary.error)


def read_summary(path: Path, load_run: Load = load) -> Trajectory:
    """Read what a run says of itself as a whole; of an ended run, without its calls. Raises UnreadableError."""
    return _ended(path) or read(path, load_run)


def _ended(path: Path) -> Trajectory | None:
    """Read the document of an ended run without its calls, which is faster, and enough for a row."""
    try:
        ends = document_ends(path)
        document = json.loads(path.read_bytes()) if ends is None else {**ends, "llm_interactions": []}
        is_whole = document["metrics"] and not are_of_older_version(document["metrics"])
        if document["status"] != "running" and is_whole and document["llm_interactions"] is not None:
            return from_document({**document, "llm_interactions": [], "agent_steps": []}, str(path))
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        pass
    return None


def _row(file: str, run: Trajectory, metrics: Mapping[str, Payload]) -> Row:
    return Row(
        file=file,
        start_time=run.start_time,
        task=run.task,
        status=run.status,
        success=run.success,
        provider=run.provider,
        model=run.model,
        llm_calls=metrics.get("llm_calls"),
        input_tokens=metrics.get("total_input_tokens", metrics.get("input_tokens")),
        output_tokens=metrics.get("output_tokens"),
        execution_time=run.execution_time,
        rewards=rewards_of(run),
        forked_from=_origin_of(run),
    )


def _origin_of(run: Trajectory) -> str | None:
    origin = run.metadata.get("forked_from")
    return f"{origin.get('file')} {origin.get('interaction_id')}" if isinstance(origin, dict) else None


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table. Where there is no room for all, that with the highest `rank` goes; one of rank 0 stays."""

    title: str
    rank: int
    cell: Callable[[Row], str]
    right: bool = False
    least: int | None = None
    """How narrow it may become; None for one that is shown whole."""
    always: bool = True
    """Whether it is shown where it is empty in every row."""


_COLUMNS = (
    _Column("file", 0, lambda row: row.file),
    _Column("start", 5, lambda row: local_time(row.start_time, "%Y-%m-%d %H:%M:%S")),
    _Column("task", 1, lambda row: " ".join(text_of(row.task).split()), least=12),
    _Column("status", 0, lambda row: row.status),
    _Column("success", 1, lambda row: {"True": "yes", "False": "no"}.get(str(row.success), "")),
    _Column("model", 3, lambda row: "/".join(filter(None, (text_of(row.provider), text_of(row.model))))),
    _Column("calls", 2, lambda row: number(row.llm_calls), right=True),
    _Column("tokens in", 4, lambda row: number(row.input_tokens), right=True),
    _Column("out", 4, lambda row: number(row.output_tokens), right=True),
    _Column("took", 2, lambda row: seconds(row.execution_time), right=True),
    _Column(
        "rewards", 1, lambda row: ", ".join(f"{name} {value:g}" for name, value in row.rewards.items()), always=False
    ),
    _Column("forked from", 1, lambda row: row.forked_from or "", always=False),
)
_MAX_COLUMN_WIDTH = 60
_COLUMN_GAP = 2


def table(rows: Sequence[Row], width: int | None) -> Iterator[str]:
    """Yield the rows as lines of text, with as many columns as the width has room for. None is no limit."""
    columns = [(column, [column.title, *(in_one_line(column.cell(row)) for row in rows)]) for column in _COLUMNS]
    columns = [(column, cells) for column, cells in columns if column.always or any(cells[1:])]
    spare = _MAX_COLUMN_WIDTH
    if width is not None:
        columns = _fitting(columns, width)
        spare = max(0, width - _least_width(columns))
    laid_out = [_laid_out(column, cells, spare) for column, cells in columns]
    for line in zip(*laid_out, strict=True):
        yield (" " * _COLUMN_GAP).join(line).rstrip()


def _fitting(columns: list[tuple[_Column, list[str]]], width: int) -> list[tuple[_Column, list[str]]]:
    """Leave out the columns with the highest rank until the others fit."""
    while _least_width(columns) > width and any(column.rank for column, _ in columns):
        last = max(column.rank for column, _ in columns)
        columns = [(column, cells) for column, cells in columns if column.rank != last]
    return columns


def _least_width(columns: Sequence[tuple[_Column, list[str]]]) -> int:
    return sum((column.least or max(map(cell_len, cells))) + _COLUMN_GAP for column, cells in columns) - _COLUMN_GAP


def _laid_out(column: _Column, cells: Sequence[str], spare: int) -> list[str]:
    """Pad the cells of a column to one width. `spare` is how much a narrow column may grow."""
    if column.least:
        cells = [_cut(cell, min(_MAX_COLUMN_WIDTH, column.least + spare)) for cell in cells]
    size = max(map(cell_len, cells))
    return [" " * (size - cell_len(cell)) + cell if column.right else set_cell_size(cell, size) for cell in cells]


def _cut(cell: str, size: int) -> str:
    return cell if cell_len(cell) <= size else set_cell_size(cell, size - 3) + "..."
