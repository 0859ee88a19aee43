"""Rewards after the end of a run: the journal gets them as records under its lock, and keeps its earlier bytes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.chat_calls import rich_run
from tests.data.written import Writing, change
from tests.journals import RawRecord, read_raw
from tests.processes import ROOT
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.errors import RecorderStateError, TrajectoryFormatError
from trace_recorder.reading.validate import validate
from trace_recorder.recording.amend import append_annotation, append_end, append_rewards

GOOD = {"name": "judge", "value": 0.5, "weight": 2.0, "explanation": "half of it"}


def test_a_reward_is_appended_and_the_other_bytes_stay(tmp_path: Path) -> None:
    """A reward adds one record with the next number to the journal.

    The document then shows the reward, and is valid.
    """
    document = rich_run(tmp_path / "run.json")
    journal = document.with_suffix(".jsonl")
    before = journal.read_bytes()

    append_rewards(document, [GOOD])

    assert journal.read_bytes().startswith(before)
    [added] = read_raw(journal.read_bytes()[len(before) :])
    assert isinstance(added, RawRecord)
    assert (added.seq, added.kind, added.data) == (before.count(b"\n") + 1, "reward", {**GOOD, "step_number": None})
    assert json.loads(document.read_bytes())["rewards"][-1] == {**GOOD, "timestamp": added.time}
    assert validate(document).ok


def test_a_run_with_a_reward_is_otherwise_unchanged(tmp_path: Path) -> None:
    """A reward after the end changes neither the status, the end, the steps nor the calls of the run."""
    document = rich_run(tmp_path / "run.json")
    before = load(document).to_document()

    append_rewards(document.with_suffix(".jsonl"), [GOOD, GOOD])

    after = load(document).to_document()
    for name in ("rewards", "journal_records"):
        added = {"rewards": len}.get(name, int)
        assert added(after.pop(name)) == added(before.pop(name)) + 2  # type: ignore[operator]
    assert after == before


def test_a_run_that_is_still_recorded_is_refused(tmp_path: Path) -> None:
    """While a recorder has the journal, another process cannot add a reward."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="go on")
    recorder.start()
    before = recorder.trajectory_path.with_suffix(".jsonl").read_bytes()

    with pytest.raises(RecorderStateError, match="still being written"):
        append_rewards(recorder.trajectory_path, [GOOD])

    assert recorder.trajectory_path.with_suffix(".jsonl").read_bytes() == before
    recorder.finalize()


def test_an_interrupted_run_may_be_scored(tmp_path: Path) -> None:
    """A run whose process died can get a reward.

    It stays interrupted, and its torn last line is ended before the new record.
    """
    code = "import os, sys; from trace_recorder import TrajectoryRecorder as R; R(sys.argv[1]).start(); os._exit(1)"
    path = tmp_path / "run.json"
    subprocess.run([sys.executable, "-c", code, str(path)], env={"PYTHONPATH": str(ROOT)}, check=False)
    with path.with_suffix(".jsonl").open("ab") as journal:
        journal.write(b'{"seq":2,"time":"2025')

    append_rewards(path, [GOOD])

    run = load(path)
    assert (run.status, [reward.name for reward in run.rewards]) == ("interrupted", ["judge"])
    assert json.loads(path.read_bytes())["status"] == "interrupted"


def test_a_run_of_a_second_host_may_be_scored_if_it_has_an_end(tmp_path: Path) -> None:
    """A run of another host can get a reward only if it has an end, because it may still be recorded there."""
    open_run, ended = Writing(tmp_path / "open.jsonl"), Writing(tmp_path / "ended.jsonl")
    ended.add("finalize", status="completed", success=True, final_result=None, execution_time=1.0)
    for writing in (open_run, ended):
        writing.journal.close()

    append_rewards(ended.path, [GOOD])
    with pytest.raises(RecorderStateError, match="another host"):
        append_rewards(open_run.path, [GOOD])

    assert [reward.name for reward in load(ended.path).rewards] == ["judge"]


def test_a_document_without_a_journal_is_refused(tmp_path: Path) -> None:
    """A document without a journal cannot get a reward, and stays unchanged."""
    document = rich_run(tmp_path / "run.json")
    document.with_suffix(".jsonl").unlink()
    before = document.read_bytes()

    with pytest.raises(RecorderStateError, match="no journal next to it"):
        append_rewards(document, [GOOD])

    assert document.read_bytes() == before


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """A journal of a newer version cannot get a reward, because this version cannot read its records."""
    writing = Writing(tmp_path / "run.jsonl")
    writing.journal.close()
    change(writing.path, lambda record: record["data"].update(version=99))

    with pytest.raises(TrajectoryFormatError, match="version 99"):
        append_rewards(writing.path, [GOOD])


def test_secrets_in_an_explanation_are_masked(tmp_path: Path) -> None:
    """A secret in the explanation of a reward is masked and counted."""
    document = rich_run(tmp_path / "run.json")
    before = load(document).metrics["redactions"]

    append_rewards(document, [{**GOOD, "explanation": "it used sk-proj-abcdefghijklmnopqrstuvwxyz123456"}])

    assert "sk-proj-abcdefghijklmnopqrstuvwxyz" not in document.read_text() + document.with_suffix(".jsonl").read_text()
    assert load(document).metrics["redactions"] == before + 1


def test_any_text_may_be_a_key(tmp_path: Path) -> None:
    """Half of a surrogate pair in a key is escaped, as during the run, and both files stay valid."""
    keys, path = ("\ud800", "half \udfff", "é"), tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        for key in keys:
            recorder.annotate(f"{key} during the run", 1)
    for key in keys:
        append_annotation(path, f"{key} later", 1)

    written = ["\\ud800", "half \\udfff", "é"]
    assert list(load(path).annotations) == [f"{key} {when}" for when in ("during the run", "later") for key in written]
    assert validate(path).ok


def test_a_document_with_deltas_keeps_its_form(tmp_path: Path) -> None:
    """A document whose history was written as deltas still has deltas after a reward."""
    with TrajectoryRecorder(tmp_path / "run.json", history="delta") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "p", "m")

    append_rewards(tmp_path / "run.json", [GOOD])

    assert json.loads((tmp_path / "run.json").read_bytes())["history"] == "delta"


def test_the_exit_of_the_process_is_appended(tmp_path: Path) -> None:
    """An exit code is appended as an annotation.

    A new status replaces that of the run, and the time of its end stays.
    """
    document = rich_run(tmp_path / "run.json")
    before = load(document)

    append_end(document, 0)
    same = load(document)
    append_end(document, 3, "failed", {"type": "SystemExit", "message": "3"})
    after = load(document)

    assert (same.status, same.success, same.final_result) == (before.status, before.success, before.final_result)
    assert (same.annotations["exit_code"], after.annotations["exit_code"]) == (0, 3)
    assert (after.status, after.success, after.error and after.error.type) == ("failed", False, "SystemExit")
    assert after.execution_time == before.execution_time
    assert validate(document).ok


def test_an_appended_end_has_the_seconds_since_the_start(tmp_path: Path) -> None:
    """An end that is appended to a run without an end has the seconds since its start. Other runs keep theirs."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        recorder.annotate("a", 1)
    seconds = json.loads(path.read_bytes())["execution_time"]
    ended = Writing(tmp_path / "ended.jsonl", host=socket.gethostname())
    ended.journal.close()

    append_end(path, 3, "failed")
    append_end(ended.path, 3, "failed")

    start = datetime.fromisoformat(load(ended.path).start_time)
    since = json.loads((tmp_path / "ended.json").read_bytes())["execution_time"]
    assert json.loads(path.read_bytes())["execution_time"] == seconds
    assert abs((datetime.now(UTC) - start).total_seconds() - since) < 60


def test_a_run_without_a_suffix_is_found_by_its_journal(tmp_path: Path) -> None:
    """A reward that is appended to `run.journal.jsonl` is in the document `run`, and no second document is written."""
    with TrajectoryRecorder(tmp_path / "run") as recorder:
        recorder.annotate("a", 1)

    append_rewards(tmp_path / "run.journal.jsonl", [GOOD])

    assert [reward["name"] for reward in json.loads((tmp_path / "run").read_bytes())["rewards"]] == ["judge"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".gitignore") == ["run", "run.journal.jsonl"]
