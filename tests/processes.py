"""Python in separate processes, and the open files of this process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]


FORKS_WITH_THREADS = "ignore:This process:DeprecationWarning"
"""For PYTHONWARNINGS: since 3.12 Python warns of a fork beside threads, which a run has: docs/known-faults.md."""


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def open_below(place: Path) -> list[str]:
    """Return the names of the files in a directory that this process has open, including removed files."""
    names = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # another thread has closed the file meanwhile
            names.append(str(link.readlink()))
    return [name for name in names if name.startswith(str(place))]
