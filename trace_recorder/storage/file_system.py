"""Functions that a file system may not support, and descriptors that the agent may close.

Not every file system supports advisory locks and writing to disk at once. If one of them is not supported, this is
logged once in a process, and recording continues without it. A `Descriptor` notices if the agent closed its number and
the system gave the number to another file.
"""

from __future__ import annotations

import errno
import logging
import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from trace_recorder.signal_handlers import ours

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
        warn_once(f"this file system does not support writing to disk at once ({error.strerror})")


def lock(fd: int, *, shared: bool = False) -> bool | None:
    """Lock an open file without waiting. Return False if another process holds it, None if locks are not supported."""
    if fcntl is None:  # pragma: no cover - Windows has no advisory locks of this kind
        return None
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except ours(BlockingIOError):
        return False
    except ours(OSError) as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system has no locks ({error.strerror}): whether a run goes on cannot be known from them")
        return None
    return True


class Descriptor:
    """An open file."""

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
            raise OSError(errno.EBADF, "the descriptor was closed by other code, and is another file's now")
        return state

    def own_stat(self) -> os.stat_result | None:
        """Return the file's status, or None if its number is closed or now belongs to another file."""
        try:
            state = os.fstat(self.number)
        except ours(OSError):
            return None
        return state if (state.st_dev, state.st_ino) == self._identity else None

    def is_file_of(self, state: os.stat_result) -> bool:
        """Whether a status belongs to this file."""
        return (state.st_dev, state.st_ino) == self._identity

    def has_name(self, path: Path) -> bool:
        """Whether this file has the name `path`."""
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
