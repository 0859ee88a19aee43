"""The members of a document before its calls and after its steps, without what is between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder import TrajectoryRecorder, load
from trace_recorder.imports.document_ends import HEAD_BYTES, MAX_BYTES, TAIL_BYTES, document_ends

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
def test_both_ends_are_what_the_whole_document_says(task: str, result: str, tmp_path: Path) -> None:
    """The result is right for long ends, and for texts that look like members."""
    path = written(tmp_path / "run.json", task, result, {"success": True, "llm_interactions": [LONG]})
    whole = json.loads(path.read_bytes())
    del whole["llm_interactions"], whole["agent_steps"]

    assert document_ends(path) == whole


def test_what_is_between_the_ends_is_not_read(tmp_path: Path) -> None:
    """A document whose calls are no JSON has both its ends."""
    path = written(tmp_path / "run.json")
    ends = document_ends(path)
    data = path.read_bytes()
    at = data.index(b'"llm_interactions": [') + len(b'"llm_interactions": [')
    path.write_bytes(data[:at] + b"\xff{" * TAIL_BYTES + data[at:])

    assert ends is not None
    assert document_ends(path) == ends


def test_of_a_running_run_the_ends_say_so(tmp_path: Path) -> None:
    """The document is the same during a run."""
    with TrajectoryRecorder(tmp_path / "run.json", task="ask") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
        recorder.save_trajectory()
        ends = document_ends(tmp_path / "run.json")

    assert ends is not None
    assert (ends["task"], ends["status"], ends["end_time"]) == ("ask", "running", None)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_in_another_form_has_no_ends(indent: int | None, tmp_path: Path) -> None:
    """The document must be read as a whole."""
    path = written(tmp_path / "run.json")
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=indent), encoding="utf-8")

    assert document_ends(path) is None
    assert load(path).task == "ask"


def test_a_document_that_is_cut_off_has_no_ends(tmp_path: Path) -> None:
    """The document may be cut off at any byte."""
    path = written(tmp_path / "run.json")
    data = path.read_bytes().rstrip()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        assert document_ends(path) is None


def test_ends_beyond_the_limit_are_not_searched_for(tmp_path: Path) -> None:
    """The limit bounds the time for a file."""
    path = written(tmp_path / "run.json", result="x" * (8 * MAX_BYTES))

    assert document_ends(path) is None


def test_a_file_that_is_missing_raises(tmp_path: Path) -> None:
    """The error is that of opening the file."""
    with pytest.raises(FileNotFoundError):
        document_ends(tmp_path / "none.json")
