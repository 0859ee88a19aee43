"""Scores that a service refuses: the other runs and the other scores are sent, and the command says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.imports.services.stand_ins import StandIn, serving
from trace_recorder import TrajectoryRecorder

PROJECT = "00000000-0000-0000-0000-000000000007"


class _Feedback(StandIn):
    """LangSmith, which refuses feedback of some names, and notes what it took."""

    def __init__(self) -> None:
        super().__init__(0)
        self.refused = {"bad"}
        self.taken: list[str] = []
        self.batches = 0

    def answer(self, path: str, given: dict[str, Any]) -> tuple[int, Any]:
        if path.endswith("/info"):
            return 200, {"batch_ingest_config": {"use_multipart_endpoint": False}}
        if path.endswith("/sessions"):
            project = {"id": PROJECT, "tenant_id": PROJECT, "name": "default"}
            return 200, [project | {"start_time": "2025-10-09T00:00:00", "reference_dataset_id": None}]
        if not path.endswith("/feedback"):
            self.batches += 1
            return 202, {}
        if given["key"] in self.refused:
            return 422, {"detail": "no such key"}
        assert given["session_id"] == PROJECT
        self.taken.append(given["key"])
        return 200, {"id": given["id"], "key": given["key"], "score": given["score"]}


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
