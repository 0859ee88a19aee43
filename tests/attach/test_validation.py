"""`trace_recorder.validate` in the way users call it."""

from __future__ import annotations

from pathlib import Path

from tests.processes import python
from trace_recorder import TrajectoryRecorder, validate


def test_a_complete_run_has_no_findings(tmp_path: Path) -> None:
    """`validate` finds nothing in an ended run, whether its document or its journal is named."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.annotate("key", "value")

    reports = [validate(path) for path in (recorder.trajectory_path, tmp_path / "run.jsonl")]
    assert [(report.ok, report.findings, report.records) for report in reports] == [(True, (), 3)] * 2


def test_a_changed_line_is_found(tmp_path: Path) -> None:
    """`validate` reports a record whose content was changed as an error."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.annotate("key", "value")
    journal = tmp_path / "run.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"value":"value"', b'"value":"other"'))

    report = validate(str(journal))

    assert (report.ok, [finding.severity for finding in report.findings][:1]) == (False, ["error"])


def test_the_package_imports_no_schemas() -> None:
    """Importing the package imports no schemas. The first use of `validate` does, without pydantic."""
    code = """
import sys
import trace_recorder

print("trace_recorder.reading.schemas" in sys.modules)
try:
    trace_recorder.validate("missing.json")
except FileNotFoundError:
    print("trace_recorder.reading.schemas" in sys.modules, "pydantic" in sys.modules)
"""

    assert python(code).stdout.split() == ["False", "True", "False"]
