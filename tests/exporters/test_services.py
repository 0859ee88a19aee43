"""Scores that a service refuses: other runs and scores are sent, and the command names the missing ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.formats.sdk_conversations import spoken
from tests.formats.services.stand_ins import StandIn, serving
from tests.provider import plain
from tests.provider import serving as provider
from tests.rerun.runs import ask, client
from trace_recorder import TrajectoryRecorder, load, replay

PROJECT = "00000000-0000-0000-0000-000000000007"


class _Feedback(StandIn):
    """A stand-in for LangSmith that refuses feedback with some names, and notes the accepted feedback."""

    def __init__(self) -> None:
        super().__init__(0)
        self.refused = {"bad"}
        self.taken: list[str] = []
        self.batches = 0
        self.runs: list[Any] = []

    def answer(self, path: str, request: dict[str, Any]) -> tuple[int, Any]:
        if path.endswith("/info"):
            return 200, {"batch_ingest_config": {"use_multipart_endpoint": False}}
        if path.endswith("/sessions"):
            project = {"id": PROJECT, "tenant_id": PROJECT, "name": "default"}
            return 200, [project | {"start_time": "2025-10-09T00:00:00", "reference_dataset_id": None}]
        if not path.endswith("/feedback"):
            self.batches += 1
            self.runs += request["post"]
            return 202, {}
        if request["key"] in self.refused:
            return 422, {"detail": "no such key"}
        assert request["session_id"] == PROJECT
        self.taken.append(request["key"])
        return 200, {"id": request["id"], "key": request["key"], "score": request["score"]}


def _run(path: Path, *rewards: str) -> None:
    with TrajectoryRecorder(path, task="ask") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
        for name in rewards:
            recorder.reward(name, 0.5)


def test_feedback_that_langsmith_refuses_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("langsmith")
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_secret-key")
    _run(tmp_path / "a.json", "bad", "good")
    _run(tmp_path / "b.json", "better")
    kept = _Feedback()
    with serving(kept) as address:
        command = ("export", tmp_path, "--format", "langsmith", "--endpoint", address)
        done = invoke(*command)
        assert (done.exit_code, kept.taken, kept.batches) == (1, ["good", "better"], 2), done.output
        assert "a.json: 1 score did not arrive; --resume sends them again" in done.output
        assert "b.json" not in done.output
        assert "secret" not in done.output
        kept.refused.clear()
        done = invoke(*command, "--resume")
        assert (done.exit_code, kept.taken[2:], kept.batches) == (0, ["bad"], 2), done.output


def test_langsmith_has_marks_and_no_tokens_of_replayed_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay used no tokens. LangSmith's copy of the run imports as a replay, with its end."""
    pytest.importorskip("langsmith")
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_secret-key")
    with provider(plain(spoken("1"))) as server, TrajectoryRecorder(tmp_path / "parent.json") as recorder:
        ask(recorder.wrap(client(f"{server.url}/v1")))
    with (
        replay(tmp_path / "parent.json") as again,
        TrajectoryRecorder(tmp_path / "replay.json", session="chat 7") as recorder,
    ):
        ask(recorder.wrap(again.wrap(client())))

    kept = _Feedback()
    with serving(kept) as address:
        invoke("export", tmp_path / "replay.json", "--format", "langsmith", "--endpoint", address)

    [call] = [run for run in kept.runs if run["run_type"] == "llm"]
    usage = call["outputs"]["usage_metadata"]
    assert [usage[name] for name in ("input_tokens", "output_tokens", "total_tokens")] == [0, 0, 0]
    (tmp_path / "sent.json").write_text(json.dumps({"post": kept.runs, "patch": []}), encoding="utf-8")
    read = load(tmp_path / "sent.json")
    assert [call.replayed_from for call in read.llm_interactions] == [
        call.replayed_from for call in load(tmp_path / "replay.json").llm_interactions
    ]
    assert (read.status, read.metrics["llm_calls"], read.session) == ("completed", 0, "chat 7")
    assert [run["extra"]["metadata"].get("session_id") for run in kept.runs if "parent_run_id" not in run] == ["chat 7"]
