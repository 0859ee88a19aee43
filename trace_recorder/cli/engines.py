"""Work on many runs: in processes of this machine, or by Ray, which may use many machines.

Both engines call the same function for each task and return the results in the order of the tasks. Therefore the
output, the written files and the exit code of a command are the same with both engines. Work and results pass between
processes, so both must be picklable; nothing else is shared. Small work is done in this process, because starting other
processes would take longer.
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
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from trace_recorder.cli.arguments import check_names, completion_of
from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.guard import try_call
from trace_recorder.storage.addresses import Part, RemoteFile, listed_files, listed_size
from trace_recorder.storage.local_copies import copied_ahead
from trace_recorder.storage.paths import journal_path_for

T = TypeVar("T")
R = TypeVar("R")
_Done = tuple[list[R], list[Exception]]

MIN_BYTES = 4_000_000
"""If all files together have fewer bytes than this, one process reads them, which takes about half a second."""
MAX_BATCH = 32
"""A process gets at most this many runs at once."""
_AHEAD = 8
"""At most this many batches for each process are submitted while the oldest batch has not ended.

This way, the other processes have work while one process reads a long run.
"""


def jobs_for(runs: Sequence[Path], requested: int | None, *, min_bytes: int = MIN_BYTES) -> int:
    """Return how many processes to use: by default one for each core, or one if there is little to do."""
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    jobs = min(requested or cores, len(runs))
    if jobs <= 1 or (requested is None and not _have_bytes(runs, min_bytes)):
        return 1
    return jobs


def batch_for(runs: Sequence[Path], jobs: int) -> int:
    """Return how many runs a process gets at once.

    The batches are small enough that all processes end at about the same time.
    """
    return max(1, min(MAX_BATCH, len(runs) // (jobs * _AHEAD)))


def in_order(
    work: Callable[[T], R], tasks: Iterable[T], jobs: int, batch: int = 1, fetched: Part = "run"
) -> Iterator[R]:
    """Yield the result of `work` for each task, in the order of the tasks.

    An exception of `work` is raised here, and later tasks do not begin. If `jobs` is 1, `work` is called in this
    process when the next result is requested. Otherwise each process gets `batch` tasks together, because passing a
    short task takes longer than the task. If tasks are addresses, this process fetches the part `fetched` of the next
    ones.
    """
    remaining = copied_ahead(tasks, fetched)
    if jobs <= 1:
        yield from map(work, remaining)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_begin_worker, initargs=(listed_files,))
    waiting: deque[Future[_Done[R]]] = deque()
    try:
        while group := [*islice(remaining, batch)]:
            waiting.append(pool.submit(_work_on, work, group))
            if len(waiting) >= jobs * _AHEAD:
                yield from _results(waiting.popleft())
        while waiting:
            yield from _results(waiting.popleft())
    except BrokenProcessPool:
        raise UnreadableError("a process that read runs was killed: try --jobs 1, which takes less memory") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _work_on(work: Callable[[T], R], tasks: Iterable[T]) -> _Done[R]:
    """Call `work` for each task, until a call raises an exception.

    Return the results, and a list with the exception, if any.
    """
    done: list[R] = []
    raised: list[Exception] = []

    def work_on_all() -> None:
        for task in tasks:
            done.append(work(task))  # noqa: PERF401 - the results before an exception are kept

    try_call(work_on_all, raised.append)
    return done, raised


def _results(batch: Future[_Done[R]]) -> Iterator[R]:
    done, raised = batch.result()
    yield from done
    for error in raised:
        raise error


def _have_bytes(runs: Iterable[Path], min_bytes: int) -> bool:
    total = 0
    for run in runs:
        total += _size(journal_path_for(run)) or _size(run)
        if total >= min_bytes:
            return True
    return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the error is reported when the file is read
        return listed_size(path)


def _context() -> multiprocessing.context.BaseContext:
    """Return the context that starts processes.

    The context uses `os.fork` if that is safe, because the new process then need not import the modules again.
    """
    if sys.platform == "linux" and threading.active_count() == 1:
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _begin_worker(listed: dict[str, RemoteFile | None]) -> None:
    """Ignore Ctrl-C, because the parent process handles it. If the parent process is killed, end this process too.

    `listed` are the files that a store has listed, so that it is not asked again.
    """
    listed_files.update(listed)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


_NAMES = ("processes", "ray")
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="The engine that does the work: processes (of this machine) or ray (docs/tables.md).",
        autocompletion=completion_of(_NAMES),
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="ADDRESS", help="ray: the address of the cluster. Default: $RAY_ADDRESS, or this machine."
    ),
]
DEFAULT_ENGINE = "processes"


@dataclass(frozen=True, slots=True)
class Engine:
    """The name of an engine. For Ray, `address` is the address of the cluster."""

    name: str = DEFAULT_ENGINE
    address: str | None = None

    def __post_init__(self) -> None:
        check_names([self.name], _NAMES, "--engine")
        if self.address is not None and self.name != "ray":
            raise typer.BadParameter("it is for --engine ray", param_hint="--address")

    @property
    def repeats_tasks(self) -> bool:
        """Whether a task may run twice, because the process that ran it was lost."""
        return self.name == "ray"

    def in_order(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        jobs: int = 1,
        batch: int | None = None,
        fetched: Part = "run",
    ) -> Iterator[R]:
        """Yield the result of `work` for each task, in the order of the tasks, as the function `in_order` does."""
        if self.name != "ray":
            return in_order(work, tasks, jobs, batch or 1, fetched)
        by_ray = import_module("trace_recorder.tables.ray_data").in_order_by_ray
        results: Iterator[R] = by_ray(work, tasks, self.address, batch)
        return results


LOCAL = Engine()
"""The default engine: processes of this machine."""
