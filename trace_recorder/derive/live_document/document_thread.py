"""The one thread that writes the documents of all runs of this process, at a twentieth of one core at most.

After a write, the next one waits twenty times the processor time that it is predicted to take, and at least a fifth
of a second. Of several runs, the one that has waited longest comes first. So documents become rarer as runs grow, and
never stop. The thread starts with the first record that it is to show, and sleeps while no document waits.
"""

from __future__ import annotations

import os
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol

from trace_recorder.background_work import run_yielding, start_thread
from trace_recorder.derive.live_document.limits import DocumentLimits
from trace_recorder.guard import try_call
from trace_recorder.locks import new_lock
from trace_recorder.signal_handlers import suppress


class Document(Protocol):
    """The document of a run, as far as the thread needs to know it."""

    @property
    def limits(self) -> DocumentLimits:
        """How long it waits."""

    def predicted_seconds(self) -> float:
        """Return how long the thread's processor will need to write it."""

    def write_in_thread(self) -> None:
        """Write it."""


class DocumentThread:
    """Writes the documents of runs that have records which are in no document yet.

    Those are `waiting`, in the order of their oldest record. No lock is taken for it: to add one, or to remove one, is
    one operation of a dict. The caller who adds one to a thread that `is_idle` has to `wake` it. The caller who writes
    one has to `remove` it.
    """

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Start empty in a forked child: the thread does not exist there, and its lock may never be released."""
        self.waiting: dict[Document, None] = {}
        self._wakings: SimpleQueue[None] = SimpleQueue()
        self._lock = new_lock()
        self._has_thread = False
        self.is_idle = True
        self._ready_at = 0.0

    def wake(self) -> None:
        """Wake the thread, or start it. Raises RuntimeError if the system has no more threads."""
        self._wakings.put(None)
        with self._lock:
            if not self._has_thread:
                start_thread(partial(run_yielding, self._run), "trace_recorder document")
                self._has_thread = True

    def remove(self, document: Document) -> None:
        """Remove a document, if it waits. The thread, which may sleep for a long time because of it, looks again."""
        if self.waiting.pop(document, self) is not self:
            self._wakings.put(None)

    def _run(self) -> None:
        try:
            while True:
                self.is_idle = True
                while not self.waiting:
                    self._wakings.get()
                self.is_idle = False  # until this is True again, records need not wake the thread
                self._write_next()
        finally:
            self._has_thread, self.is_idle = False, True

    def _write_next(self) -> None:
        """Wait until the next document may be written, and write it."""
        began = time.perf_counter()
        while waiting := [*self.waiting]:
            limits = waiting[0].limits
            pause = max(limits.min_pause_seconds, limits.cost_multiple * waiting[0].predicted_seconds())
            ready_at = max(self._ready_at + pause, began + limits.min_pause_seconds)
            seconds = ready_at - time.perf_counter()
            if seconds <= 0:
                self.waiting.pop(waiting[0], None)
                try_call(waiting[0].write_in_thread, lambda _: None)  # a strict run raises; the others go on
                self._ready_at = time.perf_counter()
                return
            with suppress(Empty):
                self._wakings.get(timeout=seconds)


process_thread = DocumentThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_thread.after_fork)
