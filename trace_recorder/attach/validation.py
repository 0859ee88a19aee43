"""Validation for users. Its modules are imported by the first call, because few programs validate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trace_recorder.derive.validate import Report


def validate(path: str | Path) -> Report:
    """Check that the files of a run are complete, have the right form, and agree with each other.

    `path` is either file. Nothing is written. The report has `ok`, and `findings`, each with `severity`, `where` and
    `what`. Raises OSError if the file cannot be read. Every fault of the file's content is a finding.
    """
    from trace_recorder.derive import validate as validation  # noqa: PLC0415 - few programs validate

    return validation.validate(path)
