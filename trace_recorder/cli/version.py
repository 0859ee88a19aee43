"""What `--version` prints, which needs nothing that is slow to import."""

from __future__ import annotations

from trace_recorder.version import __version__


def version() -> str:
    """Return the name and the version of the program."""
    return f"trace-recorder {__version__}"
