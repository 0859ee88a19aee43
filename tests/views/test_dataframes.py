"""Runs as data frames, of pandas and of polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.data.shown import captured
from trace_recorder import MissingExtraError, Trajectory, load, to_dataframe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Trajectory:
    """A captured run of three calls, the first of which asks for a tool."""
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    captured(path).journal.close()
    return load(path)


def _rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of either library."""
    return (
        frame.to_dicts()
        if hasattr(frame, "to_dicts")
        else frame.astype(object).where(frame.notna(), None).to_dict("records")
    )


@pytest.fixture(params=["polars", "pandas"])
def library(request: pytest.FixtureRequest) -> str:
    """A library that is installed."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return str(request.param)


def test_a_row_is_a_call(run: Trajectory, library: Any) -> None:
    """With its tokens, its time, and what was said; what is unknown is null."""
    rows = _rows(to_dataframe(run, library=library))

    assert [(row["interaction_id"], row["model"], row["messages"], row["tool_calls"]) for row in rows] == [
        (one.interaction_id, one.response.model or one.model, len(one.input_messages), len(one.response.tool_calls))
        for one in run.llm_interactions
    ]
    assert rows[0]["started_at"] == run.llm_interactions[0].started_at
    assert [row["duration_seconds"] for row in rows] == [one.duration_seconds for one in run.llm_interactions]


def test_a_row_is_a_step_or_a_tool_call(run: Trajectory, library: Any) -> None:
    """As many rows as the run has of each."""
    steps, calls = (_rows(to_dataframe([run, run], of=of, library=library)) for of in ("steps", "tool_calls"))

    assert [row["step_number"] for row in steps] == [step.step_number for step in run.steps] * 2
    assert [(row["name"], row["call_id"]) for row in calls] == [
        (call.name, call.call_id) for step in run.steps for call in step.tool_calls
    ] * 2


@pytest.mark.parametrize("of", ["calls", "steps", "tool_calls"])
def test_runs_of_every_shape_have_the_same_columns(
    trajectories: Mapping[str, Trajectory], library: Any, of: Any
) -> None:
    """Also a run without any row has them."""
    columns = {tuple(to_dataframe(one, of=of, library=library).columns) for one in trajectories.values()}

    assert columns == {tuple(to_dataframe([], of=of, library=library).columns)}


def test_another_table_is_refused(run: Trajectory) -> None:
    """The error names those that there are."""
    with pytest.raises(ValueError, match="one of calls, steps, tool_calls"):
        to_dataframe(run, of="messages")  # type: ignore[arg-type]  # what the test is of


def test_a_library_that_is_not_installed_is_named(run: Trajectory) -> None:
    """With what to install."""
    with pytest.raises(MissingExtraError, match="pip install no_such_frames"):
        to_dataframe(run, library="no_such_frames")  # type: ignore[arg-type]  # what the test is of


def test_a_trajectory_has_short_names_and_times(run: Trajectory) -> None:
    """Its last conversation, its steps, its document, and its times as datetimes."""
    answered = [one for one in run.llm_interactions if one.answered][-1]

    assert run.messages[:-1] == answered.input_messages
    assert (run.messages[-1].role, run.messages[-1].content) == ("assistant", answered.response.content)
    assert run.steps is run.agent_steps
    assert run.to_dict() == run.to_document()
    assert run.started_at is not None
    assert run.started_at.isoformat(timespec="microseconds") == run.start_time
    assert run.steps[0].started_at == run.llm_interactions[0].started_at
    assert Trajectory(start_time="soon").started_at is None
    assert Trajectory().messages == []
