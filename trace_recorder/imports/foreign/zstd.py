"""Reading of zstd, within limits: whole files, and members of zip files (`inspect_ai/archive.py`)."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Protocol

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.guard import try_call

MAX_RATIO = 100
"""How many times its size a file may decompress to. Logs reach 20."""
FREE_BYTES = 64 * 1024 * 1024
"""What any file may decompress to."""
ZSTD_MODULES = ("compression.zstd", "backports.zstd", "zstandard")
"""The modules that read zstd, of which one is enough: Python's own from 3.14 on, its backport, and a package."""
_MAGIC = b"\x28\xb5\x2f\xfd"


class Reader(Protocol):
    """What decompresses data."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` more bytes; b"" at the end."""


def is_zstd(path: Path) -> bool:
    """Whether a file is compressed with zstd. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def opened(path: Path) -> BinaryIO:
    """Open a file to be read, decompressed if it must be. Raises OSError, TrajectoryFormatError.

    What is no file is refused: a pipe would be waited for, and a device may never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise TrajectoryFormatError(f"{path} is no regular file.")
    if not is_zstd(path):
        return path.open("rb")
    decompress = zstd_reader(path)
    return io.BufferedReader(_BoundedStream(path, decompress))  # type: ignore[type-var]


class _BoundedStream(io.RawIOBase):
    """A decompressed file, which ends where it is damaged or beyond its limit."""

    def __init__(self, path: Path, decompress: Callable[[BinaryIO], Reader]) -> None:
        self._path = path
        self._file = path.open("rb")
        self._reader = decompress(self._file)
        self._left = max(FREE_BYTES, MAX_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read into a buffer. Raises TrajectoryFormatError where the file is damaged, or is too large."""
        data = try_call(partial(self._reader.read, len(buffer)), self._refuse)
        self._left -= len(data)
        if self._left < 0:
            raise TrajectoryFormatError(f"{self._path} decompresses to more than {MAX_RATIO} times its size.")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _refuse(self, error: Exception) -> bytes:
        if isinstance(error, OSError) and error.errno is not None:
            raise error
        raise TrajectoryFormatError(f"{self._path} is a damaged zstd file: {error}") from None


def zstd_reader(path: Path, modules: tuple[str, ...] = ZSTD_MODULES) -> Callable[[BinaryIO], Reader]:
    """Return what decompresses an open file. Raises TrajectoryFormatError if no module for it is installed."""
    name = next(filter(_is_there, modules), None)
    if name is None:
        raise TrajectoryFormatError(
            f"{path} is compressed with zstd, which Python reads from 3.14 on: pip install 'trace-recorder[imports]'."
        )
    return _zstandard_reader if name == "zstandard" else partial(_zstd_file, name)


def _is_there(name: str) -> bool:
    parent, _, _ = name.rpartition(".")
    return (not parent or find_spec(parent) is not None) and find_spec(name) is not None


def _zstd_file(module: str, file: BinaryIO) -> Reader:
    reader: Reader = import_module(module).ZstdFile(file)
    return reader


def _zstandard_reader(file: BinaryIO) -> Reader:
    reader: Reader = import_module("zstandard").ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return reader
