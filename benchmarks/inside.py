"""Timers around our own hooks: what the caller's thread spends in them is distinguished from what the SDK spends.

They are put in from outside, around whatever the recording transports call: noise of the machine reaches a call and
its hooks alike, so that their share is steady where the clock is not. Work in other threads is seen as the process's
CPU time less this thread's, and is measured there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any


class Hooks:
    """The time spent in hooks by the thread that made this, and the longest single one."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._inside = False
        self.reset()

    def reset(self) -> None:
        """Forget what was measured so far."""
        self._wall = self._cpu = self._longest = self._longest_cpu = 0.0

    def install(self) -> None:
        """Put a timer around all that is called by capture's transports."""
        transport = import_module("trace_recorder.capture.transport")
        exchange = import_module("trace_recorder.capture.exchange").Exchange
        response = import_module("trace_recorder.capture.received_response").ReceivedResponse
        for name in ("begin", "record_response"):
            setattr(transport, name, self._timed(getattr(transport, name)))
        for owner in (exchange, response):
            for name, function in list(vars(owner).items()):
                if callable(function) and not name.startswith("_"):
                    setattr(owner, name, self._timed(function))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def hook(*args: Any, **kwargs: Any) -> Any:
            if self._inside or threading.get_ident() != self._thread:
                return function(*args, **kwargs)
            self._inside = True
            cpu, wall = time.thread_time(), time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
                self._inside = False
                self._wall += wall
                self._cpu += cpu
                self._longest = max(self._longest, wall)
                self._longest_cpu = max(self._longest_cpu, cpu)

        return hook

    def figures(self) -> dict[str, float]:
        """Seconds inside, by the clock and of CPU; of the longest hook."""
        longest = {"longest_hook": self._longest, "longest_hook_cpu": self._longest_cpu}
        return {"hooks_wall": self._wall, "hooks_cpu": self._cpu, **longest}
