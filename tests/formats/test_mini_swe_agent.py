"""mini-swe-agent's trajectories: both forms, with the contents of the file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.formats.files import check_run, produced_document, real_files, runs_of
from trace_recorder import load
from trace_recorder.formats.foreign_runs.run import ToolRun

_DOCUMENT = produced_document("mini-swe-agent/run.traj.json")

_MESSAGES = _DOCUMENT["messages"]


def _written(directory: Path, document: object) -> Path:
    path = directory / "run.traj.json"
    path.write_text(json.dumps(document))
    return path


def test_a_run_has_the_contents_of_its_file(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _DOCUMENT))
    assert (run.status, run.final_result, run.trajectory_id) == ("completed", "a diff", "run")
    assert run.metadata["imported_from"]["version"] == "2.4.6"
    first, second = run.llm_interactions
    assert [message.content for message in first.input_messages] == ["You fix bugs.", "Fix add()."]
    assert [message.role for message in second.input_messages] == ["system", "user", "assistant", "tool", "tool"]
    assert (first.response.content, first.response.usage.cost) == ("I look.", 0.5)
    assert [call.arguments for call in first.response.tool_calls] == [{"command": "ls"}, {"command": "false"}]
    assert [result.success for result in run.agent_steps[0].tool_results] == [True, False]
    assert (run.start_time, run.execution_time) == ("2025-10-09T08:53:20.500000+00:00", 2.5)


def test_a_run_that_reached_a_limit_has_failed(tmp_path: Path) -> None:
    document = {**_DOCUMENT, "info": {"exit_status": "LimitsExceeded", "submission": ""}}
    run = load(_written(tmp_path, document))
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.type == "LimitsExceeded"


def test_actions_in_text_are_executed_tools(tmp_path: Path) -> None:
    answer = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7}}
    messages = [
        *_MESSAGES[:2],
        {"role": "assistant", "content": "ls", "extra": {"actions": [{"command": "ls"}], "response": answer}},
        {"role": "user", "content": "<output>a…", "extra": {"raw_output": "a b", "returncode": 2, "timestamp": 9.0}},
    ]
    run = load(_written(tmp_path, {**_DOCUMENT, "messages": messages}))
    (step,) = run.agent_steps
    assert [(call.name, call.arguments) for call in step.tool_calls] == [("bash", {"command": "ls"})]
    assert [(result.success, result.result) for result in step.tool_results] == [(False, "a b")]
    response = run.llm_interactions[0].response
    assert (response.content, response.finish_reason, response.usage.input_tokens) == ("ls", "stop", 7)


def test_a_response_without_an_action_is_a_call_too(tmp_path: Path) -> None:
    refused = {
        "role": "user",
        "content": "Exactly one action!",
        "extra": {"interrupt_type": "FormatError", "model_response": "I wait.", "cost": 0.125},
    }
    run = load(_written(tmp_path, {**_DOCUMENT, "messages": [*_MESSAGES[:2], refused]}))
    (call,) = run.llm_interactions
    assert (call.response.content, call.response.usage.cost, len(call.input_messages)) == ("I wait.", 0.125, 2)


def test_responses_of_the_responses_api_are_messages(tmp_path: Path) -> None:
    asked = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}
    response = {"object": "response", "id": "r1", "output": [asked], "usage": {"input_tokens": 3}}
    messages = [
        *_MESSAGES[:2],
        response | {"extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}], "cost": 0.5}},
        {"type": "function_call_output", "call_id": "c1", "output": "a", "extra": {"raw_output": "a", "returncode": 0}},
        response | {"output": [], "extra": {}},
    ]
    first, second = load(_written(tmp_path, {**_DOCUMENT, "messages": messages})).llm_interactions
    assert (first.response.id, first.response.usage.input_tokens, first.response.usage.cost) == ("r1", 3, 0.5)
    assert [(message.role, message.call_id) for message in second.input_messages][2:] == [
        ("assistant", None),
        ("tool", "c1"),
    ]


def test_an_exception_is_the_error_of_the_run(tmp_path: Path) -> None:
    ended = {"role": "exit", "content": "no", "extra": {"exit_status": "ValueError", "exception_str": "no"}}
    document = {**_DOCUMENT, "info": {"exit_status": "ValueError"}, "messages": [*_MESSAGES[:2], ended]}
    error = load(_written(tmp_path, document)).error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "no")


def test_a_bare_list_of_messages_is_read_without_times(tmp_path: Path) -> None:
    bare = [
        {"role": message["role"], "content": message["content"]}
        for message in _MESSAGES
        if message["role"] in {"user", "assistant"}
    ]
    run = load(_written(tmp_path, bare))
    assert (run.status, run.start_time, len(run.llm_interactions)) == ("unknown", None, 2)


def test_real_files_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("mini-swe-agent/*"):
        document = json.loads(path.read_bytes())
        messages = document if isinstance(document, list) else document["messages"]
        (run,) = runs_of(path)
        trajectory = check_run(run, tmp_path)
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        assert [call.response.content for call in trajectory.llm_interactions] == said
        outputs = [message["extra"]["raw_output"] for message in messages if "returncode" in message.get("extra", {})]
        assert [event.result for event in run.events if isinstance(event, ToolRun)] == outputs
        costs = [message["extra"]["cost"] for message in messages if "cost" in message.get("extra", {})]
        assert trajectory.metrics.get("cost") == (sum(costs) if costs else None)
