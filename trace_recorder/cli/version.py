"""The output of `--version`. It imports nothing slow."""

from __future__ import annotations

from trace_recorder.version import __version__


def version() -> str:
    """Return the name and the version of the program."""
    return f"trace-recorder {__version__}"
