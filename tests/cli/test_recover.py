"""The command `recover`: the document of a run that was broken off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.data.shown import captured
from trace_recorder import TrajectoryRecorder, load


def test_a_missing_document_is_rebuilt(tmp_path: Path) -> None:
    """It is the one that was there, and the journal is as it was."""
    path = recorded(tmp_path / "run.json")
    before, journal = path.read_bytes(), path.with_suffix(".jsonl").read_bytes()
    path.unlink()

    done = invoke("recover", tmp_path)

    assert (done.exit_code, done.output) == (0, f"{path}: rebuilt\ntrace-recorder: 1 document rebuilt\n")
    assert json.loads(path.read_bytes()) == json.loads(before)
    assert path.with_suffix(".jsonl").read_bytes() == journal


def test_a_journal_with_a_torn_end_gives_a_document(tmp_path: Path) -> None:
    """Of what is on file."""
    path = recorded(tmp_path / "run.json")
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(journal.read_bytes()[:-40])
    path.write_text("")

    assert invoke("recover", journal).exit_code == 0
    document = json.loads(path.read_bytes())
    assert (document["status"], len(document["llm_interactions"])) == ("interrupted", 1)
    assert load(path).to_document() == document


def test_what_cannot_be_rebuilt_is_refused(tmp_path: Path) -> None:
    """A run that goes on, one that may go on elsewhere, and one without a journal; the others are rebuilt."""
    recorded(tmp_path / "whole.json")
    recorded(tmp_path / "alone.json").with_suffix(".jsonl").unlink()
    captured(tmp_path / "elsewhere.jsonl").journal.close()
    with TrajectoryRecorder(tmp_path / "open.json"):
        done = invoke("recover", tmp_path)

    assert done.exit_code == 1
    assert "1 document rebuilt, 3 not" in done.output
    assert "open.jsonl is still being written" in done.output
    assert not (tmp_path / "elsewhere.json").exists()


@pytest.mark.parametrize("content", [b"", b'{"seq":1,"time":"2025-06-12T20:'])
def test_a_journal_without_a_beginning_is_refused(tmp_path: Path, content: bytes) -> None:
    """Nothing is said of other hosts, of which nothing is known."""
    (tmp_path / "run.jsonl").write_bytes(content)
    done = invoke("recover", tmp_path / "run.jsonl")

    assert (done.exit_code, "another host" in done.output) == (1, False)
    assert "run.jsonl has no readable beginning" in done.output
    assert not (tmp_path / "run.json").exists()
