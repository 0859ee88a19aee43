"""Functions that a file system may not support, descriptors that the agent may close, and locks of files.

Not every file system supports advisory locks and `fsync`. If one of them is not supported, this is logged once in a
process, and recording continues without it. A `Descriptor` notices if the agent closed its number and the system gave
the number to another file.

The writer of a journal takes an exclusive advisory lock (`flock`) on its file before the file has its name, and holds
the lock until the file is closed. The system releases the lock when the process dies. On one host, a journal has no
writer if its lock is free.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_reader import Record, read

fcntl: ModuleType | None
try:
    fcntl = import_module("fcntl")
except ImportError:  # pragma: no cover - Windows has no advisory locks of this kind
    fcntl = None

logger = logging.getLogger("trace_recorder")

BINARY = getattr(os, "O_BINARY", 0)
"""The flag without which Windows opens files as text. On other systems it is 0."""
UNSUPPORTED = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL})
"""The errors by which a file system says that it has no locks, or cannot flush a directory."""

_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning about this system, only the first time in this process."""
    if message not in _warned:
        _warned.add(message)
        logger.warning("%s", message)


def sync_directory(directory: Path) -> None:
    """Write a directory's entries to disk, so that a new or renamed file survives power loss. Raises OSError."""
    if os.name == "nt":  # Windows has no handle of a directory to flush
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        sync_file(fd)
    finally:
        close_ignoring_errors(fd)


def sync_file(fd: int) -> None:
    """Write a file, or a directory, to disk. Raises OSError, unless the file system does not support this."""
    try:
        os.fsync(fd)
    except ours(OSError) as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system does not support fsync ({error.strerror})")


def lock(fd: int, *, shared: bool = False) -> bool | None:
    """Lock an open file without waiting. Return False if another process holds the lock.

    Return None if locks are not supported.
    """
    if fcntl is None:  # pragma: no cover - Windows has no advisory locks of this kind
        return None
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except ours(BlockingIOError):
        return False
    except ours(OSError) as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system has no locks ({error.strerror}): whether a run is still recorded is unknown")
        return None
    return True


class Descriptor:
    """An open file. The methods notice if the number of the descriptor now belongs to another file."""

    __slots__ = ("_identity", "number")

    def __init__(self, number: int) -> None:
        state = os.fstat(number)
        self.number = number
        self._identity = state.st_dev, state.st_ino

    def stat(self) -> os.stat_result:
        """Return the file's status.

        Raises OSError if the descriptor was closed, or if its number now belongs to another file.
        """
        state = os.fstat(self.number)
        if (state.st_dev, state.st_ino) != self._identity:
            raise OSError(errno.EBADF, "other code closed the descriptor, and its number belongs to another file now")
        return state

    def own_stat(self) -> os.stat_result | None:
        """Return the file's status, or None if its number is closed or now belongs to another file."""
        try:
            state = os.fstat(self.number)
        except ours(OSError):
            return None
        return state if (state.st_dev, state.st_ino) == self._identity else None

    def is_file_of(self, state: os.stat_result) -> bool:
        """Return whether a result of `os.stat` is about this file."""
        return (state.st_dev, state.st_ino) == self._identity

    def has_name(self, path: Path) -> bool:
        """Return whether this file has the name `path`."""
        try:
            return self.is_file_of(os.stat(path))  # noqa: PTH116 - called for every record
        except ours(OSError):
            return False

    def close(self) -> None:
        """Close the file, unless its number is another file's. Raises OSError if not everything could be written."""
        if self.own_stat() is not None:
            os.close(self.number)


def close_ignoring_errors(number: int) -> None:
    """Close a file from which nothing can be lost: it was only read, or is temporary."""
    try:
        os.close(number)
    except ours(OSError):
        pass


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def writer_is_alive(path: Path, host: str | None) -> bool | None:
    """Return whether the writer of a journal still runs, or None if this is unknown, as on another host."""
    return is_locked(path) if host == socket.gethostname() else None


def is_locked(path: Path) -> bool | None:
    """Return whether a process of this host holds the lock of a journal, or None if that is unknown."""
    if fcntl is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY)
    except ours(OSError):
        return None
    try:
        is_free = lock(fd, shared=True)
    except ours(OSError):
        return None
    finally:
        close_ignoring_errors(fd)  # this also releases the shared lock
    return None if is_free is None else not is_free


@contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a journal that has no writer. Yields False if another process holds the lock.

    Yields True if there is no such file. On a file system without locks, yields True if the run has its end on file.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
    except ours(FileNotFoundError):
        yield True
        return
    try:
        locked = lock(fd)
        if locked is None and fcntl is not None:
            locked = any(isinstance(line, Record) and line.kind == "finalize" for line in read(path.read_bytes()))
        # between open and lock, the file may have been moved, and another one created under its name
        yield locked is not False and Descriptor(fd).has_name(path)
    finally:
        close_ignoring_errors(fd)


_WAIT_SECONDS = 0.05
_descriptors: set[int] = set()


@contextmanager
def directory_lock(directory: Path, *, wait: bool = False, shared: bool = False) -> Iterator[bool | None]:
    """Hold the lock of a directory in a block. Yield True if it is held, and False if another process holds it.

    If `wait` is True, wait for the other process. Yield None if the system or the file system has no locks. Raises
    OSError.
    """
    if fcntl is None:  # pragma: no cover - Windows
        yield None
        return
    fd = os.open(directory, os.O_RDONLY)
    _descriptors.add(fd)
    try:
        while (is_held := lock(fd, shared=shared)) is False and wait:
            time.sleep(_WAIT_SECONDS)
        yield is_held
    finally:
        _descriptors.discard(fd)
        os.close(fd)


def _close_in_child() -> None:
    """Close the descriptors in a forked process, which would hold the lock if its parent, the writer, is killed."""
    for fd in _descriptors:
        os.close(fd)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
