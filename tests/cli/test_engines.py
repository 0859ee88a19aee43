"""Work on runs in several processes: the results, their order, and when several processes are used."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trace_recorder.cli.engines import MAX_BATCH, batch_for, in_order, jobs_for
from trace_recorder.cli.read_files import UnreadableError

WRITE_FOREVER = """
import itertools, functools, os, sys, threading
from trace_recorder.cli.engines import in_order
if __name__ == "__main__":
    for _ in range(1, int(sys.argv[1])):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    for _ in in_order(functools.partial(os.write, 1), itertools.repeat(b"x"), 2):
        pass
"""


def slow_first(number: int) -> tuple[int, int]:
    """Return the doubled number and the process id. The number 0 takes longest."""
    time.sleep(0.2 if number == 0 else 0)
    return 2 * number, os.getpid()


def fail_at(number: int) -> int:
    if number == 3:
        raise FileNotFoundError(2, "No such file or directory", "three.json")
    return number


def die(number: int) -> int:
    os._exit(number)


def in_a_thread_of_many(work: object, tasks: range, jobs: int) -> list[object]:
    """Return the results of work while a second thread runs, because then processes are not forked."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        return list(in_order(work, tasks, jobs))  # type: ignore[arg-type]
    finally:
        done.set()
        other.join()


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_tasks(jobs: int) -> None:
    """Results keep the order of the tasks if a later task ends before an earlier task, and if there are many tasks."""
    found = list(in_order(slow_first, range(40), jobs))

    assert [number for number, _ in found] == [2 * number for number in range(40)]
    assert (os.getpid() in {process for _, process in found}) == (jobs == 1)


@pytest.mark.parametrize("batch", [3, 64])
def test_tasks_may_be_given_to_a_process_together(batch: int) -> None:
    """The results are the same, and the results of a batch come from one process."""
    found = list(in_order(slow_first, range(40), 2, batch))

    assert [number for number, _ in found] == [2 * number for number in range(40)]
    assert all(len({process for _, process in found[at : at + batch]}) == 1 for at in range(0, 40, batch))


def test_batches_of_few_runs_are_small() -> None:
    """If there are few runs, batches are small, so that no process works alone at the end."""
    runs = [Path(f"{number}.json") for number in range(1000)]

    assert [batch_for(runs[:few], 2) for few in (0, 15, 64, 1000)] == [1, 1, 4, MAX_BATCH]


def test_processes_that_are_not_forked_do_the_same() -> None:
    """Processes that are started without a fork import the function by its name, and return the same results."""
    found = in_a_thread_of_many(slow_first, range(4), 2)

    assert [number for number, _ in found] == [0, 2, 4, 6]  # type: ignore[misc]


@pytest.mark.parametrize(("jobs", "batch"), [(1, 1), (2, 1), (2, 2), (2, 9)])
def test_an_exception_is_raised_at_the_place_of_its_task(jobs: int, batch: int) -> None:
    """The results of earlier tasks come first. The exception has the file's name."""
    results = in_order(fail_at, range(9), jobs, batch)

    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(FileNotFoundError) as failure:
        next(results)
    assert failure.value.filename == "three.json"


@pytest.mark.skipif(sys.platform == "win32", reason="select takes no pipes there")
@pytest.mark.parametrize("threads", [1, 2])
def test_processes_end_with_a_command_that_is_killed(threads: int) -> None:
    """Worker processes end if their command is killed, whether or not they were forked: the pipe that they write to is
    closed.
    """
    with subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, str(threads)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        process.kill()
        while select.select([process.stdout], [], [], 60)[0]:
            if not process.stdout.read1():
                return
    pytest.fail("a process waits for tasks")


def test_a_process_that_is_killed_is_reported() -> None:
    """A killed worker process is reported in a sentence that says what to do."""
    with pytest.raises(UnreadableError, match="--jobs 1"):
        list(in_order(die, [7], 2))


def test_little_work_is_done_in_one_process(tmp_path: Path) -> None:
    """Little work is done in one process, unless the user asks for more. There are never more processes than runs."""
    runs = [tmp_path / f"{number}.json" for number in range(3)]
    for run in runs[:2]:
        run.write_bytes(b"x" * 600)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

    assert jobs_for(runs, None, min_bytes=1201) == 1
    assert jobs_for(runs, None, min_bytes=1200) == min(3, cores or 1)
    assert [jobs_for(runs, asked) for asked in (1, 2, 9)] == [1, 2, 3]
    assert jobs_for([], None) == 1
