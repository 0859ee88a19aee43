"""The pulse: once a second, streams that have unwritten text are flushed, also while nothing comes.

So that a process killed while it waits for a model leaves what had come up to a second before. One thread for the
process; it starts with the first stream and ends when there is none left to watch.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Protocol

from trace_recorder.guard import try_call

__records__ = True  # `guard.is_recording` looks for this name

SECONDS = 1.0


class Stream(Protocol):
    """What can be watched."""

    def write_pending(self) -> None:
        """Write what is not on file yet."""


_watched: set[Stream] = set()
_lock = threading.RLock()
_thread: threading.Thread | None = None


def is_watched(stream: Stream) -> bool:
    """Whether the stream will be flushed within the next seconds."""
    return stream in _watched


def watch(stream: Stream) -> None:
    """Have the stream flushed within the next seconds."""
    global _thread  # noqa: PLW0603 - one thread for the process
    with _lock:
        _watched.add(stream)
        if _thread is None or not _thread.is_alive():
            thread = threading.Thread(target=_run, name="trace_recorder streams", daemon=True)
            with suppress(RuntimeError):  # the system has no more threads: a stream's next piece writes what waited
                thread.start()
                _thread = thread


def forget(stream: Stream) -> None:
    """The stream has ended."""
    _watched.discard(stream)


def _run() -> None:
    global _thread  # noqa: PLW0603
    while True:
        _sleep.wait(SECONDS)
        with _lock:
            streams = list(_watched)
            _watched.clear()
            if not streams:
                _thread = None
                return
        for stream in streams:
            try_call(stream.write_pending, lambda _: None)  # a strict run raises; the streams of others go on


_sleep = threading.Event()


def _after_fork() -> None:
    global _thread, _lock, _sleep  # noqa: PLW0603
    _lock = threading.RLock()
    _sleep = threading.Event()
    _thread = None
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
