"""Waiting for a state that a thread or a process brings about. No test waits for a time in place of a state."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""After this many seconds a state that has not come will never come, however busy the machine is."""


def wait_until(is_reached: Callable[[], object]) -> None:
    """Wait until a condition is true. Raises AssertionError if it never becomes true."""
    end = time.monotonic() + PATIENCE
    while not is_reached():
        assert time.monotonic() < end, "the state that the test waits for has not come"
        time.sleep(0.01)
