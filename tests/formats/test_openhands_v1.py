"""OpenHands' events from version 1: parallel actions, answers of every kind, condensation, directories, statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.damage import check_damaged
from tests.formats.files import check_run, produced_lines, real_files, runs_of
from trace_recorder import load
from trace_recorder.formats.foreign_runs.run import ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of

_EVENTS = produced_lines("openhands/events.jsonl")


def _event(number: int, kind: str, **members: Any) -> dict[str, Any]:
    time = f"2026-01-01T00:00:0{number}.000000"
    return {"id": f"e{number}", "timestamp": time, "source": "agent", "kind": kind, **members}


def _action(number: int, thought: str, name: str = "terminal") -> dict[str, Any]:
    call = {"id": f"c{number}", "name": name, "arguments": '{"command": "ls"}', "origin": "completion"}
    content = [{"cache_prompt": False, "type": "text", "text": thought}] if thought else []
    action = (
        {"command": "ls", "kind": "TerminalAction"}
        if name == "terminal"
        else {"message": "Done.", "kind": "FinishAction"}
    )
    return {"thought": content, "action": action, "tool_name": name, "tool_call_id": f"c{number}", "tool_call": call}


_STATS = {
    "usage_to_metrics": {
        "default": {
            "costs": [{"model": "m", "cost": 0.5}, {"model": "m", "cost": 0.25}],
            "token_usages": [
                {"response_id": "r1", "prompt_tokens": 10, "completion_tokens": 2, "cache_read_tokens": 1},
                {"response_id": "r2", "prompt_tokens": 20, "completion_tokens": 3},
            ],
            "response_latencies": [{"response_id": "r2", "latency": 1.5}],
        }
    }
}
_STATE = {
    "id": "11111111-2222",
    "agent": {"llm": {"model": "m"}, "kind": "Agent"},
    "workspace": {"working_dir": "/w", "kind": "LocalWorkspace"},
    "execution_status": "finished",
    "max_iterations": 9,
    "stats": _STATS,
}


def _written(directory: Path, events: list[dict[str, Any]]) -> Path:
    path = directory / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def _directory(directory: Path, state: object = _STATE) -> Path:
    (directory / "events").mkdir(parents=True)
    for number, event in enumerate(_EVENTS):
        (directory / "events" / f"event-{number:05}-{event['id']}.json").write_text(json.dumps(event))
    path = directory / "base_state.json"
    path.write_text(json.dumps(state))
    return path


def test_parallel_actions_are_one_call_with_their_results(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _EVENTS))
    assert (run.status, run.task, run.final_result) == ("completed", "Fix it.", "Done.")
    first, second = run.llm_interactions
    assert (first.response.content, first.response.reasoning, first.response.id) == ("I look.", "Hm.", "r1")
    assert [call.call_id for call in first.response.tool_calls] == ["c2", "c3"]
    assert [message.role for message in second.input_messages] == ["system", "user", "assistant", "tool", "tool"]
    assert [(result.success, result.result) for result in run.agent_steps[0].tool_results] == [
        (True, "a"),
        (False, "no such tool"),
    ]


def test_a_directory_states_facts_of_each_response(tmp_path: Path) -> None:
    path = _directory(tmp_path / "conversation")
    source = Source(path)
    assert format_of(source) == "openhands"
    run = load(path)
    assert (run.trajectory_id, run.model, run.max_steps, run.status) == ("11111111-2222", "m", 9, "completed")
    usages = [(call.response.usage.input_tokens, call.response.usage.cost) for call in run.llm_interactions]
    assert usages == [(10, 0.5), (20, 0.25)]
    assert [call.duration_seconds for call in run.llm_interactions] == [None, 1.5]


def test_the_model_does_not_see_events_that_a_condenser_removed(tmp_path: Path) -> None:
    forgot = _event(
        6,
        "Condensation",
        forgotten_event_ids=["e2", "e4", "e5"],
        summary="It failed.",
        summary_offset=2,
        llm_response_id="r9",
    )
    last = _event(7, "MessageEvent", llm_message={"role": "assistant", "content": "Done."}, llm_response_id="r2")
    run = load(_written(tmp_path, [*_EVENTS[:6], forgot, last]))
    first, condenser, second = run.llm_interactions
    assert (condenser.agent, condenser.response.content, condenser.input_messages) == ("condenser", "It failed.", [])
    assert [message.content for message in second.input_messages] == ["You fix.", "Fix it.", "It failed."]
    assert len(first.input_messages) == 2


def test_rejections_errors_and_images_are_read(tmp_path: Path) -> None:
    image = {"type": "image", "image_urls": ["data:image/png;base64,AA"]}
    events = [
        _event(1, "MessageEvent", source="user", llm_message={"role": "user", "content": [image]}),
        _event(2, "ActionEvent", llm_response_id="r1", **_action(2, "I look.")),
        _event(
            3, "UserRejectObservation", rejection_reason="no", action_id="e2", tool_call_id="c2", tool_name="terminal"
        ),
        _event(4, "ConversationErrorEvent", source="environment", code="LLMError", detail="no answer"),
    ]
    run = load(_written(tmp_path, events))
    assert run.llm_interactions[0].input_messages[0].content == [image]
    (result,) = run.agent_steps[0].tool_results
    assert (result.success, result.result) == (False, "Action rejected: no")
    assert (run.status, run.error and run.error.type) == ("failed", "LLMError")


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    check_damaged(tmp_path / "events.jsonl", b"".join(json.dumps(event).encode() + b"\n" for event in _EVENTS))
    check_damaged(_directory(tmp_path / "conversation"), json.dumps(_STATE).encode())


def test_an_event_that_is_not_json_hides_no_other(tmp_path: Path) -> None:
    path = _directory(tmp_path / "conversation")
    (path.parent / "events" / "event-00004-e4.json").write_text("{")
    run = load(path)
    assert ([gap.what for gap in run.gaps], len(run.llm_interactions)) == (["event 5"], 2)


def test_real_files_equal_a_second_reading(tmp_path: Path) -> None:
    (path,) = real_files("openhands-v1/*.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    (run,) = runs_of(path)
    trajectory = check_run(run, tmp_path)
    actions = [event for event in events if event["kind"] == "ActionEvent"]
    assert [call.response.id for call in trajectory.llm_interactions] == [event["llm_response_id"] for event in actions]
    assert [call.response.content for call in trajectory.llm_interactions] == [
        one["thought"][0]["text"] for one in actions
    ]
    answers = {event.get("action_id"): event for event in events}
    said = [answers[action["id"]]["observation"]["content"][0]["text"] for action in actions]
    assert [event.result for event in run.events if isinstance(event, ToolRun)] == said
    (state,) = real_files("openhands-v1/*/base_state.json")
    (empty,) = runs_of(state)
    assert (check_run(empty, tmp_path).llm_interactions, empty.model) == (
        [],
        json.loads(state.read_text())["agent"]["llm"]["model"],
    )
