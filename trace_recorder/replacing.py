"""Replacing a file at once: a reader sees the old content or the new, and never half of either.

Where the system can exchange two names (Linux), that is used and the old file removed: replacing by rename makes
ext4 allocate and write out the new file's blocks before the call returns, which costs many times the rest.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from trace_recorder.journal import BINARY, sync_directory
from trace_recorder.renaming import exchange_names


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
    """Exchange two names; a directory that has taken the document's name stays where it is."""
    return os.path.isfile(other) and exchange_names(one, other)  # noqa: PTH113
