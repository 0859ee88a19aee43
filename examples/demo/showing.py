"""Recorded runs shown by the command line tool, each command printed as one would type it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def show(command: str, path: Path) -> None:
    """Call `trace-recorder COMMAND PATH`, with its output where ours goes."""
    print(f"\n$ trace-recorder {command} {path}", flush=True)
    if importlib.util.find_spec("trace_recorder.cli") is None:
        print(*(sorted(path.glob("*.json")) if path.is_dir() else [path]), sep="\n")
        return
    subprocess.run([sys.executable, "-m", "trace_recorder.cli", command, str(path)], check=True)
