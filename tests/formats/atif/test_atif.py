"""Reading ATIF that other tools wrote. `test_atif_round_trip.py` tests writing and reading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder import TrajectoryFormatError, load
from trace_recorder.values.messages import Payload

FOREIGN = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s-1",
    "agent": {"name": "terminus-2", "version": "2.0", "model_name": "gpt-5"},
    "steps": [
        {"step_id": 1, "timestamp": "2025-06-12T20:00:00Z", "source": "user", "message": "List the files."},
        {
            "step_id": 2,
            "timestamp": "2025-06-12T20:00:01Z",
            "source": "agent",
            "message": "I list them.",
            "reasoning_content": "Easy.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.py"}]},
            "metrics": {"prompt_tokens": 100, "completion_tokens": 9, "cached_tokens": 80, "logprobs": [-0.5]},
        },
        {"step_id": 3, "timestamp": "2025-06-12T20:00:02Z", "source": "agent", "message": "One file."},
    ],
}


def written(path: Path, document: Payload) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_document_of_another_tool_is_a_trajectory(tmp_path: Path) -> None:
    """Each agent step is a call with everything before it as its prompt, and each result is read from its
    observation.
    """
    trajectory = load(written(tmp_path / "atif.json", FOREIGN))

    first, last = trajectory.llm_interactions
    assert (trajectory.trajectory_id, trajectory.model, trajectory.status) == ("s-1", "gpt-5", "unknown")
    assert [(message.role, message.content) for message in last.input_messages] == [
        ("user", "List the files."),
        ("assistant", "I list them."),
        ("tool", "a.py"),
    ]
    assert first.response.reasoning == "Easy."
    assert (first.response.usage.input_tokens, first.response.usage.cache_read_input_tokens) == (100, 80)
    assert [[result.result for result in step.tool_results] for step in trajectory.agent_steps] == [["a.py"], []]


def test_the_last_observation_is_a_result_too(tmp_path: Path) -> None:
    """The last result belongs to the step that called the tool, although no later call saw it."""
    document = {**FOREIGN, "steps": FOREIGN["steps"][:2]}

    [step] = load(written(tmp_path / "atif.json", document)).agent_steps
    assert [(result.name, result.result) for result in step.tool_results] == [("bash", "a.py")]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({**FOREIGN, "schema_version": "ATIF-v2.0"}, "reads ATIF-v1"),
        ({**FOREIGN, "steps": [{"source": "agent"}, {"source": "nobody"}]}, "damaged ATIF document"),
        ({"schema_version": "ATIF-v1.7"}, "damaged ATIF document"),
    ],
)
def test_an_unreadable_document_is_refused(document: Payload, why: str, tmp_path: Path) -> None:
    """A newer version, or a document with missing members, is a TrajectoryFormatError that names the file."""
    with pytest.raises(TrajectoryFormatError, match=why):
        load(written(tmp_path / "atif.json", document))
