"""Reads a file of another tool within limits: as text, as JSON, or as lines of JSON.

The file may be compressed with zstd, and may begin with a byte order mark (`storage/byte_order_marks.py`).

Nothing in the file is trusted. A line may be too long, too deep, or not JSON, or have too many values. Such a line has
a reason in place of a value, and the other lines are read. A document with such a fault is not read at all. Reading is
lazy: the beginning of a file is enough to recognise its format, and a file of lines is never in memory as a whole.
"""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from os.path import realpath
from pathlib import Path
from typing import BinaryIO, Protocol

from trace_recorder.decompression import max_size, zstd_module
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import Members, TimedFact
from trace_recorder.guard import try_call
from trace_recorder.storage.byte_order_marks import stream_without_mark
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, check_depth
from trace_recorder.values.messages import Payload

_MAGIC = b"\x28\xb5\x2f\xfd"


class Reader(Protocol):
    """A reader of decompressed data."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` more bytes, or b"" at the end."""


def is_zstd(path: Path) -> bool:
    """Return whether a file is compressed with zstd. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading, decompress it if necessary, and convert its text to UTF-8 if it has another mark.

    Raises OSError and TrajectoryFormatError. A pipe or a device is refused: reading a pipe would block, and a device
    may never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise TrajectoryFormatError(f"{path} is not a regular file.")
    if not is_zstd(path):
        return stream_without_mark(path.open("rb"))
    stream = _BoundedStream(path, zstd_reader(path))
    return stream_without_mark(io.BufferedReader(stream))  # type: ignore[arg-type]


class _BoundedStream(io.RawIOBase):
    """A file that is decompressed while it is read.

    Reading raises TrajectoryFormatError if the file is damaged or too large.
    """

    def __init__(self, path: Path, decompress: Callable[[BinaryIO], Reader]) -> None:
        self._path = path
        self._file = path.open("rb")
        self._reader = decompress(self._file)
        self._bytes_left = self._limit = max_size(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read into a buffer, and return how many bytes were read."""
        data = try_call(partial(self._reader.read, len(buffer)), self._refuse)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise TrajectoryFormatError(f"{self._path} decompresses to more than {self._limit} bytes.")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _refuse(self, error: Exception) -> bytes:
        if isinstance(error, OSError) and error.errno is not None:
            raise error
        raise TrajectoryFormatError(f"{self._path} is a damaged zstd file: {error}") from None


def zstd_reader(path: Path) -> Callable[[BinaryIO], Reader]:
    """Return a function that decompresses an open file.

    Raises TrajectoryFormatError if no module for it is installed.
    """
    module = zstd_module()
    if module is None:
        raise TrajectoryFormatError(
            f"{path} is compressed with zstd, which Python reads from 3.14 on: pip install 'trace-recorder[imports]'."
        )
    make: Callable[[BinaryIO], Reader] = module.ZstdFile
    return make


MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
MAX_VALUES = 5_000_000
"""A line or a document with more values than this is not read.

Each value takes some 100 bytes of memory, however short it is.
"""
MAX_RUN_BYTES = 2 * 1024 * 1024 * 1024
"""The lines of one run may take at most this many bytes of memory.

Later lines are left out. A line takes its length, plus `LINE_BYTES`, plus `VALUE_BYTES` for each value.
"""
VALUE_BYTES = 100
LINE_BYTES = 400
"""Each line costs this many bytes of memory, however short the line is."""
HEAD_LINES = 20
"""At most this many lines are read to recognise a format."""
HEAD_BYTES = 1024
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file: its number, counted from 1, and its JSON value or text.

    `why` says why a line could not be read.
    """

    number: int
    value: Payload
    why: str | None = None
    size: int = 0
    """How many bytes the line takes in memory, approximately."""


@dataclass
class Source:
    """A file to import.

    `read_too` has the other files that were read with this file, such as the files of sub-agents.
    """

    path: Path
    max_line_bytes: int = MAX_LINE_BYTES
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    max_values: int = MAX_VALUES
    max_run_bytes: int = MAX_RUN_BYTES
    read_too: set[Path] = field(default_factory=set)

    def neighbour(self, path: Path) -> Source:
        """Return a `Source` for the file at `path`, with the limits of this source."""
        return Source(path, self.max_line_bytes, self.max_document_bytes, self.max_values, self.max_run_bytes)

    def part(self, path: Path, directory: Path) -> Source | None:
        """Return a `Source` for another file of the same run, and add the file to `read_too`.

        Return None if there is no such file, or if it is a link that leads out of `directory`.
        """
        if not path.is_file() or leads_out(path, directory):
            return None
        self.read_too.add(path)
        return self.neighbour(path)

    def members_of_part(self, path: Path, directory: Path) -> Members:
        """Return the object in another file of the same run. Return {} if there is no such file, or no object in it."""
        part = self.part(path, directory)
        if part is None:
            return {}
        try:
            document = part.document
        except (OSError, TrajectoryFormatError):
            return {}
        return document if isinstance(document, dict) else {}

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the file."""
        with open_file(self.path) as file:
            return file.read(HEAD_BYTES)

    @property
    def may_be_object(self) -> bool:
        """Whether the file begins as a JSON object does. Blank bytes may precede the object."""
        return self.head.lstrip()[:1] in {b"{", b""}

    @cached_property
    def first_lines(self) -> list[Line]:
        """The first lines with a JSON value."""
        return [line for line in self._head_lines if line.why is None]

    @cached_property
    def _head_lines(self) -> list[Line]:
        """The first `HEAD_LINES` lines that are not blank, or fewer if the lines are long."""
        head_lines: list[Line] = []
        for line in self.each_line():
            head_lines.append(line)
            if len(head_lines) == HEAD_LINES or sum(line.size for line in head_lines) > self.max_line_bytes:
                break
        return head_lines

    def lines(self) -> Iterator[Line]:
        """Yield the lines of a file with one run.

        If the lines exceed the limit of a run, yield one line with a reason in place of the remaining lines.
        """
        return self._within_limit(self.each_line())

    def text_lines(self) -> Iterator[Line]:
        """Yield the lines of a file as strings, blank lines too. The limit of a run applies as in `lines`."""
        return self._within_limit(self._each_text_line())

    def _each_text_line(self) -> Iterator[Line]:
        with open_file(self.path) as file:
            for number, data in enumerate(self._raw_lines(file), start=1):
                if data is None:
                    yield Line(number, None, f"it is longer than {self.max_line_bytes} bytes", LINE_BYTES)
                else:
                    text = data.decode(errors="replace").rstrip("\r\n")
                    yield Line(number, text, None, LINE_BYTES + len(data))

    def _within_limit(self, lines: Iterator[Line]) -> Iterator[Line]:
        bytes_left = self.max_run_bytes
        for line in lines:
            bytes_left -= line.size
            if bytes_left < 0:
                yield Line(
                    line.number,
                    None,
                    "this line and all later lines are left out: the earlier lines take "
                    f"{self.max_run_bytes} bytes in memory, the most that is read of one run. Split the file.",
                )
                return
            yield line

    def each_line(self) -> Iterator[Line]:
        """Yield the lines of a file that are not blank.

        The number of lines is not limited, because each line may be a run.
        """
        with open_file(self.path) as file:
            number = 0
            for data in self._raw_lines(file):
                number += 1
                if data is None:
                    yield Line(number, None, f"it is longer than {self.max_line_bytes} bytes", LINE_BYTES)
                elif not data.strip():
                    number += _skip_blank_lines(file)
                else:
                    value, why = parse_json(data, self.max_values)
                    size = 0 if why else len(data) + VALUE_BYTES * _count_values(data)
                    yield Line(number, value, why, LINE_BYTES + size)

    def _raw_lines(self, file: BinaryIO) -> Iterator[bytes | None]:
        """Yield the lines. Yield None for a line that is too long, which is never in memory as a whole."""
        while data := file.readline(self.max_line_bytes):
            if len(data) < self.max_line_bytes or data.endswith(b"\n"):
                yield data
                continue
            while more := file.readline(_CHUNK_BYTES):
                if more.endswith(b"\n"):
                    break
            yield None

    @property
    def document(self) -> Payload:
        """The JSON value of the whole file, or None if the file is not JSON."""
        return self._parsed[0]

    @property
    def why_no_document(self) -> str | None:
        """The reason why the whole file could not be read as a JSON value, or None if the file was read."""
        return self._parsed[1]

    @cached_property
    def _parsed(self) -> tuple[Payload, str | None]:
        first = self._head_lines[:2]
        if len(first) == 2 and first[0].why is None:
            return None, "it is not JSON (Extra data: a second line)"
        data: bytes | None = None
        if self.path.stat().st_size <= self.max_document_bytes:
            with open_file(self.path) as file:
                data = _read_whole(file, self.max_document_bytes)
        if data is None:
            return None, f"it is longer than {self.max_document_bytes} bytes, the most that is read of a document"
        return parse_json(data, self.max_values)


def leads_out(path: Path, directory: Path) -> bool:
    """Return whether a path leads out of a directory, because the path or the directory is a link."""
    return not Path(realpath(path)).is_relative_to(Path(realpath(directory.parent)) / directory.name)


def _skip_blank_lines(file: BinaryIO) -> int:
    """Skip the next blank lines of a file, buffer by buffer, and return how many they are.

    A file of a few kilobytes may decompress to many millions of blank lines.
    """
    count = 0
    while isinstance(file, io.BufferedReader) and (ahead := file.peek()):
        end = ahead.rfind(b"\n", 0, len(ahead) - len(ahead.lstrip())) + 1
        count += ahead.count(b"\n", 0, end)
        file.read(end)
        if end < len(ahead):
            break
    return count


def _read_whole(file: BinaryIO, limit: int) -> bytes | None:
    """Return all bytes of a file, or None if the file has more than `limit` bytes."""
    parts: list[bytes] = []
    while part := file.read(_CHUNK_BYTES):
        limit -= len(part)
        if limit < 0:
            return None
        parts.append(part)
    return b"".join(parts)


def _count_values(data: bytes) -> int:
    """Return an upper limit of the number of values in a JSON text."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def parse_json(data: bytes, max_values: int = MAX_VALUES) -> tuple[Payload, str | None]:
    """Return the value of a JSON text and None, or None and the reason why the text could not be read."""
    if len(data) > max_values and _count_values(data) > max_values:
        return None, f"it has more than {max_values} values, the most that is read"
    try:
        text = data.decode()
        check_depth(text, MAX_DOCUMENT_DEPTH)
        return json.loads(text), None
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON ({error})"


def line_values(lines: Iterable[Line], add_missing: Callable[[TimedFact], object]) -> Iterator[Payload]:
    """Yield the JSON values of lines. Call `add_missing` with a gap for each line without a value."""
    for line in lines:
        if line.why is None:
            yield line.value
        else:
            add_missing(TimedFact.gap(what=f"line {line.number}", why=line.why))


def session_lines(lines: Iterable[Line], add_missing: Callable[[TimedFact], object]) -> Iterator[Members]:
    """Yield the JSON objects in lines. Call `add_missing` with a gap for each line that is not a JSON object."""
    for line in lines:
        if line.why is None and isinstance(line.value, dict):
            yield line.value
        else:
            add_missing(TimedFact.gap(what=f"line {line.number}", why=line.why or "it is not an object"))
