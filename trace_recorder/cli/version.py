"""The name and the version of the program, which need nothing that is slow to import."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of


def version() -> str:
    """Return what `--version` prints."""
    try:
        return f"trace-recorder {version_of('trace-recorder')}"
    except PackageNotFoundError:
        return "trace-recorder (not installed)"
