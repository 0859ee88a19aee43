"""Show recorded runs by the command line tool, and print each command as a user would type it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path


def show(command: str, path: Path, *options: str) -> None:
    """Call `trace-recorder COMMAND PATH OPTION …`. Its output goes where the output of this process goes."""
    print("\n$", program(), command, path, *options, flush=True)
    if importlib.util.find_spec("trace_recorder.cli") is None:
        print(*(sorted(path.glob("*.json")) if path.is_dir() else [path]), sep="\n")
        return
    subprocess.run([sys.executable, "-m", "trace_recorder", command, str(path), *options], check=True)


def program() -> str:
    """Return the command as a user would type it: that of this environment, or else the name on the PATH."""
    program = Path(sys.executable).with_name("trace-recorder")
    if not program.exists():
        return program.name
    here = Path.cwd()
    return str(program.relative_to(here) if program.is_relative_to(here) else program)
