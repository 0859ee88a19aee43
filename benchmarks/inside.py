"""Timers around our own hooks: they separate the caller's time in hooks from its time in the SDK.

They are installed from outside, around everything that the recording transports call. Noise of the machine affects a
call and its hooks alike, so that their share is stable although times are not. The work of other threads is the
process's CPU time minus this thread's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any


class Hooks:
    """The time that the creating thread spent in hooks, and the longest single hook."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._inside = False
        self.reset()

    def reset(self) -> None:
        """Reset the measured times."""
        self._wall = self._cpu = self._longest = self._longest_cpu = 0.0

    def install(self) -> None:
        """Put a timer around everything that capture's transports call."""
        transport = import_module("trace_recorder.capture.transport")
        exchange = import_module("trace_recorder.capture.exchange").Exchange
        response = import_module("trace_recorder.capture.received_response").ReceivedResponse
        for name in ("begin_exchange", "record_response"):
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
        """Return the seconds in hooks, by the clock and of CPU, and of the longest hook."""
        longest = {"longest_hook": self._longest, "longest_hook_cpu": self._longest_cpu}
        return {"hooks_wall": self._wall, "hooks_cpu": self._cpu, **longest}
