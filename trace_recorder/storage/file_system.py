"""What is asked of the file system that it may not support: advisory locks, and writing to disk at once.

Where it does not support one of them, that is logged once in a process, and recording goes on without it.
"""

from __future__ import annotations

import errno
import logging
import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.file_descriptor import close_ignoring_errors

fcntl: ModuleType | None
try:
    fcntl = import_module("fcntl")
except ImportError:  # pragma: no cover - Windows has no advisory locks of this kind
    fcntl = None

logger = logging.getLogger("trace_recorder")

BINARY = getattr(os, "O_BINARY", 0)
"""The flag without which Windows opens files as text; 0 elsewhere."""
UNSUPPORTED = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL})
"""The errors by which a file system says that it has no locks, or cannot flush a directory."""

_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning about this system, the first time that it is given in this process."""
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
    """Write a file, or a directory, to disk. Raises OSError, but not where the file system does not support it."""
    try:
        os.fsync(fd)
    except ours(OSError) as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system does not support writing to disk at once ({error.strerror})")


def lock(fd: int, *, shared: bool = False) -> bool | None:
    """Lock an open file without waiting; False where another process holds it, None where locks are not supported."""
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
