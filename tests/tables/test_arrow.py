"""Runs as Arrow tables: types, rows, and messages with the calls whose prompts have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import polars
import pyarrow
import pytest

from tests.cli.invoking import recorded
from trace_recorder import Reward, Trajectory, TrajectoryRecorder, load, to_arrow, to_dataframe
from trace_recorder.tables.columns import Of
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import replace as replace_struct

OF: tuple[Of, ...] = get_args(Of)


def _flat(value: Any) -> Any:
    """Return an Arrow value in the form of a data frame."""
    if isinstance(value, list) and value and value[0].keys() == {"name", "value"}:
        value = {one["name"]: one["value"] for one in value}
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


@pytest.mark.parametrize("of", [one for one in OF if one != "runs"])
def test_the_rows_equal_those_of_data_frames(trajectories: Mapping[str, Trajectory], of: Of) -> None:
    """Arrow tables have the same columns and values as data frames, which have structures as JSON."""
    table = to_arrow(trajectories.values(), of=of)
    frame = to_dataframe(trajectories.values(), of=of, library="polars")

    assert table.column_names == frame.columns
    without_origins = [name for name in frame.columns if name != "replayed_from"]
    assert [{name: _flat(row[name]) for name in without_origins} for row in table.to_pylist()] == frame.select(
        without_origins
    ).to_dicts()


def test_fixed_structures_have_arrow_types(trajectories: Mapping[str, Trajectory]) -> None:
    """Times, rewards, tool calls and the calls of a message have Arrow types, and values of any structure are JSON."""
    [run] = to_arrow(trajectories["tools"], of="runs").to_pylist()
    messages = to_arrow(trajectories["tools"], of="messages").to_pylist()
    [called] = [row["requested_calls"] for row in messages if row["requested_calls"]][:1]

    assert run["started_at"] == trajectories["tools"].started_at
    assert run["rewards"] == [
        {"name": reward.name, "value": reward.value} for reward in trajectories["tools"].rewards[:1]
    ]
    assert json.loads(run["metadata"]) == trajectories["tools"].metadata
    assert set(called[0]) == {"call_id", "name", "arguments"}
    assert (
        str(to_arrow([], of="messages").schema.field("call_ranges").type)
        == "list<item: struct<first: int64, last: int64>>"
    )


def _held(rows: list[dict[str, Any]], numbers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield each pair of a call and the number of a message in its prompt, from the table of messages."""
    calls = {number: identity for identity, number in numbers.items()}
    for row in rows:
        for place in chain.from_iterable(range(one["first"], one["last"] + 1) for one in row["call_ranges"]):
            yield calls[place], row["message_number"]


def _documents(prompt: Any) -> Iterator[str]:
    for message in prompt:
        yield json.dumps(message.to_document(), sort_keys=True)


def test_each_message_is_a_row_once_with_its_calls(trajectories: Mapping[str, Trajectory]) -> None:
    """Each message is one row, with the calls that a plain loop over all prompts finds, in runs of every structure."""
    for run in trajectories.values():
        rows = to_arrow(run, of="messages").to_pylist()
        numbers = {row["interaction_id"]: row["call_number"] for row in to_arrow(run, of="calls").to_pylist()}
        expected: dict[str, set[str]] = {}
        for one in run.llm_interactions:
            for document in _documents(one.input_messages):
                expected.setdefault(document, set()).add(one.interaction_id)
        holders: dict[int, set[str]] = {row["message_number"]: set() for row in rows}
        for call, number in _held(rows, numbers):
            holders[number].add(call)

        assert sorted(map(sorted, holders.values())) == sorted(map(sorted, expected.values()))
        assert [row["held_by"] for row in rows] == [len(holders[row["message_number"]]) for row in rows]
        assert all(row["first_call"] in holders[row["message_number"]] for row in rows)


def test_alternating_agents_need_few_ranges_for_a_message(tmp_path: Path) -> None:
    """If two agents take turns, a message still has few ranges of calls, because the calls of a conversation have
    consecutive numbers.
    """
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        histories: dict[str, list[Any]] = {"a": [], "b": []}
        for turn in range(40):
            for name, history in histories.items():
                history.append({"role": "user", "content": f"{name} {turn}"})
                recorder.record_llm_interaction(history, {"content": "ok"}, "openai", "m")
                history.append({"role": "assistant", "content": f"ok {name} {turn}"})
    rows = to_arrow(load(tmp_path / "run.json"), of="messages").to_pylist()

    assert len(rows) == 2 * (40 + 39)
    assert max(len(row["call_ranges"]) for row in rows) <= 8
    assert sorted(row["held_by"] for row in rows)[-2:] == [40, 40]


def test_a_value_of_a_wrong_type_is_null() -> None:
    """A value of a wrong type in place of a number or a time is null."""
    huge: Any = 2**70
    run = Trajectory(task="a\ud800", execution_time=10**400, success="yes", start_time="0001-01-01T00:00:00+14:00")  # type: ignore[arg-type]
    reward = Reward("r", huge, weight=True, step_number=huge, timestamp="soon")
    [row] = to_arrow(run, of="runs").to_pylist()
    [scored] = to_arrow(Trajectory(rewards=(reward,)), of="rewards").to_pylist()

    assert (row["task"], row["duration_seconds"], row["success"], row["started_at"]) == ("a\ufffd", None, None, None)
    assert (scored["value"], scored["weight"], scored["step_number"], scored["timestamp"]) == (
        2.0**70,
        None,
        None,
        None,
    )


def test_times_are_in_utc() -> None:
    """Times with any offset in the file are in UTC."""
    [row] = to_arrow(Trajectory(start_time="2025-06-12T22:00:00+02:00"), of="runs").to_pylist()

    assert row["started_at"] == datetime(2025, 6, 12, 20, tzinfo=UTC)


def test_no_runs_give_a_table_without_rows() -> None:
    """A table of no runs has all columns with their types, and no rows."""
    table = to_arrow([], of="rewards")

    assert (table.num_rows, str(table.schema.field("timestamp").type)) == (0, "timestamp[us, tz=UTC]")
    assert isinstance(table, pyarrow.Table)
    assert polars.from_arrow(table).is_empty()


def test_an_unknown_table_is_refused() -> None:
    """An unknown table raises an error that names the tables, and so does a path."""
    with pytest.raises(ValueError, match="one of runs, calls, steps, tool_calls, messages, rewards"):
        to_arrow([], of="transcripts")  # type: ignore[arg-type]  # what the test is of
    with pytest.raises(TypeError, match=r"to_arrow\(load\('run.json'\)\)"):
        to_arrow("run.json")  # type: ignore[arg-type]  # what the test is of


def test_calls_with_the_same_id_have_different_numbers(tmp_path: Path) -> None:
    """Two calls with the same id, as in a file written by hand, have different numbers."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        for _ in range(2):
            recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
    run = load(tmp_path / "run.json")
    calls = tuple(replace_struct(call, interaction_id="llm_1") for call in run.llm_interactions)
    table = to_arrow(replace(run, llm_interactions=calls), of="calls")

    assert table["call_number"].to_pylist() == [1, 2]


def test_half_of_a_surrogate_pair_in_the_origin_of_an_answer_is_written(tmp_path: Path) -> None:
    """A lone surrogate in the origin of a replayed answer is written to the table."""
    run = load(recorded(tmp_path / "run.json"))
    [call] = run.llm_interactions
    origin = ReplayedFrom("a\ud800", by_hand=True)
    table = to_arrow(replace(run, llm_interactions=(replace_struct(call, replayed_from=origin),)), of="calls")

    assert table["replayed_from"].to_pylist() == [{"trajectory_id": "a\ufffd", "interaction_id": None, "by_hand": True}]


def test_a_table_of_many_runs_has_few_chunks() -> None:
    """A table of many runs, even from a generator, has fewer chunks than runs."""
    table = to_arrow((Trajectory(task=str(number)) for number in range(600)), of="runs")

    assert table["task"].to_pylist() == [str(number) for number in range(600)]
    assert table["task"].num_chunks == 3


def test_the_model_of_a_run_is_the_requested_model(tmp_path: Path) -> None:
    """The model of a run is the requested model, and the model of a call that of its response."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        answer = {"content": "a", "model": "m-2025-01-01"}
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], answer, "openai", "m")
    run = load(tmp_path / "run.json")

    assert to_arrow(run, of="runs")["model"].to_pylist() == ["m"]
    assert to_arrow(run, of="calls")["model"].to_pylist() == ["m-2025-01-01"]
