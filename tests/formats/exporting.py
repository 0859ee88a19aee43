"""Exports of a run by the name of the format. Only media are written to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.formats.format_writer import EXPORT_FORMATS, OutputPlace
from trace_recorder.values.trajectory import Trajectory


def exported(name: str, trajectory: Trajectory, directory: Path = Path(), form: str | None = None) -> list[Any]:
    """Return the documents, the rows or the sessions of an export. The lines of OTLP are one element each."""
    format_ = EXPORT_FORMATS[name]
    pieces, _ = format_.outputs(format_.with_options(form), trajectory, OutputPlace("run", directory))
    contents = [content if isinstance(content, str | bytes | dict | list) else [*content] for _, content in pieces]
    return contents[0] if name == "otlp" else contents


def check_exports(trajectory: Trajectory, directory: Path) -> None:
    """Export a run in every format. Some formats need a call."""
    for name in EXPORT_FORMATS:
        try:
            exported(name, trajectory, directory)
        except EmptyTrajectoryError:
            assert name in {"atif", "hierarchy"}
