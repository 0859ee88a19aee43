"""One row for each run: the facts of a whole run for the command `list` and for the index."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trace_recorder.derive.document import from_document
from trace_recorder.imports.document_ends import document_ends
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import are_of_older_version
from trace_recorder.values.origins import ForkedFrom, ReplayOf, name_of, run_origin_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.cost import RunCosts, may_have_price
from trace_recorder.views.rewards import rewards_of


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one run. An unknown value is None."""

    file: str
    """The path from the directory that the command names. If the command names several paths, this equals `path`."""
    path: str
    """The path that can be opened from the working directory of the command."""
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
    """The sum of the costs that providers stated. A list with costs adds estimates for the other calls."""
    failed_llm_calls: int | None
    failed_tool_calls: int | None
    rewards: dict[str, float]
    forked_from: str | None
    """The file of the run that this run continues, and the call where this run begins."""
    replay_of: str | None
    """The file of the run that this run repeats."""
    replayed_llm_calls: int | None
    cost_estimated: bool | None = None
    """Whether a part of the cost is an estimate."""
    calls_without_price: int | None = None
    """How many calls the cost leaves out. None if the calls were not read."""


def row_of(file: str, path: Path, run: Trajectory, metrics: Mapping[str, Payload]) -> Row:
    """Return the row of a run that has these metrics. `file` is the name of the run in the list."""
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


def row_of_json(text: str, file: str, path: Path) -> Row:
    """Return the row that an index keeps as JSON, for a run with this name and path."""
    return Row(**{**json.loads(text), "file": file, "path": str(path)})


def row_with_costs(row: Row, costs_of_run: Callable[[], RunCosts]) -> Row:
    """Return a row with the costs of all calls. This calls `costs_of_run` only if a call may have a price."""
    if not may_have_price(row.status, row.input_tokens, row.output_tokens):
        return replace(row, cost_estimated=None if row.cost is None else False)
    costs = costs_of_run()
    known = replace(row, cost=costs.amount, cost_estimated=costs.estimated)
    return replace(known, calls_without_price=costs.calls_without_price)


def ended_summary(path: Path) -> Trajectory | None:
    """Read the document of an ended run without its calls.

    This is faster than reading the calls, and enough for a row. Return None for any other run or document.
    """
    try:
        ends = document_ends(path)
        document = json.loads(path.read_bytes()) if ends is None else {**ends, "llm_interactions": []}
        is_whole = document["metrics"] and not are_of_older_version(document["metrics"])
        if document["status"] != "running" and is_whole and document["llm_interactions"] is not None:
            return from_document({**document, "llm_interactions": [], "agent_steps": []}, str(path))
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        pass
    return None
