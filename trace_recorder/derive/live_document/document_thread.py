"""The one thread that writes the documents of all runs of this process, and its limits.

After a write, the next one waits twenty times the processor time that it will probably take, and at least a fifth of a
second. So all writes together take at most a twentieth of one core. The document that has waited longest is written
first. While an expensive document waits, cheaper documents are written before it, spread over its wait. All of them
together delay it by no more than the length of its own pause. So documents are written more rarely as runs grow, but
never stop. The thread starts with the first record that a document must show, and sleeps while no document waits.
"""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol

from trace_recorder.background_work import run_yielding, start_thread
from trace_recorder.guard import try_call
from trace_recorder.locks import new_lock
from trace_recorder.signal_handlers import suppress


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """The limits for the document of one run. Sizes are in bytes.

    - `at_once_bytes`: while the journal is not larger, a record that the agent makes is in the document on return
    - `cost_multiple`: after a write, the next one waits this many times the processor time that it will probably take
    - `min_pause_seconds`: the shortest wait after a write
    - `inline_bytes`: with history="auto", the document has deltas if the prompts of all calls and steps are longer
    - `kept_bytes`: records of this total size stay in memory during a write; the other records are read a second time
    """

    at_once_bytes: int = 64 * 1024
    cost_multiple: float = 20
    min_pause_seconds: float = 0.2
    inline_bytes: int = 16 * 1024 * 1024
    kept_bytes: int = 1024 * 1024


DEFAULT_LIMITS = DocumentLimits()


class WaitingDocument(Protocol):
    """The methods of a run's document that the thread needs."""

    @property
    def limits(self) -> DocumentLimits:
        """The limits that decide how long the document waits."""

    def predicted_seconds(self) -> float:
        """Return the predicted processor time of a write, in seconds."""

    def write_in_thread(self) -> None:
        """Write the document."""


class DocumentThread:
    """Writes the documents that lack records of their runs.

    `waiting` has these documents, in the order of the oldest record that each document lacks. No lock is taken for
    `waiting`, because adding or removing a document is one operation of a dict. A caller that adds a document, or sees
    that the thread `is_idle`, must call `wake`. A caller that writes a document itself must call `remove`.
    """

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Start empty in a forked child: the thread does not exist there, and its lock may never be released."""
        self.waiting: dict[WaitingDocument, None] = {}
        self._wakings: SimpleQueue[None] = SimpleQueue()
        self._lock = new_lock()
        self._serving: dict[str, int] = {}
        """The id of the one thread that writes.

        While this thread starts, a signal handler may start a second thread, which then ends.
        """
        self.is_idle = True
        self._last_end = self._counted_from = 0.0
        self._overtaken_seconds = 0.0

    def wake(self) -> None:
        """Wake the thread, or start it. Raises RuntimeError if the system has no more threads."""
        self._wakings.put(None)
        with self._lock:
            if not self._serving:
                start_thread(partial(run_yielding, self._run), "trace_recorder document")

    def remove(self, document: WaitingDocument) -> None:
        """Remove a document if it waits. Wake the thread, which may be sleeping until this document is due."""
        if self.waiting.pop(document, self) is not self:
            self._wakings.put(None)

    def _run(self) -> None:
        thread = threading.get_ident()
        if self._serving.setdefault("thread", thread) != thread:
            return
        try:
            while True:
                self.is_idle = True
                while not self.waiting:
                    self._wakings.get()
                self.is_idle = False  # until this is True again, records need not wake the thread
                self._write_next()
        finally:
            self.is_idle = True
            self._serving.clear()

    def _write_next(self) -> None:
        """Wait until the next document may be written, and write it."""
        began = time.perf_counter()
        while waiting := [*self.waiting]:
            now, first_pause, soonest = time.perf_counter(), _pause_before(waiting[0]), math.inf
            for document in waiting:
                is_first, pause = document is waiting[0], _pause_before(document)
                if not is_first and self._overtaken_seconds + pause > first_pause:
                    continue
                waited = self._overtaken_seconds + pause
                spread = waited if is_first else 2 * waited  # spread over the whole wait of the first document
                ready_at = max(
                    self._counted_from + spread,
                    max(self._last_end, began) + document.limits.min_pause_seconds,
                )
                if ready_at <= now:
                    self._write(document, overtakes_by=0.0 if is_first else pause)
                    return
                soonest = min(soonest, ready_at)
            with suppress(Empty):
                self._wakings.get(timeout=soonest - now)

    def _write(self, document: WaitingDocument, *, overtakes_by: float) -> None:
        """Write a document. If it overtakes the first waiting document, the first one waits for both pauses."""
        self.waiting.pop(document, None)
        try_call(document.write_in_thread, lambda _: None)  # a strict run raises; the other documents are written
        self._last_end = time.perf_counter()
        if overtakes_by:
            self._overtaken_seconds += overtakes_by
        else:
            self._counted_from, self._overtaken_seconds = self._last_end, 0.0


def _pause_before(document: WaitingDocument) -> float:
    """Return how many seconds have to pass without a write before a document is written."""
    return max(document.limits.min_pause_seconds, document.limits.cost_multiple * document.predicted_seconds())


process_thread = DocumentThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_thread.after_fork)
