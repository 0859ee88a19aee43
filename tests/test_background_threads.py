"""Background threads are used again, and each work is as alone in its thread as in a new one."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from functools import partial
from weakref import ref

import pytest

from tests.waiting import wait_until
from trace_recorder.background_work import BackgroundThreads

PATIENCE = 60.0
_VALUE: ContextVar[str] = ContextVar("value", default="none")


class Works:
    """Works that note their thread, its name and the value of the context, and then wait until they are released."""

    def __init__(self, threads: BackgroundThreads) -> None:
        self.threads = threads
        self.seen: list[tuple[threading.Thread, str, str]] = []

    def start(self) -> threading.Event:
        """Start a work, and return the event that releases it."""
        released, before = threading.Event(), len(self.seen)

        def work() -> None:
            thread = threading.current_thread()
            self.seen.append((thread, thread.name, _VALUE.get()))
            _VALUE.set("changed")
            assert released.wait(PATIENCE)

        self.threads.run(work, f"work {before}")
        wait_until(lambda: len(self.seen) > before)
        return released

    def run(self) -> None:
        """Start a work, and wait until its thread has ended it."""
        self.start().set()
        thread = self.seen[-1][0]
        wait_until(lambda: not thread.is_alive() or len(self.threads.idle) > 0)


def test_a_thread_runs_one_work_after_another() -> None:
    """Each work has the name of its thread, and an empty context."""
    works = Works(BackgroundThreads())

    for _ in range(3):
        works.run()

    threads, names, values = zip(*works.seen, strict=True)
    assert (len({*threads}), names, {*values}) == (1, ("work 0", "work 1", "work 2"), {"none"})


def test_works_at_the_same_time_have_threads_of_their_own() -> None:
    """No work waits for another. After their ends, no more threads wait than are allowed."""
    works = Works(BackgroundThreads(most_idle=2))
    released = [works.start() for _ in range(4)]
    threads = [thread for thread, _, _ in works.seen]

    def has_ended(number: int) -> bool:
        return len(works.threads.idle) == number + 1 or not threads[number].is_alive()

    for number, event in enumerate(released):
        event.set()
        wait_until(partial(has_ended, number))

    assert (len({*threads}), len(works.threads.idle)) == (4, 2)
    assert [thread.is_alive() for thread in threads] == [True, True, False, False]


def test_a_waiting_thread_keeps_nothing_of_its_work() -> None:
    """A work with a long answer is freed, although its thread waits for more."""
    threads = BackgroundThreads()

    class Held:
        def note(self) -> None:
            """Do nothing."""

    held = Held()
    watched = ref(held)
    threads.run(held.note, "work")
    del held

    wait_until(lambda: len(threads.idle) == 1)
    wait_until(lambda: watched() is None)


@pytest.mark.filterwarnings("ignore:Exception in thread:pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_not_used_again() -> None:
    """If work raises, against its promise, the next work has a new thread."""
    works = Works(BackgroundThreads())
    failing: list[threading.Thread] = []

    def fail() -> None:
        failing.append(threading.current_thread())
        raise SystemExit

    works.threads.run(fail, "work")
    wait_until(lambda: bool(failing))
    failing[0].join(PATIENCE)
    works.run()

    assert len(works.seen) == 1


def test_a_forked_child_starts_threads_of_its_own() -> None:
    """The threads of its parent do not exist there."""
    works = Works(BackgroundThreads())
    works.run()

    works.threads.after_fork()
    works.run()

    assert len({thread for thread, _, _ in works.seen}) == 2
