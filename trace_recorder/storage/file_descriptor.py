"""A file descriptor that is checked to be ours: by device and inode, not by its number alone.

A program may close descriptors that it did not open (`os.closerange`, as daemons do), and the system gives the numbers
to files that are opened later. Writing to, reading from or closing the number alone would then affect another file.
There is no lock between the check and the use: a thread of the agent could still close the number in between.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from trace_recorder.signal_handlers import ours


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
        """Return the file's status; None if the number is closed, or another file's now."""
        try:
            state = os.fstat(self.number)
        except ours(OSError):
            return None
        return state if (state.st_dev, state.st_ino) == self._identity else None

    def is_file_of(self, state: os.stat_result) -> bool:
        """Whether a status is that of this file."""
        return (state.st_dev, state.st_ino) == self._identity

    def has_name(self, path: Path) -> bool:
        """Whether this file has that name."""
        try:
            return self.is_file_of(os.stat(path))  # noqa: PTH116 - called for every record
        except ours(OSError):
            return False

    def close(self) -> None:
        """Close it, unless the number is another file's. Raises OSError where the system could not write everything."""
        if self.own_stat() is not None:
            os.close(self.number)


def close_ignoring_errors(number: int) -> None:
    """Close a file from which nothing can be lost: it was only read, or is temporary."""
    try:
        os.close(number)
    except ours(OSError):
        pass
