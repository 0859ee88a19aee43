"""SWE-agent's trajectories: text and function calling, the history alone, attempts, and the contents of the file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.formats.files import check_run, loaded, produced_document, real_files, runs_of
from trace_recorder import load
from trace_recorder.formats.foreign_runs.run import Call, ToolRun

_DOCUMENT = produced_document("swe-agent/add__1.traj")

_HISTORY = _DOCUMENT["history"]
_STEPS = _DOCUMENT["trajectory"]


def _written(directory: Path, document: object) -> Path:
    path = directory / "add__1.traj"
    path.write_text(json.dumps(document))
    return path


def test_calls_come_from_the_history_and_tools_from_the_steps(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _DOCUMENT))
    assert (run.trajectory_id, run.status, run.model, run.task) == ("add__1", "completed", "gpt-4o", "Fix add().")
    assert (run.final_result, run.annotations) == ("a diff", {"model_stats": {"tokens_sent": 7}})
    assert [len(call.input_messages) for call in run.llm_interactions] == [3, 5, 7]
    assert [message.content for message in run.llm_interactions[0].input_messages][1] == "An example."
    results = [result for step in run.agent_steps for result in step.tool_results]
    assert [(result.result, result.sent, result.duration_seconds) for result in results] == [
        ("a = b", "a = b\n(Open file: add.py)", 2.5),
        ("3", None, None),
        ("a diff", None, None),
    ]
    calls = [(call.name, call.arguments) for step in run.agent_steps for call in step.tool_calls]
    assert calls[:2] == [("open", {"path": "add.py"}), ("bash", {"command": "python add.py"})]


def test_a_history_without_steps_has_the_results_of_its_messages(tmp_path: Path) -> None:
    run = load(_written(tmp_path, {"history": _HISTORY}))
    assert (run.status, len(run.llm_interactions)) == ("unknown", 2)
    assert run.agent_steps[0].tool_results[0].result == "a = b\n(Open file: add.py)"
    assert run.llm_interactions[1].response.tool_calls == ()


def test_the_query_of_a_step_is_the_prompt_of_its_call(tmp_path: Path) -> None:
    shortened = {"role": "tool", "content": "Old output omitted", "tool_call_ids": ["c1"]}
    steps = [_STEPS[0] | {"query": _HISTORY[:3]}, _STEPS[1] | {"query": [*_HISTORY[:4], shortened]}]
    run = load(_written(tmp_path, {**_DOCUMENT, "trajectory": steps}))
    assert [message.content for message in run.llm_interactions[1].input_messages][3:] == [
        "I look.",
        "Old output omitted",
    ]


def test_a_response_with_other_words_in_its_step_is_one_call(tmp_path: Path) -> None:
    reworded = [_STEPS[0], _STEPS[1] | {"response": "Another wording.", "thought": "Another wording."}]
    (run,) = runs_of(_written(tmp_path, {**_DOCUMENT, "trajectory": reworded}))
    assert [type(event).__name__ for event in run.events] == ["Call", "ToolRun", "Call", "ToolRun", "TimedFact"]


def test_each_attempt_is_a_run(tmp_path: Path) -> None:
    failed = {**_DOCUMENT, "info": {"exit_status": "exit_cost", "submission": None}}
    first, second = loaded(_written(tmp_path, {**_DOCUMENT, "attempts": [failed, _DOCUMENT]}))
    assert [first.trajectory_id, second.trajectory_id] == ["add__1-attempt-1", "add__1-attempt-2"]
    assert (first.status, first.error and first.error.type, second.status) == ("failed", "exit_cost", "completed")


def test_agents_in_one_history_have_separate_conversations(tmp_path: Path) -> None:
    other = [{**item, "agent": "sub"} for item in _HISTORY[:4]]
    first, *_, last = load(_written(tmp_path, {"history": [*_HISTORY, *other]})).llm_interactions
    assert [(one.agent, len(one.input_messages)) for one in (first, last)] == [("main", 3), ("sub", 3)]


def test_real_files_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("swe-agent/*"):
        document = json.loads(path.read_bytes())
        (run,) = runs_of(path)
        assert run.format == "swe-agent"
        trajectory = check_run(run, tmp_path)
        said = [item["content"] for item in document["history"] if item["role"] == "assistant"]
        steps = document.get("trajectory", [])
        answered = [call.response.content for call in trajectory.llm_interactions]
        assert answered[: len(said)] == said
        assert len(answered) == max(len(said), len(steps))
        assert [event.result for event in run.events if isinstance(event, ToolRun)] == [
            step["observation"] for step in steps
        ]
        calls = [event for event in run.events if isinstance(event, Call) and event.conversation is not None]
        before = [at for at, item in enumerate(document["history"]) if item["role"] == "assistant"]
        assert [call.length for call in calls][: len(before)] == before
        asked = [item.get("tool_calls") or [] for item in document["history"] if item["role"] == "assistant"]
        names = [[call["function"]["name"] for call in calls] for calls in asked]
        assert [[call.name for call in one.response.tool_calls] for one in trajectory.llm_interactions][
            : len(names)
        ] == names
