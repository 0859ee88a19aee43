"""Runs as a table: a row for each call, step or tool call, as a data frame of pandas or polars.

Neither is a dependency: whichever is installed is used, polars first. Columns are the same for every run, and what is
not known is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from os import PathLike
from typing import Any, Literal

from trace_recorder.errors import MissingExtraError
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.content.openai_functions import result_text
from trace_recorder.views.content.parts import utf8_text
from trace_recorder.views.cost import cost_of

Of = Literal["calls", "steps", "tool_calls"]
Library = Literal["polars", "pandas"]
Row = dict[str, Payload]


def to_dataframe(runs: Trajectory | Iterable[Trajectory], of: Of = "calls", library: Library | None = None) -> Any:
    """Return a data frame with a row for each call, step or tool call of one run, or of several.

    `library` chooses between polars and pandas; by default it is the one that is installed, polars if both are. Raises
    MissingExtraError if it is not installed, ValueError for another `of`.
    """
    if of not in _ROWS:
        raise ValueError(f"of={of!r}: one of {', '.join(_ROWS)}")
    columns, rows_of = _ROWS[of]
    frame = _frame(_library(library))
    if isinstance(runs, str | PathLike):
        raise TypeError(f"to_dataframe() takes trajectories, and was given a path: to_dataframe(load({str(runs)!r})).")
    runs = [runs] if isinstance(runs, Trajectory) else runs
    table: dict[str, list[Payload]] = {name: [] for name in columns}
    for run in runs:
        for row in rows_of(run):
            for name, values in table.items():
                values.append(_cell(row[name]))
    return frame(table)


def _frame(library: Any) -> Callable[[dict[str, list[Payload]]], Any]:
    """Return what makes a data frame. In polars, numbers of several kinds in one column become those of the widest."""
    frame: Callable[..., Any] = library.DataFrame
    return partial(frame, strict=False) if library.__name__ == "polars" else frame


def _cell(value: Payload) -> Payload:
    """Return a value as a data frame takes it: an object or a list as its JSON, and text as UTF-8 has it."""
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


def _call_rows(run: Trajectory) -> Iterator[Row]:
    for one in run.llm_interactions:
        counts, cost = counts_of(one) or Counts(), cost_of(one)
        response = one.response
        yield {
            "trajectory_id": run.trajectory_id,
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
            "duration_seconds": one.duration_seconds,
            "time_to_first_token_seconds": one.time_to_first_token_seconds,
            "attempts": len(one.attempts),
            "complete": one.complete,
            "error": one.error and f"{one.error.type}: {one.error.message}",
        }


def _step_rows(run: Trajectory) -> Iterator[Row]:
    for step in run.agent_steps:
        response = step.llm_response
        yield {
            "trajectory_id": run.trajectory_id,
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
                "trajectory_id": run.trajectory_id,
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
        "duration_seconds": result and result.duration_seconds,
    }


_ROWS: dict[str, tuple[tuple[str, ...], Callable[[Trajectory], Iterator[Row]]]] = {
    "calls": (
        (
            *("trajectory_id", "interaction_id", "started_at", "step_number", "agent", "provider", "model", "messages"),
            *("content", "reasoning", "tool_calls", "finish_reason", "input_tokens", "output_tokens"),
            *("cache_read_input_tokens", "reasoning_tokens", "cost", "cost_estimated", "duration_seconds"),
            *("time_to_first_token_seconds", "attempts", "complete", "error"),
        ),
        _call_rows,
    ),
    "steps": (
        (
            *("trajectory_id", "step_number", "started_at", "state", "agent", "derived", "interaction_id", "content"),
            *("tool_calls", "failed_tool_calls", "duration_seconds", "reflection", "error"),
        ),
        _step_rows,
    ),
    "tool_calls": (
        (
            *("trajectory_id", "step_number", "started_at", "agent", "call_id", "name", "arguments", "success"),
            *("result", "error", "duration_seconds"),
        ),
        _tool_call_rows,
    ),
}
"""The columns of each table, and what makes its rows."""
