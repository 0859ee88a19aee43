"""Work on many runs in several processes: each run once, the results in the order of the runs.

Work and results pass between processes, so both must be picklable; nothing else is shared. Where there is little to do,
everything is done in this process: starting others would take longer.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from trace_recorder.cli.read_files import UnreadableError

T = TypeVar("T")
R = TypeVar("R")

MIN_BYTES = 4_000_000
"""Files of fewer bytes than these are read in one process, which takes about half a second."""
_AHEAD = 8
"""For each process, so many results at most wait for those before them: one long run does not stop the others."""


def jobs_for(runs: Sequence[Path], requested: int | None, *, min_bytes: int = MIN_BYTES) -> int:
    """Return in how many processes to work on runs: by default one for each core, or one if there is little to do."""
    jobs = min(requested or _cores(), len(runs))
    if jobs <= 1 or (requested is None and not _have_bytes(runs, min_bytes)):
        return 1
    return jobs


def in_order(work: Callable[[T], R], tasks: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield what `work` returns for each task, in their order. What it raises is raised here, and ends the others.

    With one job it is called in this process, when the next result is asked for.
    """
    if jobs <= 1:
        yield from map(work, tasks)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_ignore_interrupts)
    waiting: deque[Future[R]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) >= jobs * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise UnreadableError("a process that read runs was killed: try --jobs 1, which takes less memory") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _have_bytes(runs: Iterable[Path], wanted: int) -> bool:
    found = 0
    for run in runs:
        try:
            found += run.stat().st_size
        except OSError:  # reading it reports why
            continue
        if found >= wanted:
            return True
    return False


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _context() -> multiprocessing.context.BaseContext:
    """Fork where that is safe, as it starts at once; elsewhere each process imports what it needs."""
    is_safe = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if is_safe else "spawn")


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
