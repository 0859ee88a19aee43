"""Flushes files to disk, notices closed descriptors, and locks files.

Some file systems do not support advisory locks or `fsync`. Each lack is logged once in a process, and recording
continues without the lock or the `fsync`. A `Descriptor` notices if the agent has closed the number of its file, and
the system has given this number to another file.

The writer of a journal takes an exclusive advisory lock (`flock`) on its file before the file has its name. The writer
holds the lock until it closes the file. The system releases the lock when the process dies. So if the lock of a journal
on this host is free, no process writes it.
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
from trace_recorder.storage.journal_reader import Record, read_records

fcntl: ModuleType | None
try:
    fcntl = import_module("fcntl")
except ImportError:  # pragma: no cover - Windows has no advisory locks of this kind
    fcntl = None

logger = logging.getLogger("trace_recorder")

BINARY = getattr(os, "O_BINARY", 0)
"""The flag without which Windows opens files as text. On other systems it is 0."""
UNSUPPORTED = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL})
"""The errors of a file system that does not support locks or `fsync`."""

_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning, unless this process has logged the same warning before."""
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
    """Flush a file, or a directory, to disk.

    Raises OSError. If the file system does not support `fsync`, this is only logged.
    """
    try:
        os.fsync(fd)
    except ours(OSError) as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system does not support fsync ({error.strerror})")


def lock(fd: int, *, shared: bool = False) -> bool | None:
    """Lock an open file without waiting.

    Return True if this process now holds the lock, and False if another process holds it. Return None if the system or
    the file system does not support locks.
    """
    if fcntl is None:  # pragma: no cover - Windows has no advisory locks of this kind
        return None
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except ours(BlockingIOError):
        return False
    except ours(OSError) as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system has no locks ({error.strerror}): whether a run is still recorded is unknown")
        return None
    return True


class Descriptor:
    """An open file, with the number of its descriptor.

    Before a method uses the number, it tests whether the number still belongs to this file.
    """

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
        """Return the file's status, or None if the descriptor was closed or its number now belongs to another file."""
        try:
            state = os.fstat(self.number)
        except ours(OSError):
            return None
        if (state.st_dev, state.st_ino) != self._identity:
            return None
        return state

    def is_file_of(self, state: os.stat_result) -> bool:
        """Return whether `state`, a result of `os.stat`, describes this file."""
        return (state.st_dev, state.st_ino) == self._identity

    def has_name(self, path: Path) -> bool:
        """Return whether this file has the name `path`."""
        try:
            return self.is_file_of(os.stat(path))  # noqa: PTH116 - called for every record
        except ours(OSError):
            return False

    def close(self) -> None:
        """Close the file, unless its number now belongs to another file.

        Raises OSError if not everything could be written.
        """
        if self.own_stat() is not None:
            os.close(self.number)


def close_ignoring_errors(number: int) -> None:
    """Close a file for which an error of `close` does not matter: it was only read, or is temporary."""
    try:
        os.close(number)
    except ours(OSError):
        pass


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def writer_is_alive(path: Path, host: str | None) -> bool | None:
    """Return whether a process still writes a journal.

    Return None if this is unknown: `host`, where the journal is written, is not this host, or locks are not supported.
    If the journal states no host, only a lock that a process of this host holds is known.
    """
    if host is None:
        return is_locked(path) or None
    if host != socket.gethostname():
        return None
    return is_locked(path)


def is_locked(path: Path) -> bool | None:
    """Return whether a process on this host holds the lock of a journal, or None if that is unknown."""
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
    if is_free is None:
        return None
    return not is_free


@contextmanager
def hold_file(path: Path) -> Iterator[bool | None]:
    """Lock a file of a run in a block, so that no other process writes or renames it.

    Yields whether that has succeeded. Yields False if there is no such file, True for a link to no file, and None if
    the file system has no locks.
    """
    if fcntl is None:  # pragma: no cover - Windows, where a file that we have open can be neither renamed nor deleted
        yield True
        return
    try:
        fd = os.open(path, os.O_RDONLY)
    except ours(FileNotFoundError):
        yield path.is_symlink()
        return
    try:
        locked = lock(fd)
        # between `open` and `lock`, another process may have renamed the file and created another file with its name
        yield locked if Descriptor(fd).has_name(path) else False
    finally:
        close_ignoring_errors(fd)


@contextmanager
def hold_lock(journal: Path) -> Iterator[bool]:
    """Lock a journal as `hold_file` does.

    If the file system has no locks, yields whether the journal has the last record of its run.
    """
    with hold_file(journal) as locked:
        if locked is not None:
            yield locked
            return
        records = (line for line in read_records(journal.read_bytes()) if isinstance(line, Record))
        yield any(record.kind == "finalize" for record in records)


_WAIT_SECONDS = 0.05
_descriptors: set[int] = set()


@contextmanager
def directory_lock(directory: Path, *, wait: bool = False, shared: bool = False) -> Iterator[bool | None]:
    """Lock a directory in a block.

    Yields True if this process holds the lock, and False if another process holds it. If `wait` is True, wait until the
    other process releases the lock. Yields None if the system or the file system has no locks. Raises OSError.
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
    """Close the descriptors of locked directories in a forked child.

    Otherwise the child would hold the locks after its parent, which took them, was killed.
    """
    for fd in _descriptors:
        os.close(fd)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
