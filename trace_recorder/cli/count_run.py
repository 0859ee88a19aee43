"""The figures of one run, as the command `stats` sums them up; a process of its own may work it out."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from trace_recorder.cli.read_files import UnreadableError, error_message, read
from trace_recorder.guard import try_call
from trace_recorder.views.stats import Stats


def count_run(path: Path) -> Stats | UnreadableError:
    """Return the figures of one run, or why it cannot be counted: one that cannot be to its end is not at all."""
    return try_call(partial(_count, path), partial(_describe, path))


def _count(path: Path) -> Stats | UnreadableError:
    one = Stats()
    one.add(read(path))
    one.to_json()
    return one


def _describe(path: Path, error: Exception) -> UnreadableError:
    return error if isinstance(error, UnreadableError) else UnreadableError(error_message(path, error, "counted"))
