"""Writes the document of a run during the run, in the caller's thread or in the document thread of the process.

A write reads the whole journal as it is at that moment. For the next write, only three values are kept: the cost of the
write, how many records it covered, and whether the messages were deltas.

Locks and threads:
- The run's lock, which protects the journal, is never taken here. The run releases its lock before it calls this
  module.
- `DocumentWriter._lock` is held during a write. The lock is re-entrant, because a signal handler or a destructor may
  record in the middle of a write, in the same thread. If a caller wants to write while the document thread writes, the
  thread stops between two calls of the run, and leaves the old document. So the caller need not wait for the whole
  write.
- Counters and flags are read and set without a lock. If an update is lost, the next write is a little early or late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from trace_recorder.background_work import Event, start_thread
from trace_recorder.locks import new_lock
from trace_recorder.reading.live_document.document_thread import DocumentLimits, process_thread
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.paths import temporary_path

_MIN_COUNTED_BYTES = 64 * 1024
"""A smaller journal is treated as if it had this size, because creating the file costs more than its content."""


class DocumentWriter:
    """Writes the document of one run. All methods may be called from any thread.

    `in_place` is called before the journal is opened, and returns whether the journal is still at its path. `guarded`
    is a context manager that keeps exceptions in its block away from the agent.
    """

    def __init__(
        self,
        journal: Path,
        path: Path,
        history: str,
        guarded: AbstractContextManager[object, bool | None],
        *,
        sync: bool,
        in_place: Callable[[], bool],
        limits: DocumentLimits,
    ) -> None:
        self.limits = limits
        self._journal = journal
        self._path = path
        self._history = history
        self._guarded = guarded
        self._sync = sync
        self._in_place = in_place
        self._lock = new_lock()
        self._requested = self._caller_waits = self._closed = False
        self._journal_end = self._records = self._damage = 0
        self._cost_of_byte = 0.0
        self._has_time: Callable[[], bool] = lambda: True
        self.is_left = False
        """Whether the document is left as it is until `close`."""

    def is_due(self, end: int, *, at_once: bool) -> bool:
        """Return whether the caller, which has written a record, must call `save`.

        If not, the document thread writes the document later.

        `end` is the size of the journal in bytes. `at_once` is True for records that the agent makes by hand. The
        caller must not hold the run's lock.
        """
        self._journal_end = end
        if at_once and end <= self.limits.at_once_bytes:
            return not self._closed
        if not self._closed and (process_thread.is_idle or self not in process_thread.waiting):
            with self._guarded:
                process_thread.add(self)
        return False

    def predicted_seconds(self) -> float:
        """Return the processor time in seconds that the next write will probably take, judging by the last write."""
        return self._cost_of_byte * max(self._journal_end, _MIN_COUNTED_BYTES)

    def is_writing_here(self) -> bool:
        """Return whether the current thread is in the middle of a write.

        Then a signal handler or a destructor has interrupted it.
        """
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def save(self) -> None:
        """Write the document now, in the calling thread.

        If the caller is interrupted by an exception, the document thread writes the document.
        """
        try:
            self._caller_waits = True
            process_thread.remove(self)
            with self._guarded:
                try:
                    self._write_requested(gives_way=False)
                except ours(RecursionError):  # the agent is deep in a recursion, but a new thread has an empty stack
                    self._write_in_other_thread()
        except BaseException:
            self._caller_waits = False
            self.is_due(self._journal_end, at_once=False)
            raise

    def _write_in_other_thread(self) -> None:
        written = Event()

        def write() -> None:
            try:
                with self._guarded:
                    self._write_requested(gives_way=False)
            except _OvertakenError:
                pass
            finally:
                written.set()

        start_thread(write, "trace_recorder document")
        written.wait()

    def write_in_thread(self) -> None:
        """Write the document in the document thread, unless a caller waits to write it, or the writer is closed."""
        try:
            with self._guarded:
                self._write_requested(gives_way=True)
        except _OvertakenError:
            self._caller_waits = False  # if the caller was interrupted a second time, it no longer waits

    def leave_until_close(self, has_time: Callable[[], bool]) -> None:
        """Leave the document as it is until `close`, which writes it only while `has_time` returns True."""
        self._has_time, self.is_left, self._closed = has_time, True, True
        process_thread.remove(self)

    def close(self) -> bool:
        """Write the document for the last time. Return False if there was no time for it."""
        self._closed = True
        try:
            self.save()
        except _OvertakenError:
            return False
        return True

    def _write_requested(self, *, gives_way: bool) -> None:
        self._requested = True
        # A signal handler or the garbage collector may call this in the middle of a write of the same thread. The outer
        # call then sees `_requested` and writes again. A flag in place of the lock could stay set after Ctrl-C.
        if self.is_writing_here():
            self._caller_waits = False
            return
        with self._lock:
            while self._requested:
                try:
                    self._requested = False
                    look = self._give_way if gives_way else self._stop_if_late
                    if not gives_way:
                        self._caller_waits = False
                    look()
                    self._write(look)
                except BaseException:
                    self._requested = True  # a caller that waits for the lock may have set this, and then it writes
                    raise

    def _write(self, look: Callable[[], None]) -> None:
        if not self._in_place():
            raise FileNotFoundError(f"{self._journal} has been moved or removed; its document is not written")
        began = time.thread_time()
        document = WholeDocument(self._journal, self._history, limits=self.limits, look=look)
        try:
            if document.damage == self._damage and document.records >= self._records:
                document.write(self._path, sync=self._sync)
            else:
                document.write_unless_poorer(self._path, temporary_path(self._path), sync=self._sync)
        finally:  # a failed write costs as much as a successful one, and is tried again
            self._cost_of_byte = (time.thread_time() - began) / max(document.journal_bytes, _MIN_COUNTED_BYTES)
        self._damage, self._records = document.damage, document.records
        if document.history == "delta":
            self._history = "delta"

    def _give_way(self) -> None:
        """Raise _OvertakenError if a caller waits to write the document, or the writer is closed."""
        if self._caller_waits or self._closed:
            raise _OvertakenError

    def _stop_if_late(self) -> None:
        """Raise _OvertakenError if there is no more time for the last document."""
        if not self._has_time():
            raise _OvertakenError

    def write_aside(self, aside: Path) -> None:
        """Write the document through the temporary file `aside`, because this thread is in the middle of a write.

        This thread therefore holds the lock already, and no other thread writes meanwhile.
        """
        self._requested = True  # if the interrupted write continues, the document is written once more after it
        WholeDocument(self._journal, self._history, limits=self.limits).write(aside, sync=self._sync)
        aside.replace(self._path)


class _OvertakenError(BaseException):
    """A caller waits to write the document that the document thread is writing, or there is no more time to write it.

    This is not a failure. It is a BaseException, because the guard would count an Exception as a failure.
    """
