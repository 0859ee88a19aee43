"""Inspect's logs: sub-agents as spans, rewards as scores, errors, the archive. Inspect's reader is in tests/readers."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.views import to_inspect

ASKED = [{"role": "user", "content": "How many?"}]
CALL = {"call_id": "c1", "name": "count", "arguments": {"path": "a"}}


def record(path: Path) -> Path:
    """Record a tool that runs a sub-agent, and a tool that fails."""
    with TrajectoryRecorder(path, task="count", provider="openai", model="m") as recorder:
        with recorder.step():
            recorder.record_llm_interaction(ASKED, {"content": None, "tool_calls": [CALL]}, "openai", "m")
            with recorder.tool_call("count", {"path": "a"}, "c1") as tool:
                with recorder.agent("helper"):
                    recorder.record_llm_interaction(ASKED, {"content": "3"}, "openai", "small")
                tool.result = {"lines": 3}
        with pytest.raises(OSError, match="no"), recorder.tool_call("open", {"path": "b"}):
            raise OSError("no")
        recorder.reward("exact", 0.5, explanation="nearly")
        recorder.reward("short", 1, step_number=1)
        recorder.finalize(success=True, final_result="3")
    return path


def events(log: Any, kind: str) -> list[Any]:
    return [event for event in log["samples"][0]["events"] if event["event"] == kind]


def test_agents_and_steps_are_spans_and_tools_are_events(tmp_path: Path) -> None:
    """The sub-agent's span is within the span of its tool, whose event names it. Spans begin and end in order."""
    log = to_inspect(load(record(tmp_path / "run.json")))

    begun = {event["name"]: event for event in events(log, "span_begin")}
    name_of = {event["id"]: name for name, event in begun.items()}
    assert {name: name_of.get(event.get("parent_id")) for name, event in begun.items()} == {
        "agent": None,
        "step 1": "agent",
        "count": "step 1",
        "helper": "count",
    }
    count, failed = events(log, "tool")
    assert (count["arguments"], json.loads(count["result"])) == ({"path": "a"}, {"lines": 3})
    assert count["agent_span_id"] == begun["helper"]["id"]
    assert failed["error"] == {"type": "unknown", "message": "OSError: no"}
    assert [name_of[event["span_id"]] for event in events(log, "model")] == ["step 1", "helper"]
    for name, event in begun.items():
        [end] = [one for one in events(log, "span_end") if one["id"] == event["id"]]
        everything = log["samples"][0]["events"]
        assert everything.index(event) < everything.index(end), name


def test_rewards_are_scores(tmp_path: Path) -> None:
    """Each reward is a score of the sample and of the results. The run's success is a score too."""
    log = to_inspect(load(record(tmp_path / "run.json")))

    scores = log["samples"][0]["scores"]
    assert {name: score["value"] for name, score in scores.items()} == {
        "exact": 0.5,
        "short (step 1)": 1,
        "success": 1.0,
    }
    assert scores["exact"]["explanation"] == "nearly"
    assert [score["name"] for score in log["results"]["scores"]] == [*scores]
    assert log["status"] == "success"


def test_a_failed_run_has_an_error(tmp_path: Path) -> None:
    """The exception that ended the run is the error of the log and of the sample."""
    with pytest.raises(ValueError, match="bad"), TrajectoryRecorder(tmp_path / "run.json"):
        raise ValueError("bad")

    log = to_inspect(load(tmp_path / "run.json"))

    assert (log["status"], log["error"]["message"]) == ("error", "ValueError: bad")
    assert log["samples"][0]["error"]["message"] == "ValueError: bad"


def test_each_message_is_written_once(tmp_path: Path) -> None:
    """Calls refer to messages by ranges, so a log grows with the new messages of each call."""
    messages: list[Any] = []
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        for turn in range(40):
            messages = [*messages, {"role": "user", "content": f"{turn}: {'x' * 1000}"}]
            recorder.record_llm_interaction(messages, {"content": "yes"}, "openai", "m")

    log = to_inspect(load(tmp_path / "run.json"))

    assert events(log, "model")[-1]["input_refs"] == [[0, 40]]
    assert len(log["samples"][0]["events_data"]["messages"]) == 40


def test_the_archive_has_the_log_in_files(tmp_path: Path) -> None:
    """`--form eval` writes an archive with a header, summaries and the sample. The same run gives the same bytes."""
    path = record(tmp_path / "run.json")
    for name in ("a.eval", "b.eval"):
        assert invoke("export", path, "--format", "inspect", "--form", "eval", "-o", tmp_path / name).exit_code == 0

    assert (tmp_path / "a.eval").read_bytes() == (tmp_path / "b.eval").read_bytes()
    with zipfile.ZipFile(io.BytesIO((tmp_path / "a.eval").read_bytes())) as archive:
        parts = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    log = json.loads(json.dumps(to_inspect(load(path))))
    [sample] = log.pop("samples")
    assert parts["header.json"] == log
    assert parts[f"samples/{sample['id']}_epoch_1.json"] == sample
    assert parts["summaries.json"][0]["scores"] == sample["scores"]
