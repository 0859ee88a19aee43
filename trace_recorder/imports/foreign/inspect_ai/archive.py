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
from pathlib import Path
from typing import BinaryIO

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.guard import try_call
from trace_recorder.imports.foreign.zstd import FREE_BYTES, MAX_RATIO, ZSTD_MODULES, Reader, zstd_reader

_MAX_READINGS = 2
"""How many times its bytes may be read: members do not share data, but a header may be read twice."""
_ZSTD = 93
_READ = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD}
_LOCAL_HEADER = 30


class MemberError(Exception):
    """One member of a zip file cannot be read."""


@dataclass(slots=True)
class Archive:
    """A zip file. Its members may still decompress to `left` bytes, from `packed_left` bytes of the file."""

    path: Path
    max_member_bytes: int
    zstd_modules: tuple[str, ...] = ZSTD_MODULES
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
        opened = zstd_reader(self.path, self.zstd_modules) if info.compress_type == _ZSTD else _InflatedMember
        data = try_call(partial(_decompressed, self.path, info, opened), _refuse_member)
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise MemberError("it is damaged")
        return data


def _refuse_member(error: Exception) -> bytes:
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    raise MemberError(f"it is damaged ({type(error).__name__}: {error})") from None


def _decompressed(path: Path, info: zipfile.ZipInfo, opened: Callable[[BinaryIO], Reader]) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, info.header_offset))
        header = file.read(_LOCAL_HEADER)
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR)
        data = file.read(min(info.compress_size, path.stat().st_size))
    if info.compress_type == zipfile.ZIP_STORED:
        return data
    return opened(io.BytesIO(data)).read(info.file_size + 1)


@dataclass(slots=True)
class _InflatedMember:
    file: BinaryIO

    def read(self, size: int = -1, /) -> bytes:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(self.file.read(), size)
