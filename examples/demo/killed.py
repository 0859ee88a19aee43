"""A recorded run that is killed with SIGKILL half way, to show what is on file afterwards.

The parent (`run_and_kill`) makes the local provider stall in the middle of a streamed answer, and then kills the child,
which is this module run as a program. The calls that the child finished, and its open call, must be on file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from examples.demo.recorded import record
from examples.demo.runs import Job
from trace_recorder import load

if TYPE_CHECKING:
    from examples.demo.local_provider import LocalProvider

FINISHED_CALLS = 4
START_SECONDS = 60.0

REPOSITORY = Path(__file__).resolve().parents[2]


class ChildError(Exception):
    """The child did not reach the call in which it was to be killed."""


def run_and_kill(provider: LocalProvider, directory: Path) -> Path:
    """Start a run in a child process, kill it in the call after the last finished one, and return its file."""
    path = directory / "killed.json"
    provider.stall_at(provider.hits + FINISHED_CALLS + 1)
    with tempfile.TemporaryDirectory(prefix="killed-") as scratch:
        command = [sys.executable, "-m", "examples.demo.killed", provider.url, str(path.resolve())]
        places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch)
        child = subprocess.Popen(command, cwd=REPOSITORY, env=os.environ | places)
        try:
            _wait(child, lambda: provider.wait_until_stalled(0.1), f"come to call {FINISHED_CALLS + 1}")
            _wait(child, lambda: _has_half(path), "the half of its answer on file")
        finally:
            child.kill()
            child.wait()
            provider.release()
    return path


def _wait(child: subprocess.Popen[bytes], has_happened: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true. `what` completes the message "the run to be killed had not …"."""
    deadline = time.monotonic() + START_SECONDS
    while not has_happened():
        if child.poll() is not None:
            raise ChildError(f"the run to be killed ended by itself, with exit code {child.returncode}")
        if time.monotonic() > deadline:
            raise ChildError(f"the run to be killed had not {what} in {START_SECONDS} s")
        time.sleep(0.05)


def _has_half(path: Path) -> bool:
    """Return whether the received half of the answer is on file. The recorder writes a stream every second."""
    response = load(path).llm_interactions[FINISHED_CALLS].response
    return bool(response and response.content)


def main(endpoint: str, path: Path) -> None:
    """Run the child: an ordinary run, which does not know that it will be killed."""
    job = Job("anthropic", "streaming", "local-model", endpoint, key="local-key", thinking=True)
    record(job, path.parent, path)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
