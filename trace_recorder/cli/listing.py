"""The runs in a directory: one row each, also those that go on or were broken off, and the files that are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from trace_recorder.cli.reading import UnreadableError, read
from trace_recorder.cli.terminal import moment, seconds, shortened, text_of, visible
from trace_recorder.conversation import Payload
from trace_recorder.metrics import metrics_of
from trace_recorder.paths import journal_of
from trace_recorder.trajectory import Trajectory

_TASK = 60
_BETWEEN = 2


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


@dataclass(frozen=True, slots=True)
class Other:
    """A file that is no trajectory, and why."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a directory has: its runs, the oldest first, and other files that look like theirs."""

    trajectories: list[Row]
    others: list[Other]


def listing(directory: Path) -> Listing:
    """Read every run of a directory. Raises OSError where that cannot be read."""
    rows, others = [], []
    for path in _files(directory):
        try:
            rows.append(_row(path.name, read(path)))
        except UnreadableError as error:
            others.append(Other(path.name, str(error)))
    return Listing(sorted(rows, key=lambda row: (row.start_time or "", row.file)), others)


def _files(directory: Path) -> list[Path]:
    """The documents, and the journals that stand without one."""
    files = [path for path in sorted(directory.iterdir()) if path.is_file() and not path.name.startswith(".")]
    documents = [path for path in files if path.suffix == ".json"]
    with_document = {journal_of(path) for path in files if path.suffix != ".jsonl"}
    return documents + [path for path in files if path.suffix == ".jsonl" and path not in with_document]


def _row(file: str, run: Trajectory) -> Row:
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    return Row(
        file=file,
        start_time=run.start_time,
        task=run.task,
        status=run.status,
        success=run.success,
        provider=run.provider,
        model=run.model,
        llm_calls=metrics.get("llm_calls"),
        input_tokens=metrics.get("input_tokens"),
        output_tokens=metrics.get("output_tokens"),
        execution_time=run.execution_time,
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table; the most important ones stay where there is no room for all, `rank` 0 always."""

    title: str
    rank: int
    cell: Callable[[Row], str]
    right: bool = False


_COLUMNS = (
    _Column("file", 0, lambda row: row.file),
    _Column("start", 6, lambda row: moment(row.start_time, "%Y-%m-%d %H:%M:%S")),
    _Column("task", 2, lambda row: shortened(text_of(row.task), lines=1, characters=_TASK)),
    _Column("status", 0, lambda row: row.status),
    _Column("success", 1, lambda row: {True: "yes", False: "no"}.get(row.success, "")),
    _Column("model", 4, lambda row: "/".join(filter(None, (text_of(row.provider), text_of(row.model))))),
    _Column("calls", 3, lambda row: _number(row.llm_calls), right=True),
    _Column("tokens in", 5, lambda row: _number(row.input_tokens), right=True),
    _Column("out", 5, lambda row: _number(row.output_tokens), right=True),
    _Column("took", 3, lambda row: seconds(row.execution_time), right=True),
)


def _number(value: Payload) -> str:
    return "" if value is None else f"{value:,}"


def table(rows: Sequence[Row], width: int | None) -> Iterable[str]:
    """Write the rows as lines of text, with as many columns as there is room for; `width` None is endless."""
    columns = [(column, [column.title, *(visible(column.cell(row)) for row in rows)]) for column in _COLUMNS]
    while width is not None and _width(columns) > width and any(column.rank for column, _ in columns):
        last = max(column.rank for column, _ in columns)
        columns = [(column, cells) for column, cells in columns if column.rank != last]
    widths = [max(map(cell_len, cells)) for _, cells in columns]
    for number in range(len(rows) + 1):
        cells = [
            _aligned(cells[number], size, column.right) for (column, cells), size in zip(columns, widths, strict=True)
        ]
        yield (" " * _BETWEEN).join(cells).rstrip()


def _width(columns: Sequence[tuple[_Column, list[str]]]) -> int:
    return sum(max(map(cell_len, cells)) + _BETWEEN for _, cells in columns) - _BETWEEN


def _aligned(cell: str, size: int, right: bool) -> str:
    return " " * (size - cell_len(cell)) + cell if right else set_cell_size(cell, size)
