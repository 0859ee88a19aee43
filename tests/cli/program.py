"""The program, run as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys


def program(*arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Return the command line as a program in a process of its own."""
    command = [sys.executable, "-m", "trace_recorder", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environment})
