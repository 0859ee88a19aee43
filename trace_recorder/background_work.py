"""Work that nobody waits for: in a thread that does some, others are let work again and again.

The interpreter runs one thread at a time, and one that wants to run waits for five milliseconds before it interrupts
another. So a thread that works aside sleeps for a moment between any two short pieces of its work; `breathe` stands
between them, and does nothing where somebody waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

BREATH = 0.0001
"""For how many seconds such a thread stands aside."""
AT_A_STRETCH = 0.0005
"""For how many seconds it works between two breaths, or a little longer: each costs as much as a tenth of that."""
AT_ONCE = 32 * 1024
"""So many characters are looked through at once: what does that in one call lets nobody else work."""

breathing: ContextVar[Callable[[], None] | None] = ContextVar("trace_recorder_breathing", default=None)
"""What is called between two pieces of work; None where somebody waits."""


def breathe() -> None:
    """Let other threads work, if this one works aside."""
    stand_aside = breathing.get()
    if stand_aside is not None:
        stand_aside()


def work_aside(work: Callable[[], None]) -> None:
    """Do what breathes, in a thread that was started for it."""
    again = 0.0

    def stand_aside() -> None:
        nonlocal again
        if time.perf_counter() >= again:
            time.sleep(BREATH)
            again = time.perf_counter() + AT_A_STRETCH

    breathing.set(stand_aside)  # this thread's alone
    work()
