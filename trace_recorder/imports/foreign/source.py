"""A file of another tool, as the formats' modules read it: text, JSON, lines of JSON; within limits.

Nothing in it is trusted. A line that is too long, too deep or no JSON is a `BadLine` and does not stop the others; a
whole document that is, is no document. Reading is lazy: a format is recognised by the beginning of a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, check_depth
from trace_recorder.values.messages import Payload

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_DOCUMENT_BYTES = 1024 * 1024 * 1024
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


@dataclass
class Source:
    """One file. `neighbours` that a format reads along with it, such as those of sub-agents, are in `read_too`."""

    path: Path
    max_line_bytes: int = MAX_LINE_BYTES
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    read_too: set[Path] = field(default_factory=set)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the file."""
        with self.path.open("rb") as file:
            return file.read(HEAD_BYTES)

    @cached_property
    def first_lines(self) -> list[Line]:
        """The first lines with a JSON value."""
        return [line for line in islice(self.lines(), HEAD_LINES) if line.why is None]

    def lines(self) -> Iterator[Line]:
        """Yield the lines of the file that are not blank."""
        with self.path.open("rb") as file:
            for number, data in enumerate(self._raw_lines(file), start=1):
                if data is None:
                    yield Line(number, None, f"it is longer than {self.max_line_bytes} bytes")
                elif data.strip():
                    yield _line(number, data)

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

    @cached_property
    def document(self) -> Payload:
        """The JSON value of the whole file; None if it is none."""
        if self.path.stat().st_size > self.max_document_bytes:
            return None
        return parse_json(self.path.read_bytes())[0]


def _line(number: int, data: bytes) -> Line:
    value, why = parse_json(data)
    return Line(number, value, why)


def parse_json(data: bytes) -> tuple[Payload, str | None]:
    """Return the value of a JSON text, or None and why it is none."""
    try:
        text = data.decode("utf-8-sig")
        check_depth(text, MAX_DOCUMENT_DEPTH)
        return json.loads(text), None
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON ({error})"
