"""A background thread yields to other threads, unless a thread waits for its work."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from trace_recorder.background_work import YIELD_SECONDS, run_yielding, yield_to_others


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_awaited_work_does_not_yield(*, is_waited_for: bool) -> None:
    """Background work pauses at intervals, but not while another thread waits for its result."""
    slept: list[float] = []

    def work() -> None:
        for _ in range(3):
            yield_to_others()

    thread = threading.Thread(target=run_yielding, args=(work, lambda: is_waited_for, slept.append))
    thread.start()
    thread.join()

    assert set(slept) == (set() if is_waited_for else {YIELD_SECONDS})


@pytest.mark.parametrize(("work_seconds", "sleeps"), [(0.0, 3), (1000.0, 1)])
def test_work_sleeps_once_in_each_stretch(work_seconds: float, sleeps: int) -> None:
    """A thread sleeps at its first look at the clock, and again when it has worked for as long as it may."""
    slept: list[float] = []

    def work() -> None:
        for _ in range(3):
            yield_to_others()

    yielding = partial(run_yielding, work, sleep=slept.append, work_seconds=work_seconds)
    thread = threading.Thread(target=yielding)
    thread.start()
    thread.join()

    assert len(slept) == sleeps
