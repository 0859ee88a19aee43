"""The clocks of a lap, read in the contender's own process: time, CPU of all threads and of the calling thread, memory,
files.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.request import urlopen


class Window:
    """The clock time and the CPU time of a `with` block.

    `at_start` and `at_end` are called outside of it, next to the clocks, to switch a counter of instructions.
    """

    def __init__(self, at_start: Callable[[], None], at_end: Callable[[], None]) -> None:
        self._at_start = at_start
        self._at_end = at_end

    def __enter__(self) -> Self:
        gc.collect()
        self._at_start()
        self._thread, self._cpu, self._wall = time.thread_time(), time.process_time(), time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        wall, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
        self._finish_wall, self._finish_cpu = wall - self._finish[1], thread - self._finish[0]
        self._wall, self._cpu, self._thread = wall - self._wall, cpu - self._cpu, thread - self._thread
        self._at_end()

    def finishes(self) -> None:
        """Note the end of the calls, before the end of the run."""
        self._finish = time.thread_time(), time.perf_counter()

    def figures(self) -> dict[str, float]:
        """Return the seconds by the clock, of CPU, and of CPU in other threads, and how much of each the end took."""
        return {
            "wall": self._wall,
            "cpu": self._cpu,
            "background": self._cpu - self._thread,
            "finish_wall": self._finish_wall,
            "finish_cpu": self._finish_cpu,
        }


def peak_memory() -> float:
    """Return the largest memory of this process in bytes.

    Not ru_maxrss if possible, because on Linux a started process inherits the parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return float(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most) if sys.platform == "darwin" else most * 1024.0


def memory() -> float:
    """Return the bytes of this process in memory after a garbage collection, or the peak if that is unknown."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return float(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_memory()


def sent(sink: str) -> dict[str, float]:
    """Return how many bytes the upload server has received so far."""
    with urlopen(f"{sink}/received") as answer:
        return {"journal": float(answer.read()), "document": 0.0}


def sizes(directory: Path) -> dict[str, float]:
    """Return the bytes on disk: of documents (.json), and of all other files, which are journals or similar."""
    found = {"journal": 0.0, "document": 0.0}
    for file in directory.rglob("*"):
        if file.is_file():
            found["document" if file.suffix == ".json" else "journal"] += file.stat().st_size
    return found
