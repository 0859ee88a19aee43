"""Imports of whole files into a directory, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.imported_runs import Imported, read_file, write_run


def import_file(source: Source, directory: Path) -> Iterator[Imported]:
    """Write each run of a file to a directory, and yield the result of each import."""
    return (write_run(run, directory) for run in read_file(source))
