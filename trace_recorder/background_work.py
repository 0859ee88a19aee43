"""Background threads that yield: they do long work for which nobody waits, and pause often so that other threads run.

The interpreter runs one thread at a time. A waiting thread interrupts the running thread only after five milliseconds.
A background thread therefore sleeps for a moment between short pieces of its work. Every background thread runs its
work through `run_yielding`, and functions that may run in such a thread call `yield_to_others` between two pieces of
work. This call does nothing in an agent's thread. It also does nothing while another thread waits for the result. A
call into C, such as a search by a regular expression, keeps all other threads from running. Therefore each such call
gets a text of limited length.

An agent's thread starts background threads with `start_thread`, or uses them again by `background_threads`. It waits
for them with `Event`. Meanwhile a signal handler may raise an exception at any point. `threading.Event` contains a
`threading.Condition`, which does not tolerate such an exception. The lock of the condition may stay taken, or the
condition may raise "release unlocked lock" in place of the handler's exception.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from functools import partial
from queue import Empty, SimpleQueue

from trace_recorder.clocks import monotonic_seconds
from trace_recorder.signal_handlers import ours

YIELD_SECONDS = 0.0001
"""A background thread sleeps this long to let other threads run."""
WORK_SECONDS = 0.001
"""A background thread works at least this long between two sleeps.

Each sleep takes about a sixth of this, because the system wakes the thread late.
"""
MAX_UNINTERRUPTED_CHARS = 32 * 1024
"""Work on a long text passes at most this many characters to one call, because other threads wait during the call."""

current_yield: ContextVar[Callable[[], None] | None] = ContextVar("trace_recorder_yield", default=None)
"""The function that lets other threads run, or None if the current thread is not a background thread."""


def yield_to_others() -> None:
    """Let other threads run if the current thread is a background thread."""
    function = current_yield.get()
    if function is not None:
        function()


def is_background() -> bool:
    """Whether the current thread is a background thread, which does work that nobody waits for."""
    return current_yield.get() is not None


def run_yielding(
    work: Callable[[], None],
    is_waited_for: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
    work_seconds: float = WORK_SECONDS,
) -> None:
    """Run `work` in this thread, which was started for it.

    `yield_to_others` sleeps at most once in `work_seconds`. It does not sleep while `is_waited_for` returns True,
    because another thread then waits for the work. If a third thread is busy, each sleep may take five milliseconds.
    """
    next_yield = 0.0

    def sleep_if_due() -> None:
        nonlocal next_yield
        if monotonic_seconds() >= next_yield and not is_waited_for():
            sleep(YIELD_SECONDS)
            next_yield = monotonic_seconds() + work_seconds

    current_yield.set(sleep_if_due)  # only this thread's context changes
    work()


class Event:
    """A `threading.Event` that still works after a signal handler's exception has interrupted any of its methods.

    Threads wait for a token in a queue, whose methods are single calls into C. While the event is set, the queue has a
    token. A waiting thread takes the token and puts it back. If that thread is interrupted between the two, all other
    waiting threads wait until their time limits.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._tokens: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether the event has happened."""
        return self._is_set

    def set(self) -> None:
        """Make the event happen, and wake all threads that wait for it."""
        self._is_set = True
        self._tokens.put(None)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the event, for `seconds` at most. Return whether the event has happened."""
        if not self._is_set:
            try:
                self._tokens.get(timeout=seconds)
                self._tokens.put(None)
            except Empty:
                pass
        return self._is_set


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread. Raises RuntimeError if the system has no more threads.

    `Thread.start` waits in a `threading.Event`, which may raise an error of its own in place of a signal handler's
    exception. This function then raises the handler's exception.
    """
    handled, interrupted_by = sys.exc_info()[1], None
    thread = threading.Thread(target=target, name=name, daemon=True)
    try:
        thread.start()
    except ours(RuntimeError, KeyError) as error:  # CPython 3.11 raises KeyError if the interrupted thread runs already
        interrupted_by = error.__context__
        if interrupted_by is handled:
            raise
    if interrupted_by is not None:
        raise interrupted_by
    return thread


Work = Callable[[], None]


class BackgroundThreads:
    """Daemon threads that run work. A thread that has ended its work waits for more.

    To start a thread takes five times as long as to wake one. At most about `most_idle` threads wait; each further one
    ends after its work. There is no lock, because each change of `idle` is one operation of a deque.
    """

    def __init__(self, *, most_idle: int = 4) -> None:
        self._most_idle = most_idle
        self.after_fork()

    def after_fork(self) -> None:
        """Begin without threads in a forked child, because the threads do not exist there."""
        self.idle: deque[SimpleQueue[tuple[Work, str]]] = deque()
        """Where each waiting thread gets its next work, and its name for that time."""

    def run(self, work: Work, name: str) -> None:
        """Let a thread run `work`, which must not raise. The work has an empty context, as in a new thread.

        Raises RuntimeError if a new thread is needed, and the system has no more.
        """
        try:
            works, is_new = self.idle.pop(), False
        except ours(IndexError):
            works, is_new = SimpleQueue(), True
        works.put((work, name))
        if is_new:
            start_thread(partial(self._serve, works), name)

    def _serve(self, works: SimpleQueue[tuple[Work, str]]) -> None:
        while True:
            work, threading.current_thread().name = works.get()
            Context().run(work)
            del work  # it may keep much memory alive
            if len(self.idle) >= self._most_idle:
                return
            self.idle.append(works)


background_threads = BackgroundThreads()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=background_threads.after_fork)
