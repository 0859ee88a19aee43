"""Yielding in background threads: long work that nobody waits for pauses often, so that other threads can run.

The interpreter runs one thread at a time, and a waiting thread interrupts the running one only after five milliseconds.
A background thread therefore sleeps for a moment between short pieces of its work. Functions that may run there call
`yield_to_others` between two pieces; in a thread with a result that somebody waits for, that does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

YIELD_SECONDS = 0.0001
"""How long a background thread sleeps to let others run."""
WORK_SECONDS = 0.0005
"""How long it works, at least, between two sleeps: a sleep costs up to a tenth of that."""
MAX_UNINTERRUPTED_CHARS = 32 * 1024
"""The longest text that is searched in one call: no other thread runs during such a call."""

current_yield: ContextVar[Callable[[], None] | None] = ContextVar("trace_recorder_yield", default=None)
"""The function that lets other threads run; None where somebody waits for the result."""


def yield_to_others() -> None:
    """Let other threads run if this is a background thread."""
    function = current_yield.get()
    if function is not None:
        function()


def run_yielding(
    work: Callable[[], None],
    is_awaited: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run `work` in this thread, which was started for it; `yield_to_others` sleeps at most every `WORK_SECONDS`.

    It does not sleep while `is_awaited` says that another thread waits for the work: each sleep may cost five
    milliseconds where a third thread is busy.
    """
    next_yield = 0.0

    def sleep_if_due() -> None:
        nonlocal next_yield
        if time.perf_counter() >= next_yield and not is_awaited():
            sleep(YIELD_SECONDS)
            next_yield = time.perf_counter() + WORK_SECONDS

    current_yield.set(sleep_if_due)  # in this thread's context alone
    work()
