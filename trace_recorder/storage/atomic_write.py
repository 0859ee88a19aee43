"""Atomic writes: a reader sees the old content of a file or the new, never a part of either.

Where the system can exchange two names (Linux), that is used, and the old file is removed: to replace a file by rename,
ext4 first allocates and writes the new blocks, which costs many times the rest. What the new content has in common with
the old is copied by the system from file to file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple, TypeVar
from zlib import crc32

from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.atomic_rename import exchange_names
from trace_recorder.storage.file_descriptor import close_ignoring_errors
from trace_recorder.storage.file_system import BINARY, sync_directory, sync_file

_COPY_BYTES = 1024 * 1024
"""How many bytes are copied at a time where the system cannot copy by itself."""
_MAX_BUFFERS = 1000
"""How many buffers one `writev` gets; Linux accepts 1,024."""


Named = TypeVar("Named")


class Span(NamedTuple):
    """A range of bytes of an open file."""

    fd: int
    offset: int
    length: int


def replace_file(path: Path, content: Iterable[bytes | Span], *, sync: bool = False) -> int:
    """Replace the content of `path`, mode 0600, and return a descriptor that reads it; with `sync`, it is on disk.

    Raises OSError; the old content is then unchanged.
    """
    temporary = f"{path.parent}{os.sep}.{os.getpid()}.{crc32(os.fsencode(path.name)):08x}.tmp"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY
    try:
        fd = os.open(temporary, flags, 0o600)
    except ours(FileExistsError):  # a process of this number was killed while it wrote
        os.unlink(temporary)  # noqa: PTH108 - called for every record; so below
        fd = os.open(temporary, flags, 0o600)
    try:
        write_all(fd, content)
        if sync:
            sync_file(fd)
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
        close_ignoring_errors(fd)
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    return fd


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


def write_all(fd: int, content: Iterable[bytes | Span]) -> None:
    """Write this content to an open file. Raises OSError."""
    waiting: list[bytes] = []
    size = 0
    for part in content:
        long = part if isinstance(part, Span) and part.length >= _COPY_BYTES else None
        if long is None:
            waiting.append(_read_span(part) if isinstance(part, Span) else part)
            size += len(waiting[-1])
            if size < _COPY_BYTES:
                continue
        _write_buffers(fd, waiting)
        waiting.clear()
        size = 0
        if long is not None:
            _copy_span(fd, long)
    _write_buffers(fd, waiting)


def _write_buffers(fd: int, texts: Sequence[bytes]) -> None:
    """Write buffers one after another, without joining them where the system supports that."""
    for start in range(0, len(texts), _MAX_BUFFERS):
        some = texts[start : start + _MAX_BUFFERS]
        written = os.writev(fd, some) if hasattr(os, "writev") else 0
        if written < sum(map(len, some)):
            view = memoryview(b"".join(some))[written:]
            while view:
                view = view[os.write(fd, view) :]


def _copy_span(fd: int, span: Span) -> None:
    """Copy a long range, by the system alone where it can."""
    done = 0
    while done < span.length:
        rest = Span(span.fd, span.offset + done, min(span.length - done, _COPY_BYTES))
        copied = _send_file(fd, rest)
        if not copied:
            _write_buffers(fd, [_read_span(rest)])
            copied = rest.length
        done += copied


def _read_span(span: Span) -> bytes:
    text = os.pread(span.fd, span.length, span.offset)
    if len(text) < span.length:
        raise OSError(f"{span.length - len(text)} bytes are missing of the document's last writing")
    return text


def _send_file(fd: int, span: Span) -> int:
    """Let the system copy, and return how many bytes; 0 where it cannot."""
    if not hasattr(os, "sendfile"):
        return 0
    try:
        return os.sendfile(fd, span.fd, span.offset, span.length)
    except ours(OSError):
        return 0  # not supported between these files, or no space: then writing fails too
