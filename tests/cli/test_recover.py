"""The command `recover`: the document of a run that was broken off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.data.shown import captured
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.errors import RecorderStateError
from trace_recorder.recording.amend import append_rewards


def test_a_missing_document_is_rebuilt(tmp_path: Path) -> None:
    """The document equals the earlier one, and the journal is unchanged."""
    path = recorded(tmp_path / "run.json")
    before, journal = path.read_bytes(), path.with_suffix(".jsonl").read_bytes()
    path.unlink()

    done = invoke("recover", tmp_path)

    assert (done.exit_code, done.output) == (0, f"{path}: rebuilt\ntrace-recorder: 1 document rebuilt\n")
    assert json.loads(path.read_bytes()) == json.loads(before)
    assert path.with_suffix(".jsonl").read_bytes() == journal


def test_a_journal_with_a_torn_end_gives_a_document(tmp_path: Path) -> None:
    """`recover` writes a document of the records before a torn last line."""
    path = recorded(tmp_path / "run.json")
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(journal.read_bytes()[:-40])
    path.write_text("")

    assert invoke("recover", journal).exit_code == 0
    document = json.loads(path.read_bytes())
    assert (document["status"], len(document["llm_interactions"])) == ("interrupted", 1)
    assert load(path).to_document() == document


def test_recover_refuses_runs_that_it_cannot_rebuild(tmp_path: Path) -> None:
    """`recover` refuses a run that goes on, a run that may go on on another host, and a run without a journal, and
    rebuilds the others.
    """
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
def test_a_journal_without_a_readable_beginning_is_refused(tmp_path: Path, content: bytes) -> None:
    """The message does not mention other hosts, because no host is known."""
    (tmp_path / "run.jsonl").write_bytes(content)
    done = invoke("recover", tmp_path / "run.jsonl")

    assert (done.exit_code, "another host" in done.output) == (1, False)
    assert "run.jsonl has no readable beginning" in done.output
    assert not (tmp_path / "run.json").exists()


def _with_a_damaged_line(path: Path, kind: str) -> None:
    """Flip one byte in the first record of a kind."""
    journal = path.with_suffix(".jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if f'"{kind}"'.encode() in line)
    lines[at] = lines[at].replace(b'"time"', b'"tyme"', 1)
    journal.write_bytes(b"".join(lines))


def test_a_document_is_not_replaced_by_a_document_with_less(tmp_path: Path) -> None:
    """If the journal has a bad byte, `recover` names the gap and keeps the document. `--force` replaces the
    document.
    """
    path = recorded(tmp_path / "run.json")
    before = path.read_bytes()
    _with_a_damaged_line(path, "llm_interaction")

    refused = invoke("recover", tmp_path)
    assert (refused.exit_code, path.read_bytes()) == (1, before)
    assert "less than the document: provider, model, llm_interactions" in refused.output
    assert [file.name for file in tmp_path.iterdir() if file.name.endswith(".tmp")] == []

    assert invoke("recover", "--force", tmp_path).exit_code == 0
    assert json.loads(path.read_bytes())["llm_interactions"] == []


def test_a_reward_of_a_damaged_run_is_added_to_its_journal_only(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.json")
    before = path.read_bytes()
    _with_a_damaged_line(path, "finalize")

    with pytest.raises(RecorderStateError, match=r"The new records are in run\.jsonl.*end_time"):
        append_rewards(path, [{"name": "judge", "value": 1.0}])

    assert (path.read_bytes(), [reward.name for reward in load(path).rewards]) == (before, ["judge"])


def test_a_document_without_a_journal_cannot_be_rebuilt(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.json")
    path.with_suffix(".jsonl").unlink()
    done = invoke("recover", path)
    assert (done.exit_code, "no journal next to it (run.jsonl) from which it can be rebuilt" in done.output) == (
        1,
        True,
    )
