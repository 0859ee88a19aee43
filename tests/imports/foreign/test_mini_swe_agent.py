"""mini-swe-agent's trajectories: its two forms, and that contents are those of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.imports.foreign.files import check_run, real_files, runs_of
from trace_recorder import load
from trace_recorder.imports.foreign.formats import Source, format_of

_CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
    {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": '{"command": "false"}'}},
]
_MESSAGES = [
    {"role": "system", "content": "You fix bugs."},
    {"role": "user", "content": "Fix add()."},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": _CALLS,
        "extra": {"cost": 0.5, "timestamp": 1760000000.5},
    },
    {"role": "tool", "content": "add.py", "tool_call_id": "c1", "extra": {"returncode": 0, "timestamp": 1760000001.0}},
    {"role": "tool", "content": "", "tool_call_id": "c2", "extra": {"returncode": 1, "timestamp": 1760000002.0}},
    {"role": "assistant", "content": "Done.", "extra": {"cost": 0.25, "timestamp": 1760000003.0}},
    {"role": "exit", "content": "Submitted", "extra": {"exit_status": "Submitted", "submission": "a diff"}},
]
_DOCUMENT = {
    "info": {"exit_status": "Submitted", "submission": "a diff", "mini_version": "2.4.6"},
    "messages": _MESSAGES,
    "trajectory_format": "mini-swe-agent-1.1",
}


def _written(directory: Path, document: object) -> Path:
    path = directory / "run.traj.json"
    path.write_text(json.dumps(document))
    return path


def test_a_run_is_read_as_it_is_on_file(tmp_path: Path) -> None:
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


def test_a_run_that_met_a_limit_has_failed(tmp_path: Path) -> None:
    document = {**_DOCUMENT, "info": {"exit_status": "LimitsExceeded", "submission": ""}}
    run = load(_written(tmp_path, document))
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.type == "LimitsExceeded"


def test_a_bare_list_of_messages_is_read_without_times(tmp_path: Path) -> None:
    bare = [
        {"role": one["role"], "content": one["content"]} for one in _MESSAGES if one["role"] in {"user", "assistant"}
    ]
    run = load(_written(tmp_path, bare))
    assert (run.status, run.start_time, len(run.llm_interactions)) == ("unknown", None, 2)


@pytest.mark.parametrize("document", [{"messages": []}, [], [{"role": "user"}], {"trajectory_format": 3}, 7])
def test_other_documents_are_not_taken_for_this_format(tmp_path: Path, document: object) -> None:
    assert format_of(Source(_written(tmp_path, document))) is None


def test_real_files(tmp_path: Path) -> None:
    for path in real_files("mini-swe-agent/*"):
        document = json.loads(path.read_bytes())
        messages = document if isinstance(document, list) else document["messages"]
        (run,) = runs_of(path)
        trajectory = check_run(run, tmp_path)
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        assert [one.response.content for one in trajectory.llm_interactions] == said
        results = [message["content"] for message in messages if message["role"] == "tool"]
        assert [
            one.result or one.error or "" for step in trajectory.agent_steps for one in step.tool_results
        ] == results
