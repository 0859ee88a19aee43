"""Real files of other tools, read where they lie, and what holds of every run that is read from one.

They are no part of the project: where they are absent, the tests that need them skip, and say so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_recorder.derive.fold import Fold
from trace_recorder.derive.validate import validate
from trace_recorder.imports.foreign.formats import Source, journal_lines, read_runs
from trace_recorder.imports.foreign.run import Call, ForeignRun
from trace_recorder.imports.loader import load_lines
from trace_recorder.storage.journal_reader import Record, read
from trace_recorder.values.trajectory import Trajectory

DIRECTORY = Path(os.environ.get("TRACE_RECORDER_FOREIGN", Path(__file__).parents[4] / "shared" / "foreign"))


def real_files(pattern: str) -> list[Path]:
    """Return the real files that match, in order. Skips the test where there are none."""
    found = sorted(path for path in DIRECTORY.glob(pattern) if path.is_file())
    if not found:
        pytest.skip(f"there is no {pattern} in {DIRECTORY}")
    return found


def runs_of(path: Path) -> list[ForeignRun]:
    """Read the runs of a file as its format's module describes them."""
    return [*read_runs(Source(path))]


def loaded(path: Path) -> Iterator[Trajectory]:
    """Load each run of a file."""
    for run in runs_of(path):
        yield load_lines(journal_lines(run), path)


def check_run(run: ForeignRun, directory: Path) -> Trajectory:
    """Check what holds of every imported run, and return it.

    Its journal and document are valid, each call has the messages that the source gave it, and nothing is lost.
    """
    path = directory / f"{len([*directory.iterdir()])}.jsonl"
    path.write_bytes(b"".join(journal_lines(run)))
    records = [*read(path.read_bytes())]
    assert all(isinstance(record, Record) for record in records)
    fold = Fold()
    for record in records:
        fold.add(record)
    trajectory = fold.trajectory("unknown")
    assert [gap for gap in trajectory.gaps if "could not" in gap.what or "damaged" in gap.what] == []
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
    calls = [event for event in run.events if isinstance(event, Call)]
    assert len(trajectory.llm_interactions) == len(calls)
    for one, call in zip(trajectory.llm_interactions, calls, strict=True):
        assert len(one.input_messages) == call.length
    return trajectory
