"""Missing lines: `load` reports them as `validate` does, during the run and afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chat_calls import asked, call, rich_run, said
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate


def without(path: Path, *numbers: int) -> None:
    """Remove lines from a journal, by their numbers."""
    journal = path.with_suffix(".jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for at, line in enumerate(lines, start=1) if at not in numbers))


@pytest.mark.parametrize(
    ("numbers", "why"),
    [((1,), "record 1 is missing"), ((9,), "record 9 is missing"), ((8, 9, 10), "records 8 to 10 are missing")],
)
def test_missing_numbers_are_a_gap(tmp_path: Path, numbers: tuple[int, ...], why: str) -> None:
    """A line that somebody removed is reported once. `validate` reports the same as `load`."""
    path = rich_run(tmp_path / "run.json")
    without(path, *numbers)

    told = [gap.why for gap in load(path).gaps if gap.what == "lines of the journal"]
    found = [finding.what for finding in validate(path).findings if finding.what.startswith("missing before it")]
    assert told == [why]
    assert found == [f"missing before it: {why.rpartition(' is')[0] or why.rpartition(' are')[0]}"]


def test_a_damaged_line_is_reported_once(tmp_path: Path) -> None:
    """The number of a damaged line is not reported as missing too."""
    path = rich_run(tmp_path / "run.json")
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'"lakeview_step"', b'"lakeview_stop"'))

    assert [gap.what for gap in load(path).gaps] == ["a damaged line of the journal", "read the clock"]


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_a_truncated_journal_is_detected_by_its_document(tmp_path: Path, kept: int) -> None:
    """If the document has an end that its journal lacks, the run has a gap, even if the journal is empty."""
    path = rich_run(tmp_path / "run.json")
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:kept]))

    assert [gap.why for gap in load(path).gaps if gap.what == "lines of the journal"] == [
        "its end is missing, but the document beside it states that the run is completed"
    ]


def test_an_unfinished_run_has_no_missing_lines(tmp_path: Path) -> None:
    """While a run is written, and after a crash, no line counts as missing."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    call(recorder, asked("x"), said("y"))

    assert load(recorder.trajectory_path).gaps == ()
    recorder.finalize()


def test_a_document_of_a_sliding_history_is_valid(tmp_path: Path) -> None:
    """A document with deltas of a sliding history is valid, and agrees with its journal."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path, history="delta") as recorder:
        for first in (1, 3, 5):
            call(recorder, asked("system", *(f"message {number}" for number in range(first, first + 9))), said("y"))

    text = path.read_text()
    assert '"kept":[[' in text
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
    path.write_text(text.replace("message 13", "message 31"))
    assert [finding.where for finding in validate(path).findings if finding.severity == "error"] == ["document"]


def test_a_runaway_recursion_leaves_valid_records(tmp_path: Path) -> None:
    """A value that cannot be recorded because the stack is full is a gap, and every record matches its schema."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:

        @recorder.tool
        def deeper(level: int, more: object = None) -> int:
            return deeper(level + 1, {"more": [level]})

        with pytest.raises(RecursionError):
            deeper(0)

    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
    assert {gap.what for gap in load(path).gaps} <= {"record a tool call", "record a tool result", "write the document"}
