"""The writer of the journal, an append-only file of records with one JSON object on each line.

    {"seq":17,"time":"2025-06-12T22:05:46.433797+00:00","kind":"llm_request","data":{…},"crc":"9f3a01bc"}

`crc` is the CRC-32 of the line's bytes before `,"crc"`. Invariants: the whole record is on file before `append`
returns. A written record never changes. `seq` has no gaps. `journal_reader.py` reads the file, and `file_system.py`
finds out whether a process still writes it. This module does not know the meaning of records.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.atomic_write import create_filled, rename_exclusive
from trace_recorder.storage.file_system import (
    BINARY,
    Descriptor,
    close_ignoring_errors,
    lock,
    sync_directory,
    sync_file,
    warn_once,
)
from trace_recorder.storage.journal_lines import Data, NewRecord, lines_in_pieces

_COPY_BYTES = 1 << 20
"""The content of a removed journal is copied to a new file in blocks of this many bytes."""

_JOINED_BYTES = 256 * 1024
"""If the lines of one write have at most this many bytes together, their pieces are joined and written by `write`.

Otherwise the pieces are written by `writev`, if there are at most `_MOST_PIECES`.
"""
_MOST_PIECES = 1000
"""One `writev` writes at most this many pieces. Systems accept 1,024."""


class PendingWrite(NamedTuple):
    """A write that has not returned yet."""

    seq: int
    """The number of its first record."""
    before: int
    """The size of the file before the write."""
    sizes: list[int]
    """The sizes of its lines."""


class Journal:
    """The writer of one journal. The file is locked until it is closed.

    Not thread-safe: the caller holds the run's lock. That lock is re-entrant, so a signal handler or a destructor may
    append in the middle of another append of the same thread. Comments say how each step copes with such an append.
    """

    def __init__(self, fd: int, path: Path, *, sync: bool = False) -> None:
        self.path = path
        self.next_seq = 1
        self.end = -1
        """The position of the end of the last record, in bytes, or -1 if it is not certain."""
        self._file: Descriptor | None = Descriptor(fd)
        self._closed: Descriptor | None = None
        self.sync = sync
        self.is_removed = False
        """Whether the file had no name any more when the last record was written.

        Such a file is lost when it is closed.
        """
        self._torn = False
        self._pending: PendingWrite | None = None
        self._pid = os.getpid()

    @classmethod
    def create(cls, path: Path, *, sync: bool = False) -> Journal:
        """Create the journal `path`.

        The file is locked before it has this name. Raises FileExistsError if the name is taken, and any other OSError.
        If `sync` is True, the directory entry is on disk on return.
        """
        return cls(_create_locked(path, lambda _: None, sync=sync), path, sync=sync)

    def append(self, kind: str, data: Data, time: str) -> int:
        """Write one record as `append_all` does, and return its number."""
        return self.append_all([(kind, data)], time)

    def append_all(self, records: Sequence[NewRecord], time: str) -> int:
        """Write records, each a kind and its data, by one `write`. Return the number of the last record.

        On return the records survive `kill -9`. If `sync` is True, they also survive a power loss. Raises OSError if
        the system refuses. The file then ends where it ended before the failed write. If that is not possible, the next
        append begins with a newline, so that only the torn line is damaged.
        """
        while True:
            file = self._file
            state = None if file is None else file.own_stat()
            if file is None or state is None:
                fd = self._open_again()
            else:
                fd, self.is_removed = file.number, state.st_nlink == 0
            if self._pending is not None:
                self._resolve_pending_write()
            seq, before = self.next_seq, self.end if self.end >= 0 else self.size
            lines = lines_in_pieces(records, seq, time)
            if self._torn:
                lines[0] = (b"\n", *lines[0])
            sizes = [sum(map(len, line)) for line in lines]
            pending, length, count = PendingWrite(seq, before, sizes), sum(sizes), len(lines)
            pieces = list(chain.from_iterable(lines))
            write, text = (os.write, b"".join(pieces)) if length <= _JOINED_BYTES else _large_write(pieces)
            written = 0
            if self.next_seq == seq:  # otherwise a signal handler, or a destructor, has appended meanwhile
                break
        # Python runs handlers of signals only at certain instructions, such as the end of a call. There is none between
        # the comparison above and `os.write`, so nothing can be appended in between under the same numbers.
        try:
            self._pending, self.next_seq = pending, seq + count
            written = write(fd, text)
            if written != length:
                what = f"only {written} of {length} bytes of a record could be written to {self.path}"
                # The system writes less than it was given if there is no more room.
                raise OSError(errno.ENOSPC, what)  # noqa: TRY301 - handled below like the system's own errors
            if self.sync:
                sync_file(fd)
        except ours(OSError):
            self._undo_failed_write(pending, written)
            raise
        if self._pending is pending:  # otherwise a handler has called `_resolve_pending_write`, and appended more
            self._torn, self._pending, self.end = False, None, before + length
        return seq + count - 1

    def _undo_failed_write(self, pending: PendingWrite, written: int) -> None:
        """Remove the bytes of a failed write from the file.

        The old end is computed from the real size of the file, because other code may have cut the file.
        """
        with suppress(OSError):
            before, number = self.size - written, self._open.number
            moved = PendingWrite(pending.seq, before, pending.sizes)
            if self._pending is pending:
                self._pending = moved
                os.ftruncate(number, before)
        with suppress(OSError):
            self._resolve_pending_write()

    def _resolve_pending_write(self) -> None:
        """Find out how many records of the last write are on file, if an error or Ctrl-C has interrupted the write.

        The count is computed from the size of the file. Records whose lines are complete keep their numbers.
        """
        pending = self._pending
        if pending is None:
            return
        seq, before, sizes = pending
        end = self.size
        remaining = end - before
        whole = 0
        while whole < len(sizes) and remaining >= sizes[whole] - 1:  # a record is whole without its newline too
            remaining -= sizes[whole]
            whole += 1
        torn = remaining != 0 or (self._torn and whole == 0)
        # Otherwise a handler has done this. No function is called after the comparison, so no handler can run before
        # the end.
        if self._pending is pending:
            self._torn, self.end = torn, end
            self.next_seq = seq + whole  # numbers have no gaps: the number of a torn record is used again
            self._pending = None

    @property
    def size(self) -> int:
        """The size of the file in bytes.

        The size comes from the system, because Ctrl-C could make a counter of our own wrong.
        """
        return self._open.stat().st_size

    @property
    def _open(self) -> Descriptor:
        if self._file is None:
            raise OSError(errno.EBADF, "the journal has been closed", str(self.path))
        return self._file

    def _open_again(self) -> int:
        """Open the file again after other code has closed its descriptor. Return the new descriptor."""
        self._file = file = self._open_by_name(self._open)
        warn_once("other code closed the descriptor of a journal (os.closerange does); it has been opened again")
        return file.number

    def _open_by_name(self, file: Descriptor) -> Descriptor:
        """Open this file by its name, and lock it. Raises OSError, for example if the name belongs to another file."""
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | BINARY)
        if not file.is_file_of(os.fstat(fd)):
            close_ignoring_errors(fd)
            raise FileNotFoundError(f"the descriptor of {self.path} was closed, and another file has its name")
        lock(fd)
        return Descriptor(fd)

    def is_in_place(self) -> bool:
        """Return whether `path` still names this file, open or closed. Other code may move, remove or replace it."""
        file = self._file or self._closed
        return file is not None and file.has_name(self.path)

    def recreate(self) -> None:
        """Create a removed file again, with everything that was written to it.

        Raises FileExistsError if another file has the journal's name. May raise any other OSError.
        """
        if self.path.exists():  # before the copy, which may take long
            raise FileExistsError(f"{self.path} was removed, and another file has its name")
        old = self._open
        self._file = Descriptor(_create_locked(self.path, self._copy_to, sync=self.sync))
        self.is_removed = False
        with suppress(OSError):
            old.close()  # a late write error of the old file does not matter, because its content has been copied

    def _copy_to(self, fd: int) -> None:
        at, size = 0, self.size
        while at < size:
            at += os.write(fd, os.pread(self._open.number, min(size - at, _COPY_BYTES), at))
        if self.sync:
            sync_file(fd)

    def discard_if_empty(self) -> None:
        """Remove the file if it is open and empty, and this is the process that created it."""
        if self._file is not None and self._pid == os.getpid() and self._file.own_stat() and self.size == 0:
            if self.is_in_place():
                with suppress(FileNotFoundError):
                    self.path.unlink()
            with suppress(OSError):
                self.close()

    def close(self) -> None:
        """Close the file, which releases its lock. Do nothing if the file is closed already.

        Raises OSError if the system reports only now that it could not write everything, as on NFS.
        """
        file, self._file = self._file, None
        if file is not None:
            self._closed = file
            file.close()

    def reopen(self) -> None:
        """Open the file again after `close`, to append more.

        Raises OSError, for example if the name belongs to another file.
        """
        if self._file is None and self._closed is not None:
            self._file = self._open_by_name(self._closed)


def _large_write(pieces: list[bytes]) -> tuple[Callable[[int, Any], int], Any]:
    """Return the function of `os` that writes these pieces at once, and the second argument for that function."""
    if len(pieces) > _MOST_PIECES or not hasattr(os, "writev"):
        return os.write, b"".join(pieces)
    return os.writev, pieces


def _create_locked(path: Path, fill: Callable[[int], None], *, sync: bool) -> int:
    """Create a file, and lock and fill it before it has the name `path`. Return its open descriptor. Raises OSError."""
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")

    def lock_and_fill(fd: int) -> None:
        lock(fd)
        fill(fd)

    fd, _ = create_filled(temporary, lock_and_fill, lambda filled: rename_exclusive(filled, path))
    if sync:
        sync_directory(path.parent)
    return fd
