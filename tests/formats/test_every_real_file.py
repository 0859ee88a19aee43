"""Every real file of another tool passes the same checks as our own runs: validation, and each export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import check_run, real_files
from trace_recorder import TrajectoryFormatError
from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format_writer import EXPORT_FORMATS, OutputPlace
from trace_recorder.formats.imported_runs import runs_in
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.trajectory import Trajectory

_EMPTY = ("2025-05-12_no-samples.json",)
"""Files in a known format that have no run."""


_TOOLS = (
    *("atif", "claude-code", "codex", "gemini-cli", "inspect", "langfuse", "langsmith", "llm", "mini-swe-agent"),
    *("mlflow", "opencode", "openhands-v0", "openhands-v1", "others", "otel", "phoenix", "pi", "swe-agent"),
    *("tau-bench", "trae-agent"),
)


@pytest.mark.parametrize("tool", _TOOLS)
def test_each_run_is_valid_and_can_be_exported(tool: str, tmp_path: Path) -> None:
    read = 0
    for path in real_files(f"{tool}/**/*"):
        if format_of(Source(path)) is None:
            continue
        if path.name in _EMPTY:
            with pytest.raises(TrajectoryFormatError, match="no sample"):
                next(runs_in(Source(path)))
            continue
        for run in runs_in(Source(path)):
            read += 1
            check_exports(check_run(run, tmp_path), tmp_path / "exports")
    assert read


def check_exports(trajectory: Trajectory, directory: Path) -> None:
    for name, format_ in EXPORT_FORMATS.items():
        try:
            pieces, _ = format_.outputs(format_.with_options(), trajectory, OutputPlace("run", directory))
            for _, content in pieces:
                _read_to_the_end(content)
        except EmptyTrajectoryError:
            assert name in {"atif", "hierarchy"}


def _read_to_the_end(content: Any) -> None:
    if not isinstance(content, bytes | str | dict | list):
        assert sum(1 for _ in content) >= 0
