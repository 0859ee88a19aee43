"""Keeps copies of the files of remote stores on the local disk, so that a file is fetched once.

    copies/PLACE/RUN/VERSION/run.json    the copies of a run's files, in one version
    in-use/PID-RANDOM/run.json           hard links to copies, while a process reads them

A copy is written in a directory of its process, and then renamed. It is never changed. Any process may remove any copy:
whoever reads one has a hard link to it. So processes need no locks, and a killed process leaves only a directory in
`in-use`, which the next sweep of another process removes. The copies hold the texts of runs, so only their owner can
open the directory.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.paths import process_exists

CACHE_VARIABLE = "TRACE_RECORDER_CACHE"
"""The environment variable that names the directory of the copies."""
CACHE_BYTES_VARIABLE = "TRACE_RECORDER_CACHE_BYTES"
"""The environment variable that replaces `MAX_CACHE_BYTES`."""
MAX_CACHE_BYTES = 4_000_000_000
_ATTEMPTS = 3
_SWEEP_BYTES = 64_000_000
"""A process sweeps before its first copy, and again after it has added this many bytes."""


class _Version(NamedTuple):
    """A directory with the copies of one version of a run: when it was last used, and how large it is."""

    used: int
    size: int
    directory: Path


class CopyCache:
    """The copies in a directory. Its methods may be called by several threads and processes."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._copies = directory / "copies"
        self._in_use = directory / "in-use"
        self._max_bytes = max_bytes
        self._added_bytes = _SWEEP_BYTES
        for made in (directory, self._copies, self._in_use):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def working_directory(self) -> Iterator[Path]:
        """Yield a directory for files of this process. It is removed at the end of the block."""
        with tempfile.TemporaryDirectory(prefix=f"{os.getpid()}-", dir=self._in_use) as directory:
            yield Path(directory)

    def version(self, place: str, run: str, version: str) -> Path:
        """Return the directory with the copies of a run in this version. The directory may be missing."""
        return self._place(place) / run / _digest(version)

    def add(self, file: Path, version: Path, name: str) -> None:
        """Move a complete file to its place among the copies of a version, and remove other versions of its run."""
        if self._added_bytes >= _SWEEP_BYTES:
            self._added_bytes = 0
            self._sweep()
        self._added_bytes += _disk_bytes(file.stat())
        copy = version / name
        for _ in range(_ATTEMPTS):
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # another process has removed the directory in between
                file.replace(copy)
                break
        for other in version.parent.iterdir():
            if other.name != version.name:
                shutil.rmtree(other, ignore_errors=True)

    def keep_only(self, place: str, runs: Collection[str]) -> None:
        """Remove the copies of runs that are no longer at a place."""
        with suppress(FileNotFoundError), os.scandir(self._place(place)) as entries:
            for entry in entries:
                if entry.name not in runs:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _place(self, place: str) -> Path:
        return self._copies / _digest(place)

    def _sweep(self) -> None:
        """Remove what killed processes left, and the copies that were not used for longest, until the rest fits."""
        for directory in self._in_use.iterdir():
            if not process_exists(directory.name.partition("-")[0]):
                shutil.rmtree(directory, ignore_errors=True)
        versions = []
        for directory in self._copies.glob("*/*/*"):
            with suppress(OSError):  # another process has removed it
                sizes = [_disk_bytes(file.stat()) for file in directory.rglob("*") if file.is_file()]
                versions.append(_Version(directory.stat().st_mtime_ns, sum(sizes), directory))
        versions.sort(reverse=True)
        total = 0
        for version in versions:
            total += version.size
            if total > self._max_bytes:
                shutil.rmtree(version.directory, ignore_errors=True)
                with suppress(OSError):  # not empty
                    version.directory.parent.rmdir()
                    version.directory.parent.parent.rmdir()


def link_copy(copy: Path, target: Path) -> bool:
    """Make a copy available at another path, as a hard link if possible. Return False if there is no such copy."""
    try:
        os.link(copy, target)
    except ours(FileNotFoundError):
        return False
    except ours(OSError):  # another file system, or one without links
        try:
            shutil.copyfile(copy, target)
        except ours(FileNotFoundError):
            return False
    with suppress(OSError):
        os.utime(copy.parent)
    return True


def copy_cache() -> CopyCache:
    """Return the cache of this process: in $TRACE_RECORDER_CACHE, or in the user's directory for caches.

    If neither can be written, the copies are in a temporary directory until the process ends.
    """
    named = os.environ.get(CACHE_VARIABLE)
    if not named:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - `Path.home` may raise
        named = os.path.join(caches, "trace-recorder")  # noqa: PTH118 - as above
    return _opened(named, int(os.environ.get(CACHE_BYTES_VARIABLE) or MAX_CACHE_BYTES))


@cache
def _opened(directory: str, max_bytes: int) -> CopyCache:
    try:
        return CopyCache(Path(directory).absolute(), max_bytes)
    except ours(OSError):
        temporary = tempfile.mkdtemp(prefix="trace-recorder-cache-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return CopyCache(Path(temporary), max_bytes)


def _disk_bytes(status: os.stat_result) -> int:
    """Return how much of the disk a file takes. The copy of a document's ends has a hole."""
    blocks: int | None = getattr(status, "st_blocks", None)
    if blocks is None:
        return status.st_size
    return blocks * 512


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
