"""Runs as a table: a row for each run, call, step or tool call, as a data frame of pandas or polars.

Neither is a dependency: whichever is installed is used, polars first. Columns and their types are the same for every
run, and what is not known is null. Each row names its run: the file, the task, the status, and the success.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from trace_recorder.errors import MissingExtraError
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.comparison.figures import figures_of
from trace_recorder.views.content.openai_functions import result_text
from trace_recorder.views.content.parts import utf8_text
from trace_recorder.views.cost import cost_of
from trace_recorder.views.rewards import rewards_of

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]  # its stubs are a package of their own
    import polars

Of = Literal["runs", "calls", "steps", "tool_calls"]
Library = Literal["polars", "pandas"]
Runs = Trajectory | Iterable[Trajectory]
Row = dict[str, Payload]
_MIN_YEAR, _MAX_YEAR = 1678, 2261
"""A time between these years fits into 64 bits as nanoseconds, which older versions of pandas need."""


@overload
def to_dataframe(runs: Runs, of: Of = "calls", *, library: Literal["polars"]) -> polars.DataFrame: ...
@overload
def to_dataframe(runs: Runs, of: Of = "calls", *, library: Literal["pandas"]) -> pandas.DataFrame: ...
@overload
def to_dataframe(runs: Runs, of: Of = "calls", library: Library | None = None) -> Any: ...
def to_dataframe(runs: Runs, of: Of = "calls", library: Library | None = None) -> Any:
    """Return a data frame with a row for each run, or for each call, step or tool call, of one run or of several.

    Every row has its run's file, id, task, status and success. A column has the same type in every frame: text, a
    nullable integer, a float, a boolean, or a time in UTC. `library` chooses between polars and pandas; by default it
    is the one that is installed, polars if both are. Raises MissingExtraError if it is not installed, ValueError for
    another `of`.
    """
    if of not in _ROWS:
        raise ValueError(f"of={of!r}: one of {', '.join(_ROWS)}")
    if isinstance(runs, str | PathLike):
        raise TypeError(f"to_dataframe() takes trajectories, and was given a path: to_dataframe(load({str(runs)!r})).")
    columns, rows_of = _ROWS[of]
    make_frame = _polars_frame if (module := _library(library)).__name__ == "polars" else _pandas_frame
    table: dict[str, list[Payload]] = {name: [] for name in (*_OF_RUN, *columns)}
    for run in [runs] if isinstance(runs, Trajectory) else runs:
        facts = _facts_of(run)
        for row in rows_of(run):
            for name, values in table.items():
                values.append(_cell(row[name] if name in row else facts[name]))
    return make_frame(module, table)


def _polars_frame(polars: Any, table: dict[str, list[Payload]]) -> Any:
    """Return a frame of polars. Numbers of several kinds in one column become those of the widest."""
    types = {
        "integer": polars.Int64,
        "number": polars.Float64,
        "boolean": polars.Boolean,
        "time": polars.Datetime("us", "UTC"),
        "text": polars.String,
    }
    fitting = {name: types[kind] for name, kind in _kinds_of(table).items()}
    return polars.DataFrame(table, schema_overrides=fitting, strict=False)


def _pandas_frame(pandas: Any, table: dict[str, list[Payload]]) -> Any:
    """Return a frame of pandas. Its own types would depend on whether a column has a null."""
    types = {"integer": "Int64", "number": "float64", "boolean": "boolean", "text": "string"}
    kinds = _kinds_of(table)
    columns = {
        name: pandas.to_datetime(pandas.Series(values, dtype=object), utc=True).dt.as_unit("us")
        if kinds.get(name) == "time"
        else pandas.Series(values, dtype=types.get(kinds.get(name, "")))
        for name, values in table.items()
    }
    return pandas.DataFrame(columns)


def _kinds_of(table: dict[str, list[Payload]]) -> dict[str, str]:
    """Return the kinds of columns. A column that has anything else has none, as a file may have anything."""
    kinds = {name: next((kind for kind, names in _NAMES.items() if name in names), "text") for name in table}
    return {name: kind for name, kind in kinds.items() if all(map(_FITS[kind], table[name]))}


def _is_integer(value: Payload) -> bool:
    return value is None or (type(value) is int and -(2**63) <= value < 2**63)


def _cell(value: Payload) -> Payload:
    """Return a value as a data frame takes it: an object or a list as its JSON, text as UTF-8, and times in UTC.

    A time without a zone is that of UTC.
    """
    if isinstance(value, datetime) and _MIN_YEAR < value.year < _MAX_YEAR:
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return utf8_text(value) if isinstance(value, str) else value


def _library(name: Library | None) -> Any:
    for one in (name,) if name else ("polars", "pandas"):
        try:
            return import_module(one)
        except ImportError:
            continue
    raise MissingExtraError(
        f"to_dataframe needs {name or 'polars or pandas'}, which is not installed: pip install {name or 'polars'}"
    )


def _facts_of(run: Trajectory) -> Row:
    """Return the members of a run that each of its rows has."""
    return {
        "file": run.path and str(run.path),
        "trajectory_id": run.trajectory_id,
        "task": run.task,
        "status": run.status,
        "success": run.success,
        "run_success": run.success,
    }


def _run_rows(run: Trajectory) -> Iterator[Row]:
    figures = figures_of(run.llm_interactions)
    yield {
        "started_at": run.started_at,
        "duration_seconds": run.execution_time,
        "provider": run.provider,
        "model": run.model,
        "steps": len(run.agent_steps),
        "calls": figures.calls,
        "replayed_calls": figures.replayed_calls or 0,
        "failed_calls": run.metrics.get("failed_llm_calls"),
        "tool_calls": run.metrics.get("tool_calls"),
        "failed_tool_calls": run.metrics.get("failed_tool_calls"),
        "input_tokens": figures.input_tokens,
        "output_tokens": figures.output_tokens,
        "cost": figures.cost,
        "cost_estimated": None if figures.cost is None else bool(figures.estimated_cost),
        "rewards": rewards_of(run),
        "metadata": run.metadata,
        "final_result": run.final_result,
        "error": run.error and f"{run.error.type}: {run.error.message}",
    }


def _call_rows(run: Trajectory) -> Iterator[Row]:
    for one in run.llm_interactions:
        made = not one.is_replayed
        counts, cost = (made and counts_of(one)) or Counts(), cost_of(one) if made else None
        response, source = one.response, one.replayed_from
        yield {
            "interaction_id": one.interaction_id,
            "started_at": one.started_at,
            "step_number": one.step_number,
            "agent": one.agent,
            "provider": one.provider,
            "model": response.model or one.model,
            "messages": len(one.input_messages),
            "content": response.content,
            "reasoning": response.reasoning,
            "tool_calls": len(response.tool_calls),
            "finish_reason": response.finish_reason,
            "input_tokens": counts.prompt,
            "output_tokens": counts.completion,
            "cache_read_input_tokens": counts.cache_read,
            "reasoning_tokens": counts.reasoning,
            "cost": None if cost is None else cost.amount,
            "cost_estimated": None if cost is None else cost.estimated,
            "duration_seconds": one.duration_seconds if made else None,
            "time_to_first_token_seconds": one.time_to_first_token_seconds if made else None,
            "attempts": len(one.attempts) if made else 0,
            "complete": one.complete,
            "error": one.error and f"{one.error.type}: {one.error.message}",
            "is_replayed": one.is_replayed,
            "replayed_from": source and source.to_document(),
        }


def _step_rows(run: Trajectory) -> Iterator[Row]:
    for step in run.agent_steps:
        response = step.llm_response
        yield {
            "step_number": step.step_number,
            "started_at": step.started_at,
            "state": step.state,
            "agent": step.agent,
            "derived": step.derived,
            "interaction_id": step.interaction and step.interaction.interaction_id,
            "content": response and response.content,
            "tool_calls": len(step.tool_calls),
            "failed_tool_calls": sum(result.success is False for result in step.tool_results),
            "duration_seconds": step.duration_seconds,
            "reflection": step.reflection,
            "error": step.error,
        }


def _tool_call_rows(run: Trajectory) -> Iterator[Row]:
    for step in run.agent_steps:
        results = {result.call_id: result for result in step.tool_results}
        for call in step.tool_calls:
            yield {
                "step_number": step.step_number,
                "started_at": step.started_at,
                "agent": step.agent,
                **_tool_call(call, results.get(call.call_id)),
            }


def _tool_call(call: ToolCall, result: ToolResult | None) -> Row:
    """Describe a call and its result; what is no text is JSON."""
    given = call.arguments
    return {
        "call_id": call.call_id,
        "name": call.name,
        "arguments": given if isinstance(given, str) else json.dumps(given, ensure_ascii=False),
        "success": result and result.success,
        "result": None if result is None or result.result is None else result_text(result),
        "error": result and result.error,
        "duration_seconds": result.duration_seconds if result and not result.replayed else None,
        "is_replayed": result is not None and result.replayed,
    }


_OF_RUN = ("file", "trajectory_id", "task", "status")
"""The first columns of each table. The success of the run comes after them, under its name in that table."""
_NAMES = {
    "integer": {
        *("step_number", "messages", "tool_calls", "failed_tool_calls", "steps", "calls", "replayed_calls"),
        *("failed_calls", "attempts"),
        *("input_tokens", "output_tokens", "cache_read_input_tokens", "reasoning_tokens"),
    },
    "number": {"cost", "duration_seconds", "time_to_first_token_seconds"},
    "boolean": {"success", "run_success", "cost_estimated", "derived", "complete", "is_replayed"},
    "time": {"started_at"},
}
"""The columns of each kind; all others are text."""
_FITS: dict[str, Callable[[Payload], bool]] = {
    "integer": _is_integer,
    "number": lambda value: isinstance(value, float) or _is_integer(value),
    "boolean": lambda value: value is None or isinstance(value, bool),
    "time": lambda value: value is None or (isinstance(value, datetime) and _MIN_YEAR < value.year < _MAX_YEAR),
    "text": lambda value: value is None or isinstance(value, str),
}
"""Whether a value, or null, is of a kind. An integer has 64 bits."""
_ROWS: dict[str, tuple[tuple[str, ...], Callable[[Trajectory], Iterator[Row]]]] = {
    "runs": (
        (
            *("success", "started_at", "duration_seconds", "provider", "model", "steps", "calls", "replayed_calls"),
            *("failed_calls", "tool_calls", "failed_tool_calls", "input_tokens", "output_tokens", "cost"),
            *("cost_estimated", "rewards", "metadata", "final_result", "error"),
        ),
        _run_rows,
    ),
    "calls": (
        (
            *("success", "interaction_id", "started_at", "step_number", "agent", "provider", "model", "messages"),
            *("content", "reasoning", "tool_calls", "finish_reason", "input_tokens", "output_tokens"),
            *("cache_read_input_tokens", "reasoning_tokens", "cost", "cost_estimated", "duration_seconds"),
            *("time_to_first_token_seconds", "attempts", "complete", "error", "is_replayed", "replayed_from"),
        ),
        _call_rows,
    ),
    "steps": (
        (
            *("success", "step_number", "started_at", "state", "agent", "derived", "interaction_id", "content"),
            *("tool_calls", "failed_tool_calls", "duration_seconds", "reflection", "error"),
        ),
        _step_rows,
    ),
    "tool_calls": (
        (
            *("run_success", "step_number", "started_at", "agent", "call_id", "name", "arguments", "success"),
            *("result", "error", "duration_seconds", "is_replayed"),
        ),
        _tool_call_rows,
    ),
}
"""The columns of each table, and what makes its rows. In that of tool calls, `success` is the tool's."""
