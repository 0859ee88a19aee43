"""The members of a zip file, within limits: deflate and zstd (method 93, which `zipfile` reads from Python 3.14 on).

Nothing in the file is trusted. What its members would take in memory together is bounded by a multiple of the file's
size, so that a decompression bomb is refused before it is read.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.guard import try_call

MAX_RATIO = 100
"""How many times its size a file may decompress to. Logs reach 20."""
FREE_BYTES = 64 * 1024 * 1024
"""What any file may decompress to."""
_MAX_READINGS = 2
"""How many times its bytes may be read: members do not share data, but a header may be read twice."""
_ZSTD = 93
_READ = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD}
_LOCAL_HEADER = 30
_ZSTD_MODULES = ("compression.zstd", "backports.zstd", "zstandard")
"""The modules that read zstd, of which one is enough: Python's own from 3.14 on, its backport, and a package."""


class MemberError(Exception):
    """One member of a zip file cannot be read."""


class _Reader(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(slots=True)
class Archive:
    """A zip file. Its members may still decompress to `left` bytes, from `packed_left` bytes of the file."""

    path: Path
    max_member_bytes: int
    zstd_modules: tuple[str, ...] = _ZSTD_MODULES
    members: dict[str, zipfile.ZipInfo] = field(init=False)
    left: int = field(init=False)
    packed_left: int = field(init=False)

    def __post_init__(self) -> None:
        try:
            with zipfile.ZipFile(self.path) as file:
                self.members = {info.filename: info for info in file.infolist()}
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise TrajectoryFormatError(f"{self.path} is a damaged zip file: {error}") from None
        size = self.path.stat().st_size
        self.left, self.packed_left = max(FREE_BYTES, MAX_RATIO * size), _MAX_READINGS * size

    def read(self, name: str) -> bytes:
        """Return what a member holds. Raises MemberError; TrajectoryFormatError if a package for it is missing."""
        info = self.members[name]
        if info.file_size > min(self.left, self.max_member_bytes):
            raise MemberError(f"it decompresses to {info.file_size} bytes, more than is read of this file")
        if info.compress_type not in _READ or info.flag_bits & 1:
            raise MemberError(f"it is encrypted or compressed by method {info.compress_type}")
        if info.compress_size > self.packed_left:
            raise MemberError("its members take more bytes than the file has: they share their data")
        self.left -= info.file_size
        self.packed_left -= info.compress_size
        opened = _zstd_reader(self.path, self.zstd_modules) if info.compress_type == _ZSTD else _inflated
        data = try_call(partial(_decompressed, self.path, info, opened), _refuse_member)
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise MemberError("it is damaged")
        return data


def _refuse_member(error: Exception) -> bytes:
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    raise MemberError(f"it is damaged ({type(error).__name__}: {error})") from None


def _decompressed(path: Path, info: zipfile.ZipInfo, opened: Callable[[bytes], _Reader]) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, info.header_offset))
        header = file.read(_LOCAL_HEADER)
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR)
        data = file.read(min(info.compress_size, path.stat().st_size))
    if info.compress_type == zipfile.ZIP_STORED:
        return data
    return opened(data).read(info.file_size + 1)


@dataclass(slots=True)
class _Inflated:
    data: bytes

    def read(self, size: int = -1, /) -> bytes:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(self.data, size)


def _inflated(data: bytes) -> _Reader:
    return _Inflated(data)


def _zstd_reader(path: Path, modules: tuple[str, ...]) -> Callable[[bytes], _Reader]:
    found = next(filter(_is_there, modules), None)
    if found is None:
        raise TrajectoryFormatError(
            f"{path} is compressed with zstd, which Python reads from 3.14 on: pip install 'trace-recorder[imports]'."
        )
    return _zstandard_reader if found == "zstandard" else partial(_zstd_file, found)


def _is_there(name: str) -> bool:
    parent, _, _ = name.rpartition(".")
    return (not parent or find_spec(parent) is not None) and find_spec(name) is not None


def _zstd_file(module: str, data: bytes) -> _Reader:
    file: _Reader = import_module(module).ZstdFile(io.BytesIO(data))
    return file


def _zstandard_reader(data: bytes) -> _Reader:
    reader: _Reader = import_module("zstandard").ZstdDecompressor().stream_reader(data)
    return reader
