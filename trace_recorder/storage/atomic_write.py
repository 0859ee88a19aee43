"""Atomic writes: a reader sees the old content of a file or the new, never a part of either.

Where the system can exchange two names (Linux), that is used, and the old file is removed: to replace a file by rename,
ext4 first allocates and writes the new blocks, which costs many times the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias, TypeVar
from zlib import crc32

from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.atomic_rename import exchange_names
from trace_recorder.storage.file_descriptor import close_ignoring_errors
from trace_recorder.storage.file_system import BINARY, sync_directory, sync_file

_GATHERED_BYTES = 256 * 1024
"""How many bytes are gathered before they are written."""
_MAX_BUFFERS = 1000
"""How many buffers one `writev` gets; Linux accepts 1,024."""


Named = TypeVar("Named")
Buffer: TypeAlias = "bytes | memoryview"


def replace_file(path: Path, content: Iterable[Buffer], *, sync: bool = False) -> None:
    """Replace the content of `path`, mode 0600; with `sync`, it is on disk on return.

    Raises OSError, and what `content` raises; the old content is then unchanged.
    """
    temporary = f"{path.parent}{os.sep}.{os.getpid()}.{crc32(os.fsencode(path.name)):08x}.tmp"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY
    try:
        fd = os.open(temporary, flags, 0o600)
    except ours(FileExistsError):  # a process of this number was killed while it wrote
        os.unlink(temporary)  # noqa: PTH108 - called for every record; so below
        fd = os.open(temporary, flags, 0o600)
    try:
        try:
            write_all(fd, content)
            if sync:
                sync_file(fd)
        finally:
            os.close(fd)  # before it has the name: the system may report only now that it could not write everything
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
    """Create a file, mode 0600, that has its content before it has its name: `take_name` renames it when it is filled.

    Return the open descriptor, which appends, and what `take_name` returned. A process that is killed leaves the
    temporary file at most. Raises OSError, and what the functions raise; there is no file then.
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
    """Write this content to an open file. Raises OSError."""
    waiting: list[Buffer] = []
    size = 0
    for part in content:
        waiting.append(part)
        size += len(part)
        if size >= _GATHERED_BYTES:
            _write_buffers(fd, waiting)
            waiting.clear()
            size = 0
        del part  # it may be long, and the next one is made meanwhile
    _write_buffers(fd, waiting)


def _write_buffers(fd: int, texts: Sequence[Buffer]) -> None:
    """Write buffers one after another, without joining them where the system supports that."""
    for start in range(0, len(texts), _MAX_BUFFERS):
        some = texts[start : start + _MAX_BUFFERS]
        written = os.writev(fd, some) if hasattr(os, "writev") else 0
        if written < sum(map(len, some)):
            view = memoryview(b"".join(some))[written:]
            while view:
                view = view[os.write(fd, view) :]
