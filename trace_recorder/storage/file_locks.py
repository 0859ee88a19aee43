"""Locks of files: whether the writer of a journal still runs, and which process works in a directory.

The writer takes an exclusive advisory lock (`flock`) on its file before the file has its name, and holds it until the
file is closed. The system releases the lock when the process dies. On one host, a journal has no writer if its lock is
free.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_recorder.signal_handlers import ours
from trace_recorder.storage import file_system
from trace_recorder.storage.file_system import Descriptor, close_ignoring_errors
from trace_recorder.storage.journal_reader import Record, read


def writer_is_alive(path: Path, host: str | None) -> bool | None:
    """Whether the writer of a journal still runs, or None if that is unknown, as for a writer on another host."""
    return is_locked(path) if host == socket.gethostname() else None


def is_locked(path: Path) -> bool | None:
    """Whether a process of this host holds the lock of a journal, or None if that is unknown."""
    if file_system.fcntl is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY)
    except ours(OSError):
        return None
    try:
        free = file_system.lock(fd, shared=True)
    except ours(OSError):
        return None
    finally:
        close_ignoring_errors(fd)  # this also releases the shared lock
    return None if free is None else not free


@contextlib.contextmanager
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
        locked = file_system.lock(fd)
        if locked is None and file_system.fcntl is not None:
            locked = any(isinstance(one, Record) and one.kind == "finalize" for one in read(path.read_bytes()))
        # between open and lock, the file may have been moved, and another one created under its name
        yield locked is not False and Descriptor(fd).has_name(path)
    finally:
        close_ignoring_errors(fd)


_WAIT_SECONDS = 0.05
_descriptors: set[int] = set()


@contextmanager
def directory_lock(directory: Path, *, wait: bool = False, shared: bool = False) -> Iterator[bool | None]:
    """Hold the lock of a directory in a block. Yield True if it is held, and False if another process holds it.

    With `wait`, wait for the other process. Yield None if the system or the file system has no locks. Raises OSError.
    """
    if file_system.fcntl is None:  # pragma: no cover - Windows
        yield None
        return
    fd = os.open(directory, os.O_RDONLY)
    _descriptors.add(fd)
    try:
        while (is_held := file_system.lock(fd, shared=shared)) is False and wait:
            time.sleep(_WAIT_SECONDS)
        yield is_held
    finally:
        _descriptors.discard(fd)
        os.close(fd)


def _close_in_child() -> None:
    """Close the descriptors in a forked process that reads runs. It must not hold the lock if the writer is killed."""
    for fd in _descriptors:
        os.close(fd)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
