"""Trae Agent's own document: written and read. Harbor's reader of it is in `tests/readers/check_atif.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.formats.files import PRODUCED, produced_document
from tests.formats.imported import import_file
from tests.formats.made import call, gave, run, use
from trace_recorder import Trajectory, load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.trae import to_trae
from trace_recorder.reading.relations.prompt_relations import turns_of

TRAE = produced_document("trae-agent/run.json")


def test_a_document_written_by_trae_is_a_trajectory() -> None:
    """Trae's document has only the newest messages. The second call still continues the first call."""
    trajectory = load(PRODUCED / "trae-agent" / "run.json")

    first = trajectory.llm_interactions[0]
    assert [(made.call_id, made.name, made.arguments) for made in first.response.tool_calls] == [
        ("c1", "bash", {"command": "ls"})
    ]
    assert (first.response.usage.input_tokens, [tool.name for tool in first.tools]) == (150, ["bash", "task_done"])
    [step] = trajectory.agent_steps
    assert [(result.call_id, result.success, result.result) for result in step.tool_results] == [("c1", True, "a.py")]

    turns = turns_of(trajectory)
    assert (trajectory.status, trajectory.success, trajectory.execution_time) == ("completed", True, 28.69)
    assert [turn.relation for turn in turns] == ["begins", "refers"]
    assert [(message.role, message.content) for message in turns[1].messages()] == [
        ("system", "s"),
        ("user", "q"),
        ("assistant", "I look."),
        ("tool", "a.py"),
    ]


def test_an_imported_document_has_the_same_metrics(tmp_path: Path) -> None:
    path = PRODUCED / "trae-agent" / "run.json"
    [written] = import_file(Source(path), tmp_path)
    assert load(written.path).metrics == {**load(path).metrics, "redactions": 0}


def test_a_written_document_has_only_trae_s_members() -> None:
    """The members are in Trae's order. A message has one tool call or one result."""
    a, b = use("a", command="ls"), use("b", command="pwd")
    asked = ["q", {"role": "assistant", "content": "I look.", "tool_calls": [a, b]}, gave("a", "x"), gave("b", "y")]
    document = to_trae(run(call(asked, "done", response={"usage": {"input_tokens": 3, "cost": 0.5}})))

    assert list(document) == list(TRAE)
    [one] = document["llm_interactions"]
    assert list(one) == list(TRAE["llm_interactions"][0])
    assert one["response"]["usage"] == {"input_tokens": 3}
    assert one["input_messages"] == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "I look.", "tool_call": a},
        {"role": "assistant", "content": None, "tool_call": b},
        {"role": "user", "content": None, "tool_result": _result("a", "x")},
        {"role": "user", "content": None, "tool_result": _result("b", "y")},
    ]


def _result(call_id: str, result: str) -> dict[str, object]:
    return {"call_id": call_id, "success": True, "result": result, "error": None, "name": None}


def test_every_run_survives_a_round_trip(trajectories: Mapping[str, Trajectory], tmp_path: Path) -> None:
    """A run that is written in Trae's format, read and written again gives the same document."""
    for name, trajectory in trajectories.items():
        document = to_trae(trajectory)
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document))
        assert (name, to_trae(load(path))) == (name, json.loads(path.read_text()))


def test_content_that_the_format_cannot_express_is_counted(trajectories: Mapping[str, Trajectory]) -> None:
    """Thoughts, failed attempts, rewards and annotations are counted."""
    _, left_out = to_trae.with_report(trajectories["tools"])

    assert left_out == {"thoughts in answers": 2, "failed attempts": 1, "rewards": 2, "annotations": 1}
