"""Recorded runs shown by the command line tool, each command printed as one can type it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path


def show(command: str, path: Path) -> None:
    """Call `trace-recorder COMMAND PATH`, with its output where ours goes."""
    print(f"\n$ {program()} {command} {path}", flush=True)
    if importlib.util.find_spec("trace_recorder.cli") is None:
        print(*(sorted(path.glob("*.json")) if path.is_dir() else [path]), sep="\n")
        return
    subprocess.run([sys.executable, "-m", "trace_recorder", command, str(path)], check=True)


def program() -> str:
    """Return the command as one can type it: that of this environment if there is one, else the name on the PATH."""
    program = Path(sys.executable).with_name("trace-recorder")
    if not program.exists():
        return program.name
    here = Path.cwd()
    return str(program.relative_to(here) if program.is_relative_to(here) else program)
