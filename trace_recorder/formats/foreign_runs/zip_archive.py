"""A zip file that somebody else has made, which is read within limits.

Members may be compressed with deflate or zstd (method 93, which `zipfile` reads from Python 3.14 on). Nothing in the
zip file is trusted: the decompressed size of all members together is limited to a multiple of the file's size, so a
decompression bomb is refused before it is read. A member's name is only a key. It never becomes a path.
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

from trace_recorder.decompression import max_size
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.source import Reader, zstd_reader
from trace_recorder.guard import try_call

ZIP_BEGIN = b"PK\x03\x04"
"""The first bytes of a zip file with members."""
_MAX_READINGS = 2
"""Reading the members may together take at most this many times the bytes of the zip file.

More than one reading is allowed, because a header may be read twice. Members share no data.
"""
_ZSTD = 93
_READ = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD}
_LOCAL_HEADER = 30


class MemberError(Exception):
    """A member of a zip file cannot be read."""


@dataclass(slots=True)
class Archive:
    """A zip file that is read within limits. `content` has its bytes, if they are a part of the file at `path`.

    At most `packed_bytes_left` more bytes are read from the file, and they may decompress to at most `bytes_left`
    bytes.
    """

    path: Path
    max_member_bytes: int
    content: bytes | None = None
    members: dict[str, zipfile.ZipInfo] = field(init=False)
    bytes_left: int = field(init=False)
    packed_bytes_left: int = field(init=False)
    _size: int = field(init=False)

    def __post_init__(self) -> None:
        try:
            with self._opened() as whole, zipfile.ZipFile(whole) as file:
                self.members = {info.filename: info for info in file.infolist()}
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise TrajectoryFormatError(f"{self.path} is a damaged zip file: {error}") from None
        size = self._size = self.path.stat().st_size if self.content is None else len(self.content)
        self.bytes_left, self.packed_bytes_left = max_size(size), _MAX_READINGS * size

    def read(self, name: str) -> bytes:
        """Return the content of a member.

        Raises MemberError, and TrajectoryFormatError if a package that decompresses the member is missing.
        """
        info = self.members[name]
        if info.file_size > min(self.bytes_left, self.max_member_bytes):
            raise MemberError(f"it decompresses to {info.file_size} bytes, more than the limit for this file")
        if info.compress_type not in _READ or info.flag_bits & 1:
            raise MemberError(f"it is encrypted or compressed by method {info.compress_type}")
        if info.compress_size > self.packed_bytes_left:
            raise MemberError("its members take more bytes than the file has: they share their data")
        self.bytes_left -= info.file_size
        self.packed_bytes_left -= info.compress_size
        open_reader: Callable[[BinaryIO], Reader] = _InflatedMember
        if info.compress_type == _ZSTD:
            open_reader = zstd_reader(self.path)
        data = try_call(partial(self._decompressed, info, open_reader), _refuse_member)
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise MemberError("it is damaged")
        return data

    def _opened(self) -> BinaryIO:
        if self.content is None:
            return self.path.open("rb")
        return io.BytesIO(self.content)

    def _decompressed(self, info: zipfile.ZipInfo, open_reader: Callable[[BinaryIO], Reader]) -> bytes:
        with self._opened() as file:
            file.seek(max(0, info.header_offset))
            header = file.read(_LOCAL_HEADER)
            file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR)
            data = file.read(min(info.compress_size, self._size))
        if info.compress_type == zipfile.ZIP_STORED:
            return data
        return open_reader(io.BytesIO(data)).read(info.file_size + 1)


def _refuse_member(error: Exception) -> bytes:
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    raise MemberError(f"it is damaged ({type(error).__name__}: {error})") from None


@dataclass(slots=True)
class _InflatedMember:
    file: BinaryIO

    def read(self, size: int = -1, /) -> bytes:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(self.file.read(), size)
