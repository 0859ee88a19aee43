"""The runs at several paths, with what the indexes of directories know of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from trace_recorder.catalog.planning import Planned, plan
from trace_recorder.catalog.query import Term
from trace_recorder.cli.read_files import UnreadableError, each_once, error_message, is_directory


def planned_runs(paths: Sequence[Path], terms: Sequence[Term] = (), index: Path | None = None) -> Iterator[Planned]:
    """Yield the runs that paths name, each once, as `plan` does those of a directory. Raises UnreadableError."""
    return each_once(paths, lambda path: _planned_at(path, terms, index), lambda one: one.path)


def _planned_at(path: Path, terms: Sequence[Term], index: Path | None) -> Iterator[Planned]:
    if not is_directory(path):
        yield Planned(path)
        return
    try:
        yield from plan(path, terms, index)
    except OSError as error:
        raise UnreadableError(error_message(path, error)) from error
