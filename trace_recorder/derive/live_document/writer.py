"""Snapshots: the journal so far, written as the document, while the run goes on.

A snapshot is written to a fresh temporary file and takes the last one's place: a reader never sees half of it, and
the last good one is never harmed. It is a function of the journal alone, which is read from where the last snapshot
stopped (`draft.py`).

While the document is small it is written before the recording call returns: for what the agent records itself always;
for a captured call where little is new and that costs at most a hundredth of the time since the last writing, as it
does beside any model. What is only under way, what comes faster than that, and all of a larger document is shown by a
thread of its own, when a hundred times the cost of its last writing has passed, but not within a twentieth of a second.
At the end it is written always.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from trace_recorder.background_work import AT_A_STRETCH, BREATH
from trace_recorder.derive.live_document.buffer import Layout
from trace_recorder.derive.live_document.draft import Draft
from trace_recorder.derive.live_document.steps import StaleDraftError, Told
from trace_recorder.guard import has_room
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.storage.file_descriptor import Descriptor
from trace_recorder.values.trajectory import History, Status

__records__ = True  # `guard.is_recording` looks for this name

SMALL = 256 * 1024
"""A document of up to this many bytes may be written before a recording call returns; a larger one is not."""
INLINE_LIMIT = 16 * 1024 * 1024
"""With history="auto", a document of more bytes than this is written with deltas."""
PATIENCE = 100
"""What can wait is written when this many times the cost of the last writing has passed."""
GIFTS = 3
"""So many times in a run a small document is written for a captured call though it costs more than that."""
CLOSE = 8
"""A recording call writes the document of so many records, and of `SMALL` bytes; where there is more, a thread does."""
TRIES = 100
"""So many tenths of a second the thread is waited for; one that is still writing then is waited for by the writing."""
ROOM = 500
"""How many frames of the stack are kept free for writing."""
SOON = 0.05
"""After how many seconds the document shows what is under way."""


When = Literal["at once", "in passing", "soon"]


class Snapshot:
    """Writes the document of one journal. `write` is the whole of it; it may be called from any thread."""

    def __init__(
        self,
        journal_path: Path,
        path: Path,
        history: str,
        *,
        sync: bool = False,
        in_place: Callable[[], bool] = lambda: True,
        status: Status = "running",
    ) -> None:
        self.path = path
        self.size = 0
        self._journal_path = journal_path
        self._in_place = in_place
        self._status = status
        self._auto = history == "auto"
        self._history: History = "delta" if history == "delta" else "inline"
        self._sync = sync
        self._lock = threading.RLock()
        self._again = False
        self._draft: Draft | None = None
        self._told = Told()
        self._last = _Last()

    def write(self, breathe: Callable[[], None] = lambda: None) -> None:
        """Bring the document up to date with the journal. Raises OSError where it cannot be written.

        `breathe` is called again and again: a thread that nobody waits for lets the others work meanwhile.
        """
        self._again = True
        if self._lock._is_owned():  # type: ignore[attr-defined]  # the garbage collector ended a stream in the middle
            return  # of this; a flag of our own could be left set by Ctrl-C
        with self._lock:
            while self._again:
                self._again = False
                self._write(breathe)

    def _write(self, breathe: Callable[[], None]) -> None:
        if not self._in_place():
            raise FileNotFoundError(f"{self._journal_path} has been moved or removed; its document is not written")
        draft, layout = self._up_to_date(breathe)
        try:
            fd = replace_file(self.path, layout, sync=self._sync)
        except OSError:
            self._draft = draft  # its pieces are where they were
            raise
        self._last.take(fd)
        layout.written(fd)
        self.size = layout.size
        draft.written()
        self._draft = draft

    def close(self) -> None:
        """Let go of the files, and of what is known of the journal; a later writing reads it anew."""
        with self._lock:
            self._draft = None
            self._last.close()

    def _new_draft(self) -> Draft:
        limit = INLINE_LIMIT if self._auto and self._history == "inline" else math.inf
        return Draft(self._journal_path, self._history, self._told, limit, self._status)

    def _up_to_date(self, breathe: Callable[[], None]) -> tuple[Draft, Layout]:
        draft, self._draft = self._draft, None  # interrupted in the middle, the journal is read anew
        if draft is None or self._last.changed() or not draft.is_in_place():
            draft = self._new_draft()
        while True:
            try:
                draft.read_on(breathe)
                layout = draft.layout()
                self._history = draft.history
                return draft, layout
            except StaleDraftError:
                pass
            draft = self._new_draft()


class _Last:
    """The file that was written last, open to be copied from: it may have been given another name, or none."""

    def __init__(self) -> None:
        self._file: Descriptor | None = None
        self._seen = (0, 0)

    def take(self, fd: int) -> None:
        """Take the next one."""
        file = Descriptor(fd)
        last, self._file = self._file, file  # closed last: Ctrl-C before that leaves it open, and never closes it twice
        self._seen = _state(file)
        if last is not None:
            with suppress(OSError):  # another has its name already
                last.close()

    def changed(self) -> bool:
        """Whether somebody has written to it, or closed it."""
        return self._file is not None and (not self._file.is_ours() or _state(self._file) != self._seen)

    def close(self) -> None:
        """Let go of it. Raises OSError where the system says only now that it could not write all of it."""
        last, self._file = self._file, None
        if last is not None:
            last.close()


def _state(file: Descriptor) -> tuple[int, int]:
    state = file.state()
    return state.st_size, state.st_mtime_ns


class Writer:
    """Decides when the snapshot is written: before a recording call returns, or by a thread that takes its time."""

    def __init__(self, snapshot: Snapshot, guarded: Callable[[Callable[[], None]], None]) -> None:
        self._snapshot = snapshot
        self._guarded = guarded
        self._wake = threading.Condition()
        self._thread_id = 0
        self._ended: threading.Event | None = None
        self._closed = False
        self._due = False
        self._idle = True
        self._gifts = GIFTS
        self._may = 0.0
        self._hurry = False
        self._at_work = False
        self._behind = 0
        self._end = self._shown = 0
        self._breath = 0.0

    def recorded(self, when: When, end: int) -> None:
        """Hear that a record was written, to where in the journal, and when the document is to show it."""
        self._behind += 1
        self._end = end
        if self._snapshot.size <= SMALL and (when == "at once" or (when == "in passing" and self._is_affordable())):
            self._due = False
            self.save()
            return
        self._due = True
        if self._idle:
            self._guarded(self._wake_up)

    def _is_affordable(self) -> bool:
        """Whether a writing costs little beside the time since the last one; a few in a row are, in any case."""
        if self._behind > CLOSE or self._end - self._shown > SMALL or self._at_work:
            return False
        if time.perf_counter() >= self._may:
            return True
        self._gifts -= 1
        return self._gifts >= 0

    def _wake_up(self) -> None:
        with self._wake:
            if self._ended is None:
                ended = threading.Event()
                thread = threading.Thread(target=self._run, args=(ended,), name="trace_recorder document", daemon=True)
                thread.start()
                self._ended = ended  # only now: where it cannot be started, the next record tries again
            self._wake.notify_all()

    def save(self) -> None:
        """Write the document now."""
        self._hurry = True  # whoever is writing now is waited for
        if has_room(ROOM):
            self._write(lambda: None)
        else:  # an agent deep in a recursion has no stack left for it
            thread = threading.Thread(target=self._write, args=(lambda: None,))
            thread.start()
            thread.join()

    def _write(self, breathe: Callable[[], None]) -> None:
        began = time.thread_time()
        self._behind, self._shown = 0, self._end
        self._guarded(partial(self._snapshot.write, breathe))
        self._may = time.perf_counter() + PATIENCE * (time.thread_time() - began)

    def _breathe(self) -> None:
        if not self._hurry and time.perf_counter() >= self._breath:
            time.sleep(BREATH)
            self._breath = time.perf_counter() + AT_A_STRETCH

    def close(self) -> None:
        """Write the last snapshot, and end the thread."""
        self._closed = self._hurry = True
        for _ in range(TRIES):  # again and again: Ctrl-C in the middle of a notification may have left a stale waiter
            if self._ended is None or self._thread_id == threading.get_ident() or self._ended.is_set():
                break
            with self._wake:
                self._wake.notify_all()
            self._ended.wait(0.1)
        self.save()

    def let_go(self) -> None:
        """Keep nothing that was needed for the next snapshot; where there is one all the same, it takes longer."""
        self._guarded(self._snapshot.close)

    def _run(self, ended: threading.Event) -> None:
        """Work until the end. Nobody else holds the thread, so that it goes in itself: where a thread object goes,
        a destructor of Python's runs, in which Ctrl-C is lost if that is the main thread.
        """
        self._thread_id = threading.get_ident()
        try:
            self._work()
        finally:
            ended.set()

    def _work(self) -> None:
        pause = SOON
        while True:
            with self._wake:
                self._idle = True
                self._wake.wait_for(lambda: self._due or self._closed)
                self._idle = False  # while this is so, what is recorded need not wake anybody
                if self._wake.wait_for(lambda: self._closed, timeout=pause):
                    return
            pause = SOON
            if self._due:  # it may have been written meanwhile
                self._due = self._hurry = False
                self._at_work = True
                try:
                    self._write(self._breathe)
                finally:
                    self._at_work = False
                pause = max(SOON, self._may - time.perf_counter())
