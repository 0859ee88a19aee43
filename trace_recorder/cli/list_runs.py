"""Runs of a directory, one row each, also unfinished ones, and the files that cannot be read, which hide no others.

`list_table.py` lays the rows out for people.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from trace_recorder.cli.arguments import no_runs_message, paths_or_default
from trace_recorder.cli.output import fail
from trace_recorder.cli.read_files import Load, UnreadableError, find_runs, is_directory, load, process, read
from trace_recorder.derive.document import from_document
from trace_recorder.imports.document_ends import document_ends
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import are_of_older_version, metrics_of
from trace_recorder.values.origins import ForkedFrom, ReplayOf, name_of, run_origin_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.rewards import rewards_of
from trace_recorder.views.run_costs import may_have_price, run_costs_or_unknown


@dataclass(frozen=True, slots=True)
class Row:
    """One run. What is not known is None."""

    file: str
    """The path from the directory that was given; if several paths were given, as `path`."""
    path: str
    """The path that opens from where the command runs."""
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
    agent_steps: int | None
    cost: float | None
    """The sum that the providers stated. A listing with costs adds estimates for the other calls."""
    failed_llm_calls: int | None
    failed_tool_calls: int | None
    rewards: dict[str, float]
    forked_from: str | None
    """The file of the run that this one continues, and the call from which it does."""
    replay_of: str | None
    """The file of the run that this one repeats."""
    replayed_llm_calls: int | None
    cost_estimated: bool | None = None
    """Whether the cost has an estimate in it."""
    calls_without_price: int | None = None
    """How many calls the cost leaves out; None where the calls were not read."""


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
        row = self.row
        if not may_have_price(row.status, row.input_tokens, row.output_tokens):
            return replace(row, cost_estimated=None if row.cost is None else False)
        costs = run_costs_or_unknown(self.path)
        known = replace(row, cost=costs.amount, cost_estimated=costs.estimated)
        return replace(known, calls_without_price=costs.calls_without_price)

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
    row = _row(name, path, summary, metrics)
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


def _row(file: str, path: Path, run: Trajectory, metrics: Mapping[str, Payload]) -> Row:
    origin = run_origin_of(run.metadata)
    return Row(
        file=file,
        path=str(path),
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
        agent_steps=metrics.get("agent_steps"),
        cost=metrics.get("cost"),
        failed_llm_calls=metrics.get("failed_llm_calls"),
        failed_tool_calls=metrics.get("failed_tool_calls"),
        rewards=rewards_of(run),
        forked_from=f"{origin.file} {origin.interaction_id}" if isinstance(origin, ForkedFrom) else None,
        replay_of=name_of(origin) if isinstance(origin, ReplayOf) else None,
        replayed_llm_calls=metrics.get("replayed_llm_calls"),
    )
