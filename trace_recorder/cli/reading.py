"""Reading files for the command line: what cannot be read is a sentence for people, never a traceback.

Whatever goes wrong with a file, an unknown failure of a reader among it, is told of that file, and stops nothing else.
"""

from __future__ import annotations

from pathlib import Path

from trace_recorder.errors import TraceRecorderError
from trace_recorder.guard import attempt
from trace_recorder.load import load
from trace_recorder.trajectory import Trajectory


class UnreadableError(Exception):
    """A file that cannot be shown; the message says which, and why."""


def read(path: Path) -> Trajectory:
    """Read a trajectory from either of its files. Raises UnreadableError."""
    return attempt(lambda: load(path), lambda error: _refuse(path, error))


def _refuse(path: Path, error: Exception) -> Trajectory:
    raise UnreadableError(reason(path, error)) from error


def reason(path: Path, error: Exception) -> str:
    """Tell why a file cannot be read."""
    if isinstance(error, OSError) and error.strerror:
        return f"{path}: {error.strerror}"
    if isinstance(error, TraceRecorderError):
        return str(error)
    return f"{path} cannot be read: {type(error).__name__}: {error}"
