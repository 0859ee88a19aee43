"""Traces of Invariant and trees of the Hierarchy that other programs wrote. `test_every_export_format.py` has our own
exports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.formats.exporting import exported
from tests.formats.files import PRODUCED, facts_in, loaded, results_in, runs_of, said_in
from trace_recorder import Trajectory, load, load_all
from trace_recorder.facts import SourceRecordFact

_INBOX = ("get_inbox", {"n": 10})


def _tokens(sent: int, received: int) -> dict[str, int]:
    return {"input_tokens": sent, "output_tokens": received}


def test_each_trace_of_a_dataset_is_a_run() -> None:
    """The metadata and annotations of a trace are kept. The line with the dataset's own metadata is not a run."""
    inbox, thanks = loaded(PRODUCED / "invariant" / "explorer.jsonl")

    assert [said_in(run) for run in (inbox, thanks)] == [
        [{"saw": 1, "text": "", "asked": [_INBOX]}, {"saw": 3, "text": "You have one mail, from Alice."}],
        [{"saw": 2, "text": "Welcome."}],
    ]
    assert results_in(inbox) == [("1", "get_inbox", None, "1. Subject: Hello, From: Alice")]
    assert inbox.metadata["row"] == {"id": "5b1e", "user": "bob"}
    assert [run.task for run in (inbox, thanks)] == ["What is in my inbox?", "Thanks."]


def test_each_answer_of_cumulative_steps_is_one_call() -> None:
    """The steps are cut after each message, as the SDK does it, and state tokens, tools and rewards."""
    [run] = loaded(PRODUCED / "hierarchy" / "sdk.json")

    assert said_in(run) == [
        {"saw": 1, "text": None, "asked": [("weather", {"city": "Oslo"})], "usage": _tokens(12, 4)},
        {"saw": 3, "text": "It is cold.", "usage": _tokens(20, 3)},
    ]
    assert results_in(run) == [("c1", "weather", None, "cold")]
    assert [[tool.name for tool in call.tools] for call in run.llm_interactions] == [["weather"], ["weather"]]
    first = run.llm_interactions[0].response
    assert (first.reasoning, first.finish_reason) == ("I look.", "tool_calls")
    assert (run.metrics["total_input_tokens"], run.metrics["output_tokens"]) == (32, 7)
    assert [(reward.name, reward.value, reward.explanation) for reward in run.rewards] == [("solved", 1.0, "right")]
    assert (run.trajectory_id, run.status, run.task) == ("7", "completed", "Weather in Oslo?")


def test_a_line_of_a_dataset_without_messages_is_a_gap(tmp_path: Path) -> None:
    """Only the first line, which has the metadata of the dataset, may be without messages."""
    trace = {"messages": [{"role": "user", "content": "q"}], "annotations": [], "metadata": {}}
    lines = [{"metadata": {"name": "d"}}, trace, {"annotations": [], "metadata": {}}]
    path = tmp_path / "dataset.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert [[gap.what for gap in run.gaps] for run in load_all(path)] == [[], ["line 3"]]


def test_members_of_a_trace_that_no_run_has_are_kept(tmp_path: Path) -> None:
    """A run has its own metrics, and no member for the metadata of a foreign tool call."""
    function = {"name": "ls", "arguments": {}}
    call = {"id": "1", "type": "function", "function": function, "metadata": {"seconds": 3}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    members = {"metrics": {"score": 1}, "execution_time": 2.5, "status": "solved", "success": "yes", "task": "q"}
    metadata = {**members, "metadata": {"row": {"a": 1}}}
    path = tmp_path / "dataset.jsonl"
    path.write_text(json.dumps({"messages": messages, "annotations": [], "metadata": metadata}))
    run = load(path)

    rest = {name: value for name, value in members.items() if name != "task"}
    assert run.metadata["row"] == {**rest, "metadata": {"row": {"a": 1}}}
    assert run.llm_interactions[0].response.tool_calls[0].extra == {"metadata": {"seconds": 3}}


def test_metadata_of_a_message_that_no_call_has_is_kept(tmp_path: Path) -> None:
    """The id of a message without a result is in its `extra`. A result may state the id of its call only as `id`."""
    calls = [{"id": name, "type": "function", "function": {"name": "ls", "arguments": {}}} for name in ("1", "2")]
    messages = [
        {"role": "user", "content": "q", "id": "m", "metadata": {"timestamp": "2026-01-01T10:00:00Z", "page": 3}},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "b", "id": "2"},
        {"role": "tool", "content": "a", "id": "1"},
        {"role": "assistant", "content": "done"},
    ]
    path = tmp_path / "dataset.jsonl"
    path.write_text(json.dumps({"messages": messages, "annotations": [], "metadata": {}}))

    [run] = runs_of(path)
    kept = [(event.what, event.value) for event in facts_in(run, SourceRecordFact)]
    assert kept == [("metadata of message 1", {"page": 3})]
    assert load(path).llm_interactions[0].input_messages[0].extra == {"id": "m"}
    assert results_in(load(path)) == [("1", "ls", None, "a"), ("2", "ls", None, "b")]


def test_the_facts_of_tool_calls_come_back_from_invariant(
    trajectories: Mapping[str, Trajectory], tmp_path: Path
) -> None:
    """The view changes ids that occur twice, and writes made-up ids and other members into metadata."""
    interactions = [*trajectories["gemini"].llm_interactions, *trajectories["local"].llm_interactions]
    run = Trajectory(llm_interactions=interactions)
    [read] = _read_again(run, tmp_path)

    assert _tool_calls(read) == _tool_calls(run)
    assert [call_id for call_id, *_ in _tool_calls(run)].count("call_0") == 2
    assert any(extra for *_, extra in _tool_calls(run))


@pytest.mark.parametrize("told", ["tools", "in_flight"])
def test_metadata_does_not_grow_from_invariant(
    told: str, trajectories: Mapping[str, Trajectory], tmp_path: Path
) -> None:
    """Facts that are derived again, such as the metrics, do not come back as metadata."""
    run = trajectories[told]
    [read] = _read_again(run, tmp_path)

    assert read.metadata.keys() - {"imported_from"} == run.metadata.keys()


def _tool_calls(run: Trajectory) -> list[tuple[str, bool, Any]]:
    calls = (call for interaction in run.llm_interactions for call in interaction.response.tool_calls)
    return [(call.call_id, call.call_id_made_up, call.extra) for call in calls]


def _read_again(run: Trajectory, directory: Path) -> list[Trajectory]:
    path = directory / "export.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in exported("invariant", run, directory)))
    return [*load_all(path)]
