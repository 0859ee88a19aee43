"""How much memory a separate process needs to read a file: `python -m tests.formats.memory FILE`."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from trace_recorder import TrajectoryFormatError, load_all
from trace_recorder.errors import UnreadableRunsError
from trace_recorder.formats import recognition
from trace_recorder.formats.foreign_runs.source import Source

ROOT = Path(__file__).parents[2]


def peak_bytes() -> int:
    """Return the most memory that this process had so far. On Linux this includes the parent's memory before `exec`."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measured(path: Path) -> dict[str, Any]:
    """Read a file in a separate process. Return the `peak` in bytes, the `gaps` of its runs, and the `error`."""
    command = [sys.executable, "-m", "tests.formats.memory", str(path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def main(path: Path) -> None:
    """Read a file, and print how much memory this took."""
    recognition.format_of(Source(Path(__file__)))  # loads the modules of all formats
    before = peak_bytes()
    gaps: list[str] = []
    calls, error = 0, None
    try:
        for run in load_all(path):
            calls += len(run.llm_interactions)
            gaps += (f"{gap.what}: {gap.why}" for gap in run.gaps)
    except (TrajectoryFormatError, UnreadableRunsError) as refused:
        error = str(refused)
    print(json.dumps({"peak": peak_bytes() - before, "calls": calls, "gaps": gaps, "error": error}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
