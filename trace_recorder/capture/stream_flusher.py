"""Flushes streams: once a second, a thread writes the new text of each open stream.

A process that is killed while it waits for a model therefore loses at most the last second of a stream. There is one
thread for the process; it starts with the first stream and ends when no stream is left to watch.
"""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import Protocol

from trace_recorder.background_work import run_yielding, start_thread
from trace_recorder.guard import ignore_failures
from trace_recorder.locks import new_lock
from trace_recorder.signal_handlers import suppress

SECONDS = 1.0


class FlushedStream(Protocol):
    """A stream that can be watched."""

    def write_pending(self) -> None:
        """Write the text that is not on file yet."""


class StreamFlusher:
    """Flushes each stream within `seconds` of `watch`, in a thread that ends when no stream is left.

    The lock is taken to start the thread and to end it. Each change of `watched` is one operation of a set.
    """

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self.watched: set[FlushedStream] = set()
        """The streams that will be flushed within the next `seconds`."""

        self.after_fork()

    def after_fork(self) -> None:
        """Start empty in a forked child: the thread does not exist there, and the old lock may never be released."""
        self.watched.clear()
        self._lock = new_lock()
        self._thread: threading.Thread | None = None

    def watch(self, stream: FlushedStream) -> None:
        """Flush the stream within the next `seconds`, once."""
        self.watched.add(stream)
        if self._is_running():
            return
        with self._lock:
            if not self._is_running():
                with suppress(RuntimeError):  # the system has no more threads: the next stream tries again
                    self._thread = start_thread(partial(run_yielding, self._run), "trace_recorder streams")

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def forget(self, stream: FlushedStream) -> None:
        """Stop watching a stream, which has ended."""
        self.watched.discard(stream)

    def _run(self) -> None:
        thread = threading.current_thread()
        while True:
            time.sleep(self._seconds)
            streams = list(self.watched)
            self.watched.difference_update(streams)
            if not streams:
                with self._lock:
                    # `_thread` is None before the set is read: a thread that adds a stream later starts a new flusher
                    self._thread = None
                    if not self.watched:
                        return
                    self._thread = thread
            for stream in streams:
                with ignore_failures:  # a strict run raises, which must not stop the thread
                    stream.write_pending()


process_flusher = StreamFlusher()
watched, watch, forget = process_flusher.watched, process_flusher.watch, process_flusher.forget

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_flusher.after_fork)
