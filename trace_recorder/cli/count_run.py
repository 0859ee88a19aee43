"""The figures of one run, which the command `stats` adds up. A separate process may compute them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from trace_recorder.cli.read_files import UnreadableError, process_or_error, read
from trace_recorder.views.stats import Stats


def count_run(path: Path) -> Stats | UnreadableError:
    """Return the figures of one run, or why it cannot be counted. A run is counted as a whole or not at all."""
    return process_or_error(path, partial(_count, path), "counted")


def _count(path: Path) -> Stats:
    one = Stats()
    one.add(read(path))
    one.to_json()
    return one
