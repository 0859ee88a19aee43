"""Writing the live document: the journal so far as JSON, while the run goes on.

The document is written to a fresh temporary file that then replaces the last one: a reader never sees half of it, and
the last good one is never harmed. It depends on the journal alone, which is read on from where the last write stopped
(`draft.py`).

`DocumentWriter` writes; `WriteScheduler` decides when. A small document is written before the recording call returns:
always for what the agent records itself; for a captured call if little is new and the write costs at most a hundredth
of the time since the last one. Everything else is written by a background thread, when a hundred times the cost of its
last write has passed, but not before a fifth of a second. At the end of a run the document is always written.

Locks and threads:
- The run's lock, which protects the journal, is never taken here. The run releases it before it calls this module.
- `DocumentWriter._lock` is held during a write and during `close`. It is re-entrant, since a signal handler or a
  destructor may record in the middle of a write, in the same thread.
- `WriteScheduler._thread_lock` is held only to start the background thread, never during a write. So the two locks are
  never held together. The thread is woken, and waited for, by single calls into C, which no exception can damage.
- The counters and flags of `WriteScheduler` are read and set without a lock. A lost update makes the next write a
  little early or late; it never loses one, because a write always takes everything that is in the journal.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from trace_recorder.background_work import Event, is_background, run_yielding, start_thread
from trace_recorder.derive.live_document.buffer import Layout
from trace_recorder.derive.live_document.draft import Draft
from trace_recorder.derive.live_document.limits import DEFAULT_LIMITS, DocumentLimits
from trace_recorder.derive.live_document.steps import CarryOver, StaleDraftError
from trace_recorder.guard import stack_has_room
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.storage.file_descriptor import Descriptor
from trace_recorder.values.trajectory import History, Status

__records__ = True  # `guard.is_recording` looks for this name

MAX_PENDING_RECORDS = 8
"""A recording call writes up to this many new records, of up to `small_bytes`; more are left to the thread."""
MAX_JOIN_SECONDS = 10.0
"""How long `close` waits for the thread. If it is still writing then, the last write waits."""
MIN_FREE_FRAMES = 500
"""How many frames must be free on the stack for a write in the calling thread."""
SHOW_DELAY_SECONDS = 0.2
"""How long the thread waits before it writes what has just begun."""


When = Literal["now", "when cheap", "later"]


class DocumentWriter:
    """Writes the document of one journal. All methods may be called from any thread.

    `size` is the size of the document in bytes. `in_place` says whether the journal still has its name, and is
    asked before the journal is opened.
    """

    def __init__(
        self,
        journal_path: Path,
        path: Path,
        history: str,
        *,
        sync: bool = False,
        in_place: Callable[[], bool] = lambda: True,
        status: Status = "running",
        limits: DocumentLimits = DEFAULT_LIMITS,
    ) -> None:
        self.path = path
        self.limits = limits
        self.size = 0
        self._journal_path = journal_path
        self._in_place = in_place
        self._status = status
        self._auto = history == "auto"
        self._history: History = "delta" if history == "delta" else "inline"
        self._sync = sync
        self._lock = threading.RLock()
        self._requested = False
        self._draft: Draft | None = None
        self._carry_over = CarryOver()
        self._last_file = _LastFile()

    def write(self) -> None:
        """Update the document from the journal. Raises OSError if it cannot be written."""
        self._requested = True
        # This thread is in the middle of a write: the garbage collector ended a stream there, or a signal handler
        # records. The outer call sees `_requested` and writes again. A flag of our own could be left set by Ctrl-C.
        if self._lock._is_owned():  # type: ignore[attr-defined]
            return
        with self._lock:
            while self._requested:
                self._requested = False
                self._write()

    def _write(self) -> None:
        draft, layout = self._up_to_date()
        try:
            fd = replace_file(self.path, layout.parts, sync=self._sync)
        except ours(OSError):
            self._draft = draft  # its texts are where they were
            raise
        self._last_file.take(fd)
        layout.written(fd)
        self.size = layout.size
        draft.spool.close()
        self._draft = draft

    def close(self) -> None:
        """Close the files and forget what was read of the journal. A later write reads it from the beginning."""
        with self._lock:
            self._draft = None
            self._last_file.close()

    def _new_draft(self) -> Draft:
        if not self._in_place():
            raise FileNotFoundError(f"{self._journal_path} has been moved or removed; its document is not written")
        limit = self.limits.inline_bytes if self._auto and self._history == "inline" else math.inf
        return Draft(
            self._journal_path, self._history, self._carry_over, limit=limit, status=self._status, limits=self.limits
        )

    def _up_to_date(self) -> tuple[Draft, Layout]:
        draft, self._draft = self._draft, None  # if Ctrl-C interrupts this, the next write starts over
        if draft is None or self._last_file.changed() or not draft.journal.is_in_place():
            draft = self._new_draft()
        while True:
            try:
                draft.read_new_records()
                layout = draft.layout()
                self._history = draft.history
                return draft, layout
            except StaleDraftError:
                pass
            draft = self._new_draft()


class _LastFile:
    """The file that was written last, kept open to copy from: its name may have been changed or removed."""

    def __init__(self) -> None:
        self._file: Descriptor | None = None
        self._seen: object = None

    def take(self, fd: int) -> None:
        """Replace it by the next one."""
        file = Descriptor(fd)
        last, self._file = self._file, file  # Ctrl-C after this leaves `last` open, but never closes it twice
        self._seen = _size_and_time(os.fstat(fd))
        if last is not None:
            try:
                last.close()
            except ours(OSError):
                pass  # the next file has its name already

    def changed(self) -> bool:
        """Whether another party has written to it or closed its descriptor."""
        try:
            return self._file is not None and _size_and_time(self._file.stat()) != self._seen
        except ours(OSError):
            return True

    def close(self) -> None:
        """Close it. Raises OSError if the system reports only now that a write failed."""
        last, self._file = self._file, None
        if last is not None:
            last.close()


_size_and_time = attrgetter("st_size", "st_mtime_ns")


class WriteScheduler:
    """Decides when the document is written: before a recording call returns, or by a background thread.

    `guarded` keeps exceptions of what runs inside it away from the agent.
    """

    def __init__(self, document_writer: DocumentWriter, guarded: AbstractContextManager[object, bool | None]) -> None:
        self._document_writer = document_writer
        self._small_bytes = document_writer.limits.small_bytes
        self._cost_multiple = document_writer.limits.cost_multiple
        self._guarded = guarded
        self._thread_lock = threading.RLock()
        self._wakings: SimpleQueue[None] = SimpleQueue()
        self._thread_id = 0
        self._ended: Event | None = None
        self._closed = Event()
        self._due = False
        self._idle = True
        self._affordable_at = 0.0
        self._urgent = False
        self._thread_is_writing = False
        self._pending_records = 0
        self._journal_end = self._written_end = 0

    def is_due(self, when: When, end: int) -> bool:
        """Whether the caller, who has written a record, is to call `save`; if not, the thread will write the document.

        `when` says when the document is to show the record, `end` is the size of the journal in bytes. Called without
        the run's lock.
        """
        self._pending_records += 1
        self._journal_end = end
        if self._document_writer.size <= self._small_bytes and (
            when == "now" or (when == "when cheap" and not is_background() and self._is_affordable())
        ):
            self._due = False
            return True
        self._due = True
        if self._idle:
            if self._ended is None:
                self._start_thread()
            self._wakings.put(None)
        return False

    def _is_affordable(self) -> bool:
        """Whether little is new, and a write costs little compared to the time since the last one."""
        return (
            self._pending_records <= MAX_PENDING_RECORDS
            and self._journal_end - self._written_end <= self._small_bytes
            and not self._thread_is_writing
            and time.perf_counter() >= self._affordable_at
        )

    def _start_thread(self) -> None:
        with self._guarded, self._thread_lock:
            if self._ended is None:
                ended = Event()
                run = partial(run_yielding, partial(self._run, ended), lambda: self._urgent)
                start_thread(run, "trace_recorder document")
                self._ended = ended  # not before: if the thread cannot be started, the next record tries again

    def save(self) -> None:
        """Write the document now, in the calling thread."""
        self._urgent = True  # a background write holds the lock: let it go on without pauses
        if stack_has_room(MIN_FREE_FRAMES):
            self._write()
        else:  # the agent is deep in a recursion, and this thread's stack has no room
            with self._guarded:
                written = Event()
                start_thread(partial(self._write_aside, written), "trace_recorder document")
                written.wait()

    def _write_aside(self, written: Event) -> None:
        try:
            self._write()
        finally:
            written.set()

    def _write(self) -> None:
        began = time.thread_time()
        self._pending_records, self._written_end = 0, self._journal_end
        with self._guarded:
            self._document_writer.write()
        self._affordable_at = time.perf_counter() + self._cost_multiple * (time.thread_time() - began)

    def close(self) -> None:
        """Write the document for the last time, and end the thread."""
        self._urgent = True
        self._closed.set()
        self._wakings.put(None)
        if self._ended is not None and self._thread_id != threading.get_ident():
            self._ended.wait(MAX_JOIN_SECONDS)
        self.save()

    def release(self) -> None:
        """Close the files that were kept for the next write. A write that comes all the same takes longer."""
        with self._guarded:
            self._document_writer.close()

    def _run(self, ended: Event) -> None:
        """The body of the background thread.

        Nobody else keeps the thread object, so it is freed in this thread. Freeing it runs a destructor of Python, and
        Ctrl-C is lost in there if that is the main thread.
        """
        self._thread_id = threading.get_ident()
        try:
            self._work()
        finally:
            ended.set()
            self._wakings.put(None)  # if Ctrl-C came while a thread was started, there may be another one

    def _work(self) -> None:
        pause = SHOW_DELAY_SECONDS
        while True:
            self._idle = True
            while not (self._due or self._closed.is_set()):
                self._wakings.get()
            self._idle = False  # until this is True again, records need not wake the thread
            if self._closed.wait(pause):
                return
            pause = SHOW_DELAY_SECONDS
            if self._due:  # else a recording call has written it meanwhile
                self._due = self._urgent = False
                self._thread_is_writing = True
                try:
                    self._write()
                finally:
                    self._thread_is_writing = False
                pause = max(SHOW_DELAY_SECONDS, self._affordable_at - time.perf_counter())
