"""A background thread yields to other threads, unless a thread waits for its work."""

from __future__ import annotations

import threading

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
