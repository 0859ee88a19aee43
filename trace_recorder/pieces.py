"""Pieces: the texts of a document's array, of which only those that may still change are kept in memory.

A piece that has been written stands in the file that was written last, and is copied from there into the next one.
Pieces that are settled and stand next to each other become one: what is kept does not grow with the array.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from trace_recorder.replacing import Span

_BETWEEN = b",\n"
GATHERED = 256 * 1024
"""New text is written in parts of about so many bytes."""


@dataclass(slots=True, eq=False)
class Piece:
    """The text of one element, or of several settled ones: in memory, or where it stands in the last file."""

    text: bytes = b""
    span: Span | None = None
    settled: bool = False

    def set(self, text: bytes) -> None:
        """Give it another text."""
        self.text, self.span = text, None

    def __len__(self) -> int:
        return len(self.text) if self.span is None else self.span.length


class Layout:
    """What a file is to hold: texts, and ranges of the last file, those that stand side by side there as one."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes | Span] = []
        self._placed: list[tuple[Piece, int]] = []

    def put(self, text: bytes) -> None:
        """Put a text behind what is there."""
        self._parts.append(text)
        self.size += len(text)

    def place(self, piece: Piece) -> None:
        """Put a piece behind what is there."""
        self._placed.append((piece, self.size))
        span = piece.span
        if span is None:
            self.put(piece.text)
            return
        self.size += span.length
        before = self._parts[-2] if len(self._parts) > 1 else b""
        joined = _joined(before, span) if isinstance(before, Span) and self._parts[-1] == _BETWEEN else None
        if joined is None:
            self._parts.append(span)
        else:
            self._parts[-2:] = [joined]

    def __iter__(self) -> Iterator[bytes | Span]:
        """The parts, with texts that follow one another joined."""
        gathered: list[bytes] = []
        waiting = 0
        for part in self._parts:
            if isinstance(part, Span):
                yield b"".join(gathered)
                yield part
                gathered, waiting = [], 0
                continue
            gathered.append(part)
            waiting += len(part)
            if waiting > GATHERED:
                yield b"".join(gathered)
                gathered, waiting = [], 0
        yield b"".join(gathered)

    def written(self, fd: int) -> None:
        """Say to each piece where it stands in the file."""
        for piece, offset in self._placed:
            piece.span = Span(fd, offset, len(piece))
            piece.text = b""


@dataclass(slots=True)
class Pieces:
    """The elements of one array, in order."""

    pieces: list[Piece] = field(default_factory=list)

    def add(self) -> Piece:
        """Begin another element."""
        piece = Piece()
        self.pieces.append(piece)
        return piece

    def __len__(self) -> int:
        """About how many bytes the array has, as it is written."""
        return sum(map(len, self.pieces))

    def lay_out(self, layout: Layout) -> None:
        """Write the elements."""
        for number, piece in enumerate(self.pieces):
            layout.put(_BETWEEN if number else b"\n")
            layout.place(piece)

    def fresh(self) -> int:
        """The bytes of settled texts that are not in a file yet."""
        return sum(len(piece.text) for piece in self.pieces if piece.settled)

    def put_aside(self, file: IO[bytes]) -> None:
        """Write the settled texts to a file, to be copied from there."""
        for piece in self.pieces:
            if piece.settled and piece.span is None:
                file.seek(0, os.SEEK_END)
                piece.span = Span(file.fileno(), file.tell(), len(piece.text))
                file.write(piece.text + _BETWEEN)
                piece.text = b""
        file.flush()
        self.merge()

    def merge(self) -> None:
        """Make one of settled pieces that stand next to each other in the last file."""
        merged: list[Piece] = []
        for piece in self.pieces:
            joined = _joined(merged[-1].span, piece.span) if merged and merged[-1].settled and piece.settled else None
            if joined is None:
                merged.append(piece)
            else:
                merged[-1] = Piece(b"", joined, settled=True)
        self.pieces = merged


def _joined(one: Span | None, other: Span | None) -> Span | None:
    """The range of two pieces that stand side by side in one file; None where they do not."""
    if one is None or other is None or one.fd != other.fd:
        return None
    if one.offset + one.length + len(_BETWEEN) != other.offset:
        return None
    return Span(one.fd, one.offset, one.length + len(_BETWEEN) + other.length)
