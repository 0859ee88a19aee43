"""Plain conversations and tau-bench's results: the model's prompts, results that no model saw, and rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.files import check_run, loaded, produced_document, real_files, runs_of
from trace_recorder import load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.trajectory import Trajectory

_MESSAGES = produced_document("chat-messages/messages.json")

_RESULT = produced_document("tau-bench/results.json")[0]


def _written(directory: Path, *values: object) -> Path:
    path = directory / "file.json"
    path.write_text("\n".join(map(json.dumps, values)))
    return path


def _check(run: Trajectory) -> None:
    first, second = run.llm_interactions
    assert [message.role for message in second.input_messages] == ["system", "user", "assistant", "tool"]
    assert first.response.tool_calls[0].arguments == {"seat": 1}
    assert second.response.content == "Booked.\n\nBye."
    assert [result.result for result in run.agent_steps[0].tool_results] == ["done"]


def test_a_list_of_messages_is_a_run(tmp_path: Path) -> None:
    _check(load(_written(tmp_path, _MESSAGES)))


def test_each_line_with_messages_is_a_run(tmp_path: Path) -> None:
    row = {"messages": _MESSAGES, "tools": [{"name": "book"}], "model": "m", "source": "x"}
    first, second = loaded(_written(tmp_path, row, {**row, "id": "second"}))
    _check(first)
    assert (first.trajectory_id, second.trajectory_id) == ("file-1", "second")
    assert (first.model, first.metadata["row"], first.llm_interactions[0].tools[0].name) == (
        "m",
        {"source": "x"},
        "book",
    )


def test_a_result_that_no_call_saw_is_an_execution_of_the_tool(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _MESSAGES[:4]))
    assert [result.result for result in run.agent_steps[0].tool_results] == ["done"]


def test_tau_bench_results_are_runs(tmp_path: Path) -> None:
    broken = {"task_id": 4, "trial": 1, "reward": 0.0, "info": {"error": "no answer", "traceback": "…"}, "traj": []}
    first, second = loaded(_written(tmp_path, [_RESULT, broken]))
    _check(first)
    assert (first.task, first.success, first.status) == ("Book a seat.", True, "completed")
    assert [(reward.name, reward.value) for reward in first.rewards] == [("reward", 1.0)]
    assert (first.metadata["imported_from"]["task_id"], first.annotations["info"]["user_cost"]) == (3, 0.5)
    assert (second.status, second.success, second.error and second.error.message) == ("failed", False, "no answer")


def test_a_single_tau_bench_result_is_a_run(tmp_path: Path) -> None:
    path = _written(tmp_path, _RESULT)
    assert format_of(Source(path)) == "tau-bench"
    _check(load(path))


def test_real_files_are_read_completely(tmp_path: Path) -> None:
    for path in real_files("tau-bench/*"):
        document = json.loads(path.read_bytes())
        results = document if isinstance(document, list) else [document]
        runs = runs_of(path)
        assert (len(runs), {run.format for run in runs}) == (len(results), {"tau-bench"})
        for run, result in zip(runs, results, strict=True):
            trajectory = check_run(run, tmp_path)
            _check_real(trajectory, result["traj"])
            assert (trajectory.rewards[0].value, trajectory.success) == (result["reward"], result["reward"] == 1.0)
    (path,) = real_files("openhands-v1/*.json")
    (run,) = runs_of(path)
    _check_real(check_run(run, tmp_path), json.loads(path.read_bytes()))


def _check_real(run: Trajectory, messages: list[dict[str, Any]]) -> None:
    said = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    assert [len(call.input_messages) for call in run.llm_interactions] == said
    assert [call.response.content for call in run.llm_interactions] == [messages[at]["content"] for at in said]
    asked = [[call["id"] for call in messages[at].get("tool_calls") or []] for at in said]
    assert [[call.call_id for call in one.response.tool_calls] for one in run.llm_interactions] == asked
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert [result.result for step in run.agent_steps for result in step.tool_results] == results
