"""A file's descriptor that is known to be ours: by device and inode, not by its number alone.

A program may close descriptors that it did not open (`os.closerange`, as daemons do), and the system gives their
numbers to the next files. What is written, read or closed by the number alone would be somebody else's then.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path


class Descriptor:
    """An open file."""

    __slots__ = ("_identity", "number")

    def __init__(self, number: int) -> None:
        state = os.fstat(number)
        self.number = number
        self._identity = state.st_dev, state.st_ino

    def stat(self) -> os.stat_result:
        """What the system says of the file. Raises OSError where the number is nobody's, or another file's, by now."""
        state = os.fstat(self.number)
        if (state.st_dev, state.st_ino) != self._identity:
            raise OSError(errno.EBADF, "the descriptor was closed by somebody else, and is another file's by now")
        return state

    def is_ours(self) -> bool:
        """Whether the number is still this file's."""
        try:
            self.stat()
        except OSError:
            return False
        return True

    def is_file_of(self, state: os.stat_result) -> bool:
        """Whether this is the file of which the system says that."""
        return (state.st_dev, state.st_ino) == self._identity

    def has_name(self, path: Path) -> bool:
        """Whether this file has that name."""
        try:
            return self.is_file_of(os.stat(path))  # noqa: PTH116 - called for every record
        except OSError:
            return False

    def close(self) -> None:
        """Close it, unless the number is another's. Raises OSError where the system could not write all of it."""
        if self.is_ours():
            os.close(self.number)


def close_ignoring_errors(number: int) -> None:
    """Close a file of which nothing can be lost any more: it was only read, or is to be removed, or has been."""
    with suppress(OSError):
        os.close(number)
