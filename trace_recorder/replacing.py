"""Replacing a file at once: a reader sees the old content or the new, and never half of either.

Where the system can exchange two names (Linux), that is used and the old file removed: replacing by rename makes
ext4 allocate and write out the new file's blocks before the call returns, which costs many times the rest.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from zlib import crc32

from trace_recorder.journal import BINARY, sync_directory

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def replace_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Give `path` this content, mode 0600; with `sync`, on disk on return. OSError leaves the old one."""
    temporary = f"{path.parent}{os.sep}.{os.getpid()}.{crc32(os.fsencode(path.name)):08x}.tmp"
    try:
        _write(temporary, content, sync=sync)
        if sync or not _exchange(temporary, str(path)):
            os.replace(temporary, path)  # noqa: PTH105 - on the path of every record
        else:
            os.unlink(temporary)  # noqa: PTH108
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    if sync:
        sync_directory(path.parent)


def _write(path: str, content: bytes, *, sync: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o600)
    try:
        written = os.write(fd, content)
        while written < len(content):
            written += os.write(fd, content[written:])
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def _exchange(one: str, other: str) -> bool:
    """Exchange two names; False where the system cannot, or the other does not exist."""
    call = _renameat2()
    if call is None or not os.path.isfile(other):  # noqa: PTH113
        return False
    return call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    try:
        call = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    exchange: Callable[[int, bytes, int, bytes, int], int] = call
    return exchange
