"""OpenHands' events before version 1: function calls, actions in text, delegates, condensation, several runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.damage import check_damaged
from tests.formats.files import check_run, loaded, produced_document, real_files, runs_of
from trace_recorder import load
from trace_recorder.formats.foreign_runs.run import Call

_EVENTS = produced_document("openhands-v0/events.json")


def _event(number: int, **members: Any) -> dict[str, Any]:
    return {"id": number, "timestamp": f"2025-01-01T00:00:0{number}.000000", "source": "agent", **members}


def _written(directory: Path, value: object, *more: object) -> Path:
    path = directory / "events.json"
    path.write_text("\n".join(map(json.dumps, (value, *more))))
    return path


def test_actions_of_one_response_are_one_call(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _EVENTS))
    assert (run.status, run.task, run.model) == ("completed", "Fix it.", "m")
    assert (run.start_time, run.execution_time) == ("2025-01-01T00:00:00.000000+00:00", 7.0)
    first, second = run.llm_interactions
    assert [call.call_id for call in first.response.tool_calls] == ["c1", "c2"]
    assert (first.response.usage.input_tokens, [tool.raw for tool in first.tools]) == (10, [{"type": "function"}])
    assert first.input_messages[1].content == [
        {"type": "text", "text": "Fix it."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    assert [(message.role, message.call_id) for message in second.input_messages][2:] == [
        ("assistant", None),
        ("tool", "c1"),
        ("tool", "c2"),
    ]
    results = run.agent_steps[0].tool_results
    assert [(result.success, result.result) for result in results] == [(True, "a"), (False, "no")]


def test_an_action_in_text_is_an_executed_tool(tmp_path: Path) -> None:
    history = [
        {"action": "message", "content": "Fix it.", "wait_for_response": False},
        {"action": "run", "command": "ls", "thought": "I look.", "is_confirmed": "confirmed"},
        {"observation": "run", "content": "a", "command": "ls", "exit_code": 1},
        {"action": "finish", "outputs": {}, "thought": "Done."},
    ]
    line = {"instruction": "Fix it.", "history": history, "metrics": {"costs": [0.5, 0.25]}, "git_patch": "a diff"}
    first, second = loaded(_written(tmp_path, {**line, "success": True}, {**line, "error": "it broke"}))
    assert (first.status, first.success, first.final_result, first.metrics["cost"]) == (
        "completed",
        True,
        "a diff",
        0.75,
    )
    assert (second.status, second.error and second.error.message) == ("failed", "it broke")
    assert [call.response.content for call in first.llm_interactions] == ["I look.", "Done."]
    (result,) = [result for step in first.agent_steps for result in step.tool_results]
    assert (result.name, result.success, result.result) == ("run", False, "a")


def test_pairs_of_action_and_observation_are_read(tmp_path: Path) -> None:
    pairs = [[{"action": "run", "args": {"command": "ls", "thought": "I look."}, "source": "agent"}, _EVENTS[4]]]
    run = next(
        iter(loaded(_written(tmp_path, {"history": pairs, "metrics": {}, "instance_id": "x__1"}, {"history": []})))
    )
    assert (run.trajectory_id, len(run.llm_interactions)) == ("x__1", 1)


def test_a_delegate_is_a_separate_agent(tmp_path: Path) -> None:
    events = [
        _event(1, source="user", action="message", args={"content": "Fix it."}),
        _event(2, action="delegate", args={"agent": "BrowsingAgent", "inputs": {}, "thought": "I ask."}),
        _event(3, action="message", args={"content": "I browse."}),
        _event(4, observation="delegate", cause=2, content="found", extras={}),
        _event(5, action="message", args={"content": "Done."}),
    ]
    first, inner, last = load(_written(tmp_path, events)).llm_interactions
    assert (first.agent, inner.agent, last.agent) == (None, "BrowsingAgent", None)
    assert (inner.parent_execution_id, len(inner.input_messages), len(last.input_messages)) == ("action-2", 0, 3)


def test_the_model_does_not_see_events_that_a_condenser_removed(tmp_path: Path) -> None:
    args = {"forgotten_events_start_id": 2, "forgotten_events_end_id": 5, "summary": "It failed.", "summary_offset": 2}
    events = [
        *_EVENTS[:6],
        _event(6, action="condensation", args=args),
        _event(7, action="message", args={"content": "x"}),
    ]
    first, last = load(_written(tmp_path, events)).llm_interactions
    assert [message.content for message in last.input_messages] == [
        *(message.content for message in first.input_messages),
        "It failed.",
    ]


def test_metrics_are_found_by_the_response_s_id(tmp_path: Path) -> None:
    usage = {"response_id": "r1", "prompt_tokens": 99, "cache_read_tokens": 4}
    metrics = {"token_usages": [usage], "response_latencies": [{"response_id": "r1", "latency": 1.5}]}
    first = load(_written(tmp_path, {"history": _EVENTS, "metrics": metrics})).llm_interactions[0]
    assert (first.response.usage.input_tokens, first.response.usage.cache_read_input_tokens) == (10, 4)
    assert first.duration_seconds == 1.5


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    check_damaged(tmp_path / "events.json", json.dumps(_EVENTS).encode())
    lines = [{"history": _EVENTS[1:3], "metrics": {"costs": [1]}}, {"history": _EVENTS[1:2], "instruction": "x"}]
    check_damaged(tmp_path / "output.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def test_a_line_that_is_not_json_hides_only_its_run(tmp_path: Path) -> None:
    path = _written(tmp_path, {"history": _EVENTS, "metrics": {}})
    path.write_text(path.read_text() + "\n{broken\n" + path.read_text())
    first, broken, last = loaded(path)
    assert [len(run.llm_interactions) for run in (first, broken, last)] == [2, 0, 2]
    assert [gap.what for gap in broken.gaps] == ["a line with a run"]


def test_real_files_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("openhands-v0/*"):
        texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        runs = runs_of(path)
        assert (len(runs), {run.format for run in runs}) == (len(texts), {"openhands-v0"})
        for run, text in zip(runs, texts, strict=True):
            value = json.loads(text)
            _check(check_run(run, tmp_path), value["history"] if isinstance(value, dict) else value, value)
            assert all(event.conversation is not None for event in run.events if isinstance(event, Call))


def _check(trajectory: Any, events: list[dict[str, Any]], whole: Any) -> None:
    decided = [
        event
        for number, event in enumerate(events)
        if event.get("source", "agent" if number else "user") == "agent" and "action" in event
    ]
    assert len(trajectory.llm_interactions) == len(decided)
    usages = [
        event["tool_call_metadata"]["model_response"]["usage"] for event in decided if "tool_call_metadata" in event
    ]
    for name, ours in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")):
        assert trajectory.metrics.get(ours, 0) == sum(usage[name] for usage in usages)
    seen = {"agent_state_changed", "null"}
    outputs = [event["content"] for event in events if event.get("observation", "null") not in seen]
    results = [result for step in trajectory.agent_steps for result in step.tool_results]
    assert [result.result for result in results] == outputs
    if isinstance(whole, dict):
        assert trajectory.metrics["cost"] == pytest.approx(whole["metrics"]["accumulated_cost"])
        assert trajectory.success is whole["success"]
