"""The members of a document before its calls and after its steps, read without the members in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.document_ends import HEAD_BYTES, MAX_BYTES, TAIL_BYTES, document_ends

LONG = 'long "llm_interactions": [ \n"success": true, "status": "x"} '


def written(path: Path, task: str = "ask", result: str = "done", note: object = None) -> Path:
    """A document that a recorder wrote."""
    with TrajectoryRecorder(path, task=task, metadata={"note": note}) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": LONG}], {"content": LONG}, "openai", "m")
        recorder.record_agent_step(1, "thinking", tool_results=[{"call_id": "c", "success": True, "result": LONG}])
        recorder.finalize(success=True, final_result=result)
    return path


@pytest.mark.parametrize("task", ["ask", LONG, LONG * (HEAD_BYTES // 8)])
@pytest.mark.parametrize("result", ["done", LONG, LONG * (TAIL_BYTES // 8)])
def test_both_ends_equal_those_of_the_whole_document(task: str, result: str, tmp_path: Path) -> None:
    """The result is correct for long ends, and for texts that look like members."""
    path = written(tmp_path / "run.json", task, result, {"success": True, "llm_interactions": [LONG]})
    whole = json.loads(path.read_bytes())
    del whole["llm_interactions"], whole["agent_steps"]

    assert document_ends(path) == whole


def test_the_middle_of_a_document_is_not_read(tmp_path: Path) -> None:
    """Both ends of a document can be read although its calls are not valid JSON."""
    path = written(tmp_path / "run.json")
    ends = document_ends(path)
    data = path.read_bytes()
    at = data.index(b'"llm_interactions": [') + len(b'"llm_interactions": [')
    path.write_bytes(data[:at] + b"\xff{" * TAIL_BYTES + data[at:])

    assert ends is not None
    assert document_ends(path) == ends


def test_the_ends_of_a_running_run_say_that_it_runs(tmp_path: Path) -> None:
    """The document of a running run has the same form."""
    with TrajectoryRecorder(tmp_path / "run.json", task="ask") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
        recorder.save_trajectory()
        ends = document_ends(tmp_path / "run.json")

    assert ends is not None
    assert (ends["task"], ends["status"], ends["end_time"]) == ("ask", "running", None)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_in_another_form_has_no_ends(indent: int | None, tmp_path: Path) -> None:
    """Such a document has no readable ends, and must be read as a whole."""
    path = written(tmp_path / "run.json")
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=indent), encoding="utf-8")

    assert document_ends(path) is None
    assert load(path).task == "ask"


def test_a_truncated_document_has_no_ends(tmp_path: Path) -> None:
    """The document is cut at every byte."""
    path = written(tmp_path / "run.json")
    data = path.read_bytes().rstrip()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        assert document_ends(path) is None


def test_ends_beyond_the_limit_are_not_searched_for(tmp_path: Path) -> None:
    """The limit bounds the time for each file."""
    path = written(tmp_path / "run.json", result="x" * (8 * MAX_BYTES))

    assert document_ends(path) is None


def test_a_missing_file_raises(tmp_path: Path) -> None:
    """A missing file raises FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        document_ends(tmp_path / "none.json")
