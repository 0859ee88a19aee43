"""Runs as data frames of pandas and polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.data.shown import by_hand, captured
from trace_recorder import MissingExtraError, Trajectory, load, to_dataframe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Trajectory:
    """Return a captured run of three calls, the first of which asks for a tool."""
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    captured(path).journal.close()
    return load(path)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Trajectory:
    """Return a failed run that its agent recorded by hand."""
    return load(by_hand(tmp_path_factory.mktemp("run") / "by_hand.jsonl"))


def _rows(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame of either library."""
    return (
        frame.to_dicts()
        if hasattr(frame, "to_dicts")
        else frame.astype(object).where(frame.notna(), None).to_dict("records")
    )


@pytest.fixture(params=["polars", "pandas"])
def library(request: pytest.FixtureRequest) -> str:
    """Return a library, or skip the test if it is not installed."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return str(request.param)


def test_the_table_of_calls_has_a_row_for_each_call(run: Trajectory, library: Any) -> None:
    """The row of a call has its tokens, time and texts, and unknown values are null."""
    rows = _rows(to_dataframe(run, library=library))

    assert [(row["interaction_id"], row["model"], row["messages"], row["tool_calls"]) for row in rows] == [
        (
            call.interaction_id,
            call.response.model or call.model,
            len(call.input_messages),
            len(call.response.tool_calls),
        )
        for call in run.llm_interactions
    ]
    assert rows[0]["started_at"] == run.llm_interactions[0].started_at
    assert [row["duration_seconds"] for row in rows] == [call.duration_seconds for call in run.llm_interactions]


def test_tables_have_a_row_for_each_step_or_tool_call(run: Trajectory, library: Any) -> None:
    """The tables have a row for each step, or each tool call, of the run."""
    steps, calls = (_rows(to_dataframe([run, run], of=of, library=library)) for of in ("steps", "tool_calls"))

    assert [row["step_number"] for row in steps] == [step.step_number for step in run.steps] * 2
    assert [(row["name"], row["call_id"]) for row in calls] == [
        (call.name, call.call_id) for step in run.steps for call in step.tool_calls
    ] * 2


def test_the_table_of_runs_has_a_row_for_each_run(scored: Trajectory, run: Trajectory, library: Any) -> None:
    """The row of a run has its totals, its rewards, and its file."""
    first, second = _rows(to_dataframe([scored, run], of="runs", library=library))

    assert first == {
        "file": str(scored.path),
        "trajectory_id": scored.trajectory_id,
        "task": "List",
        "status": "failed",
        "success": False,
        "started_at": scored.started_at,
        "duration_seconds": 8.25,
        "parent": None,
        "session": None,
        "provider": "anthropic",
        "model": "claude",
        "steps": 2,
        "calls": 2,
        "replayed_calls": 0,
        "failed_calls": 0,
        "tool_calls": 1,
        "failed_tool_calls": 1,
        "input_tokens": 9,
        "output_tokens": 2,
        "cost": None,
        "cost_estimated": None,
        "calls_without_price": 1,
        "rewards": "{}",
        "metadata": "{}",
        "final_result": None,
        "error": "RuntimeError: lost",
    }
    assert (second["file"], second["metadata"], second["success"]) == (str(run.path), '{"seed": 7}', None)


@pytest.mark.parametrize("of", ["calls", "steps", "tool_calls"])
def test_each_row_names_its_run(scored: Trajectory, run: Trajectory, library: Any, of: Any) -> None:
    """Each row has the run's file, task, status and success, except that `success` in `tool_calls` is the tool's."""
    rows = _rows(to_dataframe([run, scored], of=of, library=library))
    success = "run_success" if of == "tool_calls" else "success"

    assert {(row["file"], row["task"], row["status"], row[success]) for row in rows} == {
        (str(one.path), one.task, one.status, one.success) for one in (run, scored)
    }


TYPES = {
    "polars": {"Int64", "Float64", "Boolean", "Datetime(time_unit='us', time_zone='UTC')", "String"},
    "pandas": {"Int64", "float64", "boolean", "datetime64[us, UTC]", "string"},
}


@pytest.mark.parametrize("of", ["runs", "calls", "steps", "tool_calls"])
def test_each_column_has_one_type(scored: Trajectory, run: Trajectory, library: Any, of: Any) -> None:
    """A column has the same type if all values are unknown, and in a table without rows."""
    frames = [to_dataframe(runs, of=of, library=library) for runs in ([scored], [run, scored], [])]
    types = [dict(zip(frame.columns, map(str, frame.dtypes), strict=True)) for frame in frames]

    assert types[0] == types[1] == types[2]
    assert set(types[0].values()) <= TYPES[library]
    names = {"step_number", "tool_calls", "input_tokens", "steps"} & types[0].keys()
    assert (names != set(), {types[0][name] for name in names}) == (True, {"Int64"})


def test_times_of_several_zones_are_in_utc(library: Any) -> None:
    """Times of several zones are in UTC, and a time without a zone is read as UTC."""
    times = ["2025-06-12T22:05:46+02:00", "2025-06-12T22:05:46", None]
    runs = [Trajectory(start_time=time, final_result=7 if time is None else "done") for time in times]
    rows = _rows(to_dataframe(runs, of="runs", library=library))

    assert [row["started_at"] and row["started_at"].isoformat() for row in rows] == [
        "2025-06-12T20:05:46+00:00",
        "2025-06-12T22:05:46+00:00",
        None,
    ]
    assert [str(row["final_result"]) for row in rows] == ["done", "done", "7"]


@pytest.mark.parametrize("of", ["runs", "calls", "steps", "tool_calls"])
def test_runs_of_every_shape_have_the_same_columns(
    trajectories: Mapping[str, Trajectory], library: Any, of: Any
) -> None:
    """Runs of every structure have the same columns, even without any row."""
    columns = {tuple(to_dataframe(value, of=of, library=library).columns) for value in trajectories.values()}

    assert columns == {tuple(to_dataframe([], of=of, library=library).columns)}


def test_an_unknown_table_is_refused(run: Trajectory) -> None:
    """An unknown table raises an error that names the tables."""
    with pytest.raises(ValueError, match="one of runs, calls, steps, tool_calls, messages, rewards"):
        to_dataframe(run, of="transcripts")  # type: ignore[arg-type]  # what the test is of


def test_a_missing_library_is_named(run: Trajectory) -> None:
    """If the library is missing, the error says what to install."""
    with pytest.raises(MissingExtraError, match="pip install no_such_frames"):
        to_dataframe(run, library="no_such_frames")  # type: ignore[arg-type]  # what the test is of


def test_a_trajectory_has_short_names_and_times(run: Trajectory) -> None:
    """A trajectory has its last conversation, its steps, its document, and its times as datetimes."""
    answered = [call for call in run.llm_interactions if call.answered][-1]

    assert run.messages[:-1] == answered.input_messages
    assert (run.messages[-1].role, run.messages[-1].content) == ("assistant", answered.response.content)
    assert run.steps is run.agent_steps
    assert run.to_dict() == run.to_document()
    assert run.started_at is not None
    assert run.started_at.isoformat(timespec="microseconds") == run.start_time
    assert run.steps[0].started_at == run.llm_interactions[0].started_at
    assert Trajectory(start_time="soon").started_at is None
    assert Trajectory().messages == []
