"""The thread that writes the documents of all runs of this process, and the limits for its work.

Before each write, the thread pauses for a multiple of the processor time that the write will probably take: 200 times
if one document waits, a hundred times if two wait, and twenty times if ten or more wait. So the documents of one run
take at most half a percent of one core, and all documents together at most a twentieth.

The document that has waited longest is written next. During the pause before it, the thread may write the cheapest
documents. Together, they delay the first document by at most the length of its own pause. So a short run does not wait
for the documents of long runs, and the document of a long run is always written in the end. A document is written at
the earliest a fifth of a second after a record that it lacks. The thread starts when the first document begins to wait,
and sleeps while no document waits.

Only a copy of the list of waiting documents, in C, takes longer the more documents wait.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
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
    - `cost_multiple`: the pause before a write is at least this many times the processor time that the write will
      probably take; if fewer than `SHARES` documents wait, it is longer
    - `min_pause_seconds`: how long a document waits at least, so that one write covers all records of a moment
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
SHARES = 10
"""One waiting document may use one of this many shares of the processor time that all documents may use."""
_WORK_SECONDS = 0.0003
"""The thread works at least this long between two sleeps, because an event loop may wait as long whenever it wakes."""
_MANY = 64
"""The heap of waiting documents may have this many entries more than it needs."""


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

    `waiting` has these documents in the order in which they began to wait, with the time at which they did. No lock
    protects `waiting`, because to add or to remove a document is one operation of a dict. A caller that finds `is_idle`
    True, or its document not in `waiting`, must call `add`. A caller that writes a document itself must call `remove`.
    """

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Begin without documents in a forked child.

        The thread does not exist there, and the lock may be locked for ever.
        """
        self.waiting: dict[WaitingDocument, float] = {}
        self._arrived: deque[WaitingDocument] = deque()
        self._by_pause: list[tuple[float, int, float, WaitingDocument]] = []
        """A heap, which only the thread uses: the pause of each waiting document, a number, and since when it waits.

        It may also have documents that do not wait any more.
        """
        self._numbers = count()
        self._wakings: SimpleQueue[None] = SimpleQueue()
        self._lock = new_lock()
        self._serving: dict[str, int] = {}
        """The id of the thread that writes, under the key "thread".

        While this thread starts, a signal handler may start a second thread. The second thread ends at once.
        """
        self.is_idle = True
        self._counted_from = 0.0
        self._overtaken_seconds = 0.0

    def add(self, document: WaitingDocument) -> None:
        """Let a document wait. If it waits already, it keeps its place. Raises RuntimeError like `wake`."""
        self.waiting.setdefault(document, monotonic_seconds())
        self._arrived.append(document)
        self.wake()

    def wake(self) -> None:
        """Wake the thread, or start it. Raises RuntimeError if the system cannot start a thread."""
        self._wakings.put(None)
        with self._lock:
            if not self._serving:
                start_thread(partial(run_yielding, self._run, work_seconds=_WORK_SECONDS), "trace_recorder document")

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
        while waiting := [*self.waiting]:
            first, cheapest = waiting[0], self._cheapest()
            # The writes of cheaper documents are spread over the whole wait of the first document.
            paid_at = self._counted_from + self._overtaken_seconds + self.pause_before(first)
            ready_at = max(paid_at, self._rested_at(first))
            if cheapest is not None and cheapest is not first:
                overtaken = self._overtaken_seconds + self.pause_before(cheapest)
                may_overtake = overtaken <= max(self.pause_before(first), first.limits.min_pause_seconds)
                cheapest_at = max(self._counted_from + 2 * overtaken, self._rested_at(cheapest))
                if may_overtake and cheapest_at < ready_at:
                    first, ready_at = cheapest, cheapest_at
            seconds = ready_at - monotonic_seconds()
            if seconds <= 0:
                self._write(first, overtakes=first is not waiting[0])
                return
            with suppress(Empty):
                self._wakings.get(timeout=seconds)

    def _cheapest(self) -> WaitingDocument | None:
        """Return the waiting document with the shortest pause; of two, the one that has waited longer.

        A document counts with the pause that it had when it began to wait.
        """
        if len(self._by_pause) > 2 * len(self.waiting) + _MANY:  # most of them do not wait any more
            self._by_pause = [entry for entry in self._by_pause if self.waiting.get(entry[3]) == entry[2]]
            heapify(self._by_pause)
        while self._arrived:
            document = self._arrived.popleft()
            since = self.waiting.get(document)
            if since is not None:
                heappush(self._by_pause, (_least_pause_before(document), next(self._numbers), since, document))
        while self._by_pause:
            _, _, since, document = self._by_pause[0]
            if self.waiting.get(document) == since:
                return document
            heappop(self._by_pause)
        return None

    def pause_before(self, document: WaitingDocument) -> float:
        """Return the pause before a write of this document, in seconds."""
        return self._multiple() * _least_pause_before(document)

    def _multiple(self) -> float:
        """Return how many times longer the pauses are than the least ones, because few documents wait."""
        return max(SHARES / max(len(self.waiting), 1), 1.0)

    def _rested_at(self, document: WaitingDocument) -> float:
        """Return the time before which a document is not written, even if the thread has nothing else to do."""
        return self.waiting.get(document, 0.0) + document.limits.min_pause_seconds

    def _write(self, document: WaitingDocument, *, overtakes: bool) -> None:
        """Write a document. If it overtakes the first waiting document, the first document waits for both pauses.

        If the write took longer than predicted, the next document waits for the rest of the pause.
        """
        pause, multiple = self.pause_before(document), self._multiple()
        self.waiting.pop(document, None)
        try_call(document.write_in_thread, lambda _: None)  # if a strict run raises, the thread must not end
        owed = max(multiple * _least_pause_before(document) - pause, 0.0)
        if overtakes:
            self._overtaken_seconds += pause + owed
        else:
            self._counted_from, self._overtaken_seconds = monotonic_seconds() + owed, 0.0


def _least_pause_before(document: WaitingDocument) -> float:
    """Return the pause before a write of this document, in seconds, if many documents wait."""
    return document.limits.cost_multiple * document.predicted_seconds()


process_thread = DocumentThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_thread.after_fork)
