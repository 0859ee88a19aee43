"""Writes files atomically: a reader sees the whole old content of a file, or the whole new content.

The new content is first written to a temporary file. On Linux, the temporary file and the old file then exchange their
names, and the old file is removed. Otherwise the temporary file is renamed to the name of the old file. On ext4 such a
rename is slow, because it first allocates and writes the new blocks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias, TypeVar
from zlib import crc32

from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.file_system import BINARY, Descriptor, close_ignoring_errors, sync_directory, sync_file

_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2


def rename_exclusive(path: str | Path, name: str | Path) -> None:
    """Rename a file to a name that is free. Raises FileExistsError if the name is taken, and any other OSError."""
    failed = _rename_with_flags(path, name, _NOREPLACE)
    if failed == 0:
        return
    # a sandbox that forbids the call gives EPERM
    if failed not in (None, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
        raise OSError(failed, os.strerror(failed), str(name))
    try:
        os.link(path, name)
    except ours(FileExistsError, FileNotFoundError):
        raise
    except ours(OSError):  # no support of hard links either: create a file exclusively, then rename over it
        close_ignoring_errors(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(path, name)  # noqa: PTH105 - as the calls around it
    else:
        os.unlink(path)  # noqa: PTH108


def exchange_names(path: str | Path, other: str | Path) -> bool:
    """Exchange the names of two files. Return False if the system refuses, or if one file does not exist."""
    return _rename_with_flags(path, other, _EXCHANGE) == 0


def _rename_with_flags(source: str | Path, target: str | Path, flags: int) -> int | None:
    """Call Linux's renameat2. Return its error number, 0 for success, or None if the system does not have this call."""
    call, names = _renameat2(), (os.fsencode(source), os.fsencode(target))
    if b"\0" in names[0] + names[1]:  # C would read the name up to this byte only
        raise ValueError("embedded null byte")
    if call is None:
        return None
    if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flags) == 0:
        return 0
    return int(import_module("ctypes").get_errno())


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    try:
        ctypes = import_module("ctypes")  # imported only here: it takes milliseconds
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except ours(ImportError, OSError, TypeError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    made: Callable[[int, bytes, int, bytes, int], int] = call
    return made


_GATHERED_BYTES = 256 * 1024
"""Bytes are collected, and written when there are at least this many."""
_MAX_BUFFERS = 1000
"""One `writev` writes at most this many buffers. Linux accepts 1,024."""


Named = TypeVar("Named")
Buffer: TypeAlias = "bytes | memoryview"


def replace_file(path: Path, content: Iterable[Buffer], *, sync: bool = False) -> None:
    """Replace the file `path` by a file with this content and the mode 0600.

    If `sync` is True, the new content is on disk on return.

    Raises OSError, and the exceptions of `content`. After an exception, the file has its old content.
    """
    temporary = f"{path.parent}{os.sep}.{os.getpid()}.{crc32(os.fsencode(path.name)):08x}.tmp"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY
    try:
        fd = os.open(temporary, flags, 0o600)
    except ours(FileExistsError):  # a process with the same id was killed while it wrote
        os.unlink(temporary)  # noqa: PTH108 - faster than `Path.unlink`; so below
        fd = os.open(temporary, flags, 0o600)
    try:
        try:
            write_all(fd, content)
            if sync:
                sync_file(fd)
        finally:
            os.close(fd)  # before the rename, because only this may report that not all bytes were written
        try:
            is_file = not sync and S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - `isfile` swallows an alarm's exception
        except ours(OSError):
            is_file = False
        if not is_file or not exchange_names(temporary, path):
            os.replace(temporary, path)  # noqa: PTH105 - which does not replace a directory of that name
        else:
            os.unlink(temporary)  # noqa: PTH108
        if sync:
            sync_directory(path.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def create_filled(
    temporary: Path, fill: Callable[[int], None], take_name: Callable[[Path], Named]
) -> tuple[int, Named]:
    """Create a file with mode 0600 at the path `temporary`.

    `fill` writes its content. Then `take_name` renames it. Return the descriptor, which is open for appending, and the
    result of `take_name`. A process that is killed leaves at most the temporary file. Raises OSError, and the
    exceptions of the two functions. After an exception, no file is left.
    """
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | BINARY, 0o600)
    try:
        fill(fd)
        return fd, take_name(temporary)
    except BaseException:
        close_ignoring_errors(fd)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_all(fd: int, content: Iterable[Buffer]) -> None:
    """Write all of this content to an open file, from its current position on. Raises OSError."""
    waiting: list[Buffer] = []
    size = 0
    for part in content:
        waiting.append(part)
        size += len(part)
        if size >= _GATHERED_BYTES:
            _write_buffers(fd, waiting)
            waiting.clear()
            size = 0
        del part  # otherwise a long part would stay in memory while `content` makes the next part
    _write_buffers(fd, waiting)


class SpooledBytes:
    """Bytes that will be written to a file later.

    If they are more than 256 KB, they are kept in a temporary file in `directory`, and not in memory. The name of the
    temporary file is removed as soon as the file is open, so a process that is killed leaves no file. The user of this
    object calls `close`. A destructor does not close the file, because Python drops an exception that a signal handler
    raises in a destructor.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting: list[Buffer] = []
        self._size = 0
        self._file: Descriptor | None = None

    def close(self) -> None:
        """Forget the bytes in the temporary file, and close it."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # nobody needs the file any more
                file.close()

    def append(self, parts: Collection[Buffer]) -> None:
        """Append bytes. Raises OSError."""
        self._waiting += parts
        self._size += sum(map(len, parts))
        if self._size > _GATHERED_BYTES:
            if self._file is None:
                self._file = _create_unnamed(self._directory)
            write_all(self._file.number, self._waiting)
            self._waiting.clear()
            self._size = 0

    def content(self) -> Iterator[Buffer]:
        """Yield all bytes in parts. Raises OSError."""
        offset = 0
        while self._file is not None and (part := os.pread(self._file.number, _GATHERED_BYTES, offset)):
            offset += len(part)
            yield part
        yield b"".join(self._waiting)


def _create_unnamed(directory: Path) -> Descriptor:
    temporary = f"{directory}{os.sep}.{os.urandom(8).hex()}.tmp"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY | getattr(os, "O_TEMPORARY", 0)
    fd = os.open(temporary, flags, 0o600)
    if not hasattr(os, "O_TEMPORARY"):  # Windows removes the file when it is closed
        os.unlink(temporary)  # noqa: PTH108
    return Descriptor(fd)


def _write_buffers(fd: int, texts: Sequence[Buffer]) -> None:
    """Write all bytes of these buffers, one buffer after another.

    The buffers are joined only if the system has no `writev`, or did not write everything.
    """
    for start in range(0, len(texts), _MAX_BUFFERS):
        some = texts[start : start + _MAX_BUFFERS]
        written = 0
        if hasattr(os, "writev"):
            written = os.writev(fd, some)
        if written < sum(map(len, some)):
            view = memoryview(b"".join(some))[written:]
            while view:
                view = view[os.write(fd, view) :]
