"""A file of another tool, as the formats' modules read it: text, JSON, lines of JSON, also in zstd; within limits.

Nothing in it is trusted. A line that is too long, too deep, has too many values or is no JSON says why it is none, and
does not stop the others; a whole document that is, is no document. Reading is lazy: a format is recognised by the
beginning of a file, and a file of lines is never in memory as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from trace_recorder.imports.foreign.zstd import opened
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, check_depth
from trace_recorder.values.messages import Payload

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
MAX_VALUES = 5_000_000
"""How many values one line or document may have: each takes some 100 bytes in memory, however short it is."""
MAX_RUN_BYTES = 2 * 1024 * 1024 * 1024
"""What the lines of one run may take, each counted as its length and `VALUE_BYTES` for each value in it."""
VALUE_BYTES = 100
LINE_BYTES = 400
"""What a line takes, be it ever so short."""
HEAD_LINES = 20
"""How many lines are read to recognise a format."""
HEAD_BYTES = 1024
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file: its number, counted from 1, and its JSON value. `why` says why it is none."""

    number: int
    value: Payload
    why: str | None = None
    size: int = 0
    """About what it takes in memory, in bytes."""


@dataclass
class Source:
    """One file. `neighbours` that a format reads along with it, such as those of sub-agents, are in `read_too`."""

    path: Path
    max_line_bytes: int = MAX_LINE_BYTES
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    max_values: int = MAX_VALUES
    max_run_bytes: int = MAX_RUN_BYTES
    read_too: set[Path] = field(default_factory=set)

    def neighbour(self, path: Path) -> Source:
        """Return another file with the same limits."""
        return Source(path, self.max_line_bytes, self.max_document_bytes, self.max_values, self.max_run_bytes)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the file."""
        with opened(self.path) as file:
            return file.read(HEAD_BYTES)

    @cached_property
    def first_lines(self) -> list[Line]:
        """The first lines with a JSON value."""
        return [line for line in self._head_lines if line.why is None]

    @cached_property
    def _head_lines(self) -> list[Line]:
        """The first lines that are not blank: twenty, or fewer that are long."""
        found: list[Line] = []
        for line in self.each_line():
            found.append(line)
            if len(found) == HEAD_LINES or sum(one.size for one in found) > self.max_line_bytes:
                break
        return found

    def lines(self) -> Iterator[Line]:
        """Yield the lines of a file with one run. What is beyond the limit of a run is one line that says so."""
        return self._within_limit(self.each_line())

    def text_lines(self) -> Iterator[Line]:
        """Yield the lines of a file that is not JSON as texts, blank ones too, within the limit of a run."""
        return self._within_limit(self._each_text_line())

    def _each_text_line(self) -> Iterator[Line]:
        with opened(self.path) as file:
            for number, data in enumerate(self._raw_lines(file), start=1):
                if data is None:
                    yield Line(number, None, f"it is longer than {self.max_line_bytes} bytes", LINE_BYTES)
                else:
                    text = data.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")
                    yield Line(number, text, None, LINE_BYTES + len(data))

    def _within_limit(self, lines: Iterator[Line]) -> Iterator[Line]:
        left = self.max_run_bytes
        for line in lines:
            left -= line.size
            if left < 0:
                why = (
                    f"it and all lines after it are left out: those before it take {self.max_run_bytes} bytes in memory"
                )
                yield Line(line.number, None, f"{why}, the most that is read of one run. Split the file.")
                return
            yield line

    def each_line(self) -> Iterator[Line]:
        """Yield the lines that are not blank, of a file with a run in each; there is no limit to their number."""
        with opened(self.path) as file:
            for number, data in enumerate(self._raw_lines(file), start=1):
                if data is None:
                    yield Line(number, None, f"it is longer than {self.max_line_bytes} bytes", LINE_BYTES)
                elif data.strip():
                    value, why = parse_json(data, self.max_values)
                    taken = 0 if why else len(data) + VALUE_BYTES * _count_values(data)
                    yield Line(number, value, why, LINE_BYTES + taken)

    def _raw_lines(self, file: BinaryIO) -> Iterator[bytes | None]:
        """Yield the lines; None for one that is too long, which is never in memory as a whole."""
        while data := file.readline(self.max_line_bytes):
            if len(data) < self.max_line_bytes or data.endswith(b"\n"):
                yield data
                continue
            while more := file.readline(_CHUNK):
                if more.endswith(b"\n"):
                    break
            yield None

    @property
    def document(self) -> Payload:
        """The JSON value of the whole file; None if it is none."""
        return self._parsed[0]

    @property
    def why_no_document(self) -> str | None:
        """Why the whole file is no JSON value; None if it is one."""
        return self._parsed[1]

    @cached_property
    def _parsed(self) -> tuple[Payload, str | None]:
        first = self._head_lines[:2]
        if len(first) == 2 and first[0].why is None:
            return None, "it is not JSON (Extra data: a second line)"
        is_short = self.path.stat().st_size <= self.max_document_bytes
        with opened(self.path) as file:
            data = _read_whole(file, self.max_document_bytes) if is_short else None
        if data is None:
            return None, f"it is longer than {self.max_document_bytes} bytes, the most that is read of a document"
        return parse_json(data, self.max_values)


def _read_whole(file: BinaryIO, limit: int) -> bytes | None:
    """Return all bytes of a file; None if there are more than `limit`."""
    parts: list[bytes] = []
    while part := file.read(_CHUNK):
        limit -= len(part)
        if limit < 0:
            return None
        parts.append(part)
    return b"".join(parts)


def _count_values(data: bytes) -> int:
    """Return how many values a JSON text has at most."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def parse_json(data: bytes, max_values: int = MAX_VALUES) -> tuple[Payload, str | None]:
    """Return the value of a JSON text, or None and why it is none."""
    if len(data) > max_values and _count_values(data) > max_values:
        return None, f"it has more than {max_values} values, which is not read"
    try:
        text = data.decode("utf-8-sig")
        check_depth(text, MAX_DOCUMENT_DEPTH)
        return json.loads(text), None
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON ({error})"
