"""Session traces of the Hugging Face Hub. `tests/formats/pi/test_session_traces.py` tests our own exports of them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.formats.files import PRODUCED, real_files, results_in, said_in
from trace_recorder import load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of

_TRACE = PRODUCED / "session-traces" / "abc123.jsonl"


def test_each_answer_is_a_call_with_its_time_and_model() -> None:
    run = load(_TRACE)
    asked = [("get_time", {"city": "Oslo"}), ("get_time", {"city": "Rome"})]
    assert said_in(run) == [
        {"saw": 2, "text": None, "asked": asked},
        {"saw": 5, "text": "It is 15:00 in both."},
    ]
    assert results_in(run) == [("t1", "get_time", None, "15:00"), ("t2", "get_time", None, "no such city")]
    assert [call.timestamp[11:19] for call in run.llm_interactions] == ["09:46:42", "09:46:44"]
    assert [call.model for call in run.llm_interactions] == ["qwen3-8b"] * 2
    assert run.llm_interactions[0].response.reasoning == "I ask the clock."
    assert run.task == "What time is it in Oslo and Rome?"
    assert run.metadata["imported_from"]["harness"] == "my-agent"


def test_sessions_of_pi_with_a_harness_are_read_as_pi(tmp_path: Path) -> None:
    """The Hub reads such sessions too. Their messages have parts, and each message names its parent."""
    [original, *_] = real_files("pi/teich/*.jsonl")
    header, *lines = original.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join([json.dumps(json.loads(header) | {"harness": "mine"}), *lines]))
    assert format_of(Source(path)) == "pi"


def test_answers_of_our_sessions_without_ids_are_calls(tmp_path: Path) -> None:
    """Sessions of ours that were exported before answers had an `interactionId` keep their calls."""
    header, *lines = _TRACE.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join([json.dumps(json.loads(header) | {"harness": "trace-recorder"}), *lines]))
    assert said_in(load(path)) == said_in(load(_TRACE))
