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
        """The bytes of the array, as it is written."""
        return sum(map(len, self.pieces)) + len(_BETWEEN) * len(self.pieces)

    def __iter__(self) -> Iterator[tuple[bytes | Span, Piece | None]]:
        """The parts to write, and of each the piece that it is."""
        for number, piece in enumerate(self.pieces):
            yield _BETWEEN if number else b"\n", None
            yield (piece.text if piece.span is None else piece.span), piece

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
            joined = _joined(merged[-1], piece) if merged else None
            if joined is None:
                merged.append(piece)
            else:
                merged[-1] = Piece(b"", joined, settled=True)
        self.pieces = merged


def _joined(one: Piece, other: Piece) -> Span | None:
    if not (one.settled and other.settled) or one.span is None or other.span is None or one.span.fd != other.span.fd:
        return None
    if one.span.offset + one.span.length + len(_BETWEEN) != other.span.offset:
        return None
    return Span(one.span.fd, one.span.offset, one.span.length + len(_BETWEEN) + other.span.length)
