"""A lock on a directory, for processes that write files into it together: an index, or the files of tables.

It is `flock` on the directory itself, so that no file is left. It ends with the process that holds it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_recorder.storage import file_system

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
    """Close the descriptors in a process that reads runs: if the writer is killed, it must not hold the lock."""
    for fd in _descriptors:
        os.close(fd)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
