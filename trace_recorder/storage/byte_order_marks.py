"""Reads text in UTF-8, UTF-16 or UTF-32 as UTF-8, by the byte order mark at its beginning.

Editors on Windows write such marks, and PowerShell's `>` writes UTF-16. Text without a mark is returned unchanged.
Bytes that are not text in the encoding of the mark become U+FFFD.
"""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import BinaryIO

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""The marks and their encodings. The mark of UTF-32 begins with the mark of UTF-16, so it comes first."""
_LONGEST = max(len(mark) for mark, _ in _MARKS)


def without_mark(data: bytes) -> bytes:
    """Return text as UTF-8 without its mark."""
    mark, encoding = _mark_of(data)
    if encoding == "utf-8":
        return data[len(mark) :]
    return data[len(mark) :].decode(encoding, "replace").encode()


def read_text(path: Path) -> str:
    """Return the text of a file. Raises OSError, and UnicodeDecodeError if the file has no mark and is not UTF-8."""
    return without_mark(path.read_bytes()).decode()


def stream_without_mark(file: io.BufferedReader) -> BinaryIO:
    """Return a reader of the file's text as UTF-8 without its mark. `file` is at its beginning."""
    mark, encoding = _mark_of(file.peek(_LONGEST)[:_LONGEST])
    file.read(len(mark))
    if encoding == "utf-8":
        return file
    return io.BufferedReader(_Utf8Stream(file, encoding))  # type: ignore[type-var]


def _mark_of(data: bytes) -> tuple[bytes, str]:
    return next(((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", "utf-8"))


class _Utf8Stream(io.RawIOBase):
    """A file in another encoding that is read as UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read into a buffer, and return how many bytes were read."""
        is_end = False
        while not self._rest and not is_end:
            data = self._file.read(len(buffer))
            is_end = not data
            self._rest = self._decoder.decode(data, is_end).encode()
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()
