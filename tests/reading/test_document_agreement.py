"""The status that a document states, compared with its journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.validate import validate


@pytest.mark.parametrize(("status", "is_error"), [("running", False), ("interrupted", False), ("completed", True)])
def test_the_document_of_a_run_without_an_end_is_not_completed(status: str, is_error: bool, tmp_path: Path) -> None:
    """A document of an earlier part of the journal, or of a killed run, cannot say how the run ended."""
    path = tmp_path / "run.json"
    recorder = TrajectoryRecorder(path)
    recorder.annotate("k", 1)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "status": status}))

    found = [finding.what for finding in validate(path).findings if finding.severity == "error"]

    recorder.finalize()
    assert found == (["it differs from the journal: status"] if is_error else [])
