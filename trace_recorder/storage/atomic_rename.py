"""Atomic renames: to a name only if it is free, and two names exchanged.

Linux has a system call for both, `renameat2`. Elsewhere a hard link takes a name, and names cannot be exchanged.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.file_descriptor import close_ignoring_errors

_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2


def rename_exclusive(path: str | Path, name: str | Path) -> None:
    """Rename a file to a name that is free. Raises FileExistsError where it is taken, and any other OSError."""
    failed = _rename_with_flags(path, name, _NOREPLACE)
    if failed == 0:
        return
    if failed not in (None, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):  # EPERM: a sandbox
        raise OSError(failed, os.strerror(failed), str(name))
    try:
        os.link(path, name)
    except ours(FileExistsError, FileNotFoundError):
        raise
    except ours(OSError):  # no hard links either: create the name exclusively, then rename over it
        close_ignoring_errors(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(path, name)  # noqa: PTH105 - as the calls around it
    else:
        os.unlink(path)  # noqa: PTH108


def exchange_names(one: str | Path, other: str | Path) -> bool:
    """Exchange the names of two files; False where the system cannot, or one does not exist."""
    return _rename_with_flags(one, other, _EXCHANGE) == 0


def _rename_with_flags(one: str | Path, other: str | Path, how: int) -> int | None:
    """Call renameat2. Return its error number, 0 for success, None where there is no such call."""
    call, names = _renameat2(), (os.fsencode(one), os.fsencode(other))
    if b"\0" in names[0] + names[1]:  # C would end the name there
        raise ValueError("embedded null byte")
    if call is None:
        return None
    if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], how) == 0:
        return 0
    return int(import_module("ctypes").get_errno())


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    try:
        ctypes = import_module("ctypes")  # not at import of the package: it takes milliseconds
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except ours(ImportError, OSError, TypeError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    made: Callable[[int, bytes, int, bytes, int], int] = call
    return made
