"""The thread that writes the documents of all runs of this process, and the limits for its work.

Between two writes, the thread pauses for twenty times the processor time that the second write will probably take, and
for at least a fifth of a second. So all writes together take at most a twentieth of one core. The document that has
waited longest is written next. During the pause before it, the thread may write cheaper documents. Together, they delay
the first document by at most the length of its own pause. So a document is written more rarely as its run grows, but it
is always written in the end. The thread starts when the first document begins to wait, and sleeps while no document
waits.
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol

from trace_recorder.background_work import run_yielding, start_thread
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.guard import try_call
from trace_recorder.locks import new_lock
from trace_recorder.signal_handlers import suppress


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """The limits for the document of one run. Sizes are in bytes.

    - `at_once_bytes`: while the journal has at most this size, a record that the agent makes by hand is in the document
      when the agent's call returns
    - `cost_multiple`: the pause between two writes is this many times the processor time that the second will probably
      take
    - `min_pause_seconds`: the shortest pause before a write
    - `inline_bytes`: with history="auto", the document has deltas if the prompts of all calls and steps together are
      larger
    - `kept_bytes`: during a write, records of ended calls up to this total size stay in memory; other records are
      read twice
    """

    at_once_bytes: int = 64 * 1024
    cost_multiple: float = 20
    min_pause_seconds: float = 0.2
    inline_bytes: int = 16 * 1024 * 1024
    kept_bytes: int = 1024 * 1024


DEFAULT_LIMITS = DocumentLimits()
_FORK_WAIT_SECONDS = 2.0
"""A signal handler that forks in the middle of an import must not wait for ever: the thread may need that module."""


class WaitingDocument(Protocol):
    """The properties and methods of a run's document that the thread uses."""

    @property
    def limits(self) -> DocumentLimits:
        """The limits that decide how long the document waits."""

    def predicted_seconds(self) -> float:
        """Return the predicted processor time of a write, in seconds."""

    def write_in_thread(self) -> None:
        """Write the document."""


class DocumentThread:
    """Writes documents that lack the newest records of their runs.

    `waiting` has these documents in the order in which they began to wait. No lock protects `waiting`, because to add
    or to remove a document is one operation of a dict. A caller that adds a document, or that finds `is_idle` True,
    must call `wake`. A caller that writes a document itself must call `remove`.
    """

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Begin without documents in a forked child.

        The thread does not exist there, and the lock may be locked for ever.
        """
        self.waiting: dict[WaitingDocument, None] = {}
        self._wakings: SimpleQueue[None] = SimpleQueue()
        self._lock = new_lock()
        self._serving: dict[str, int] = {}
        """The id of the thread that writes, under the key "thread".

        While this thread starts, a signal handler may start a second thread. The second thread ends at once.
        """
        self.is_idle = True
        self.import_lock = new_lock()
        """Held while this thread imports a module. A fork waits for it.

        In a child with half a module, whoever imports this module would wait for ever for a thread that does not exist.
        No agent's thread takes this lock to import, because it may hold the lock of a module that this thread needs.
        """
        self._last_end = self._counted_from = 0.0
        self._overtaken_seconds = 0.0

    def before_fork(self) -> None:
        """Wait until the thread imports nothing, for `_FORK_WAIT_SECONDS` at most."""
        self.import_lock.acquire(timeout=_FORK_WAIT_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Let the thread import again."""
        if self.import_lock._is_owned():  # type: ignore[attr-defined]
            self.import_lock.release()

    def wake(self) -> None:
        """Wake the thread, or start it. Raises RuntimeError if the system cannot start a thread."""
        self._wakings.put(None)
        with self._lock:
            if not self._serving:
                start_thread(partial(run_yielding, self._run), "trace_recorder document")

    def remove(self, document: WaitingDocument) -> None:
        """Remove a document if it waits.

        Wake the thread then, because it may be sleeping until this document is due.
        """
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
                self.is_idle = False  # until `is_idle` is True again, a new record need not wake the thread
                self._write_next()
        finally:
            self.is_idle = True
            self._serving.clear()

    def _write_next(self) -> None:
        """Wait until one of the waiting documents may be written, and write this document."""
        began = monotonic_seconds()
        while waiting := [*self.waiting]:
            now, first_pause, soonest = monotonic_seconds(), _pause_before(waiting[0]), math.inf
            for document in waiting:
                is_first, pause = document is waiting[0], _pause_before(document)
                if not is_first and self._overtaken_seconds + pause > first_pause:
                    continue
                waited = self._overtaken_seconds + pause
                # The writes of cheaper documents are spread over the whole wait of the first document.
                spread = waited if is_first else 2 * waited
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
        """Write a document. If it overtakes the first waiting document, the first document waits for both pauses."""
        self.waiting.pop(document, None)
        try_call(document.write_in_thread, lambda _: None)  # if a strict run raises, the thread must not end
        self._last_end = monotonic_seconds()
        if overtakes_by:
            self._overtaken_seconds += overtakes_by
        else:
            self._counted_from, self._overtaken_seconds = self._last_end, 0.0


def _pause_before(document: WaitingDocument) -> float:
    """Return the pause before a write of this document, in seconds."""
    return max(document.limits.min_pause_seconds, document.limits.cost_multiple * document.predicted_seconds())


process_thread = DocumentThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=process_thread.before_fork,
        after_in_parent=process_thread.after_fork_in_parent,
        after_in_child=process_thread.after_fork,
    )
