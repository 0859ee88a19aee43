"""Pieces: the texts of a document's array, of which only those that may still change are kept in memory.

A piece that has been written stands in the file that was written last, and is copied from there into the next one.
Pieces that are settled and stand next to each other become one: what is kept does not grow with the array, but for
some 180 bytes a cut in one that may still be made shorter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.storage.atomic_write import Span, write_all

_BETWEEN = b",\n"

Cut = tuple[int, int, bytes]
"""How a text is made shorter: from where to where, and what is put there."""


@dataclass(slots=True, eq=False)
class Piece:
    """The text of one element, or of several settled ones: in memory, in parts, or where it stands in the last file.

    Other pieces may have the same parts, as interactions that begin alike do: `own` is how many bytes it adds to
    those in memory. `cuts`, in order, are what makes it shorter. `since` says where it stands among the others.
    """

    parts: Sequence[bytes | Span] = ()
    own: int = 0
    span: Span | None = None
    settled: bool = False
    cuts: list[Cut] = field(default_factory=list)
    since: int = 0
    _size: int = 0

    def set(self, parts: Sequence[bytes], own: int | None = None, cuts: Sequence[Cut] = ()) -> None:
        """Give it another text."""
        self._size = sum(map(len, parts))
        self.parts, self.own, self.span = parts, self._size if own is None else own, None
        self.cuts = [*cuts]

    def stands(self, span: Span) -> None:
        """Hear where the text stands in a file."""
        self.parts, self.own, self.span, self._size = (), 0, span, span.length

    def shorten(self) -> None:
        """Make the cuts; what they leave of a text in a file stays there."""
        cuts, self.cuts, span = self.cuts, [], self.span
        if not cuts:
            return
        text = b"".join(_in_memory(self.parts))
        parts: list[bytes | Span] = []
        at = 0
        for start, end, new in (*cuts, (len(self), len(self), b"")):
            parts += (text[at:start] if span is None else Span(span.fd, span.offset + at, start - at), new)
            at = end
        self.parts, self.span = parts, None
        self.own = sum(map(len, _in_memory(parts)))
        self._size = self.own + sum(part.length for part in parts if isinstance(part, Span))

    def __len__(self) -> int:
        return self._size


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
        self.size += len(piece)
        span = piece.span
        if span is None:
            self._parts.extend(piece.parts)
            return
        before = self._parts[-2] if len(self._parts) > 1 else b""
        joined = _joined(before, span) if isinstance(before, Span) and self._parts[-1] == _BETWEEN else None
        if joined is None:
            self._parts.append(span)
        else:
            self._parts[-2:] = [joined]

    def __iter__(self) -> Iterator[bytes | Span]:
        """The parts, in order."""
        return iter(self._parts)

    def written(self, fd: int) -> None:
        """Say to each piece where it stands in the file."""
        for piece, offset in self._placed:
            piece.stands(Span(fd, offset, len(piece)))


@dataclass(slots=True)
class Pieces:
    """The elements of one array, in order."""

    pieces: list[Piece] = field(default_factory=list)

    def add(self) -> Piece:
        """Begin another element."""
        piece = Piece()
        self.pieces.append(piece)
        return piece

    def insert(self, since: int) -> Piece:
        """Begin another element, before those that began after it."""
        piece = Piece(since=since)
        at = len(self.pieces)
        while at and self.pieces[at - 1].since > since:
            at -= 1
        self.pieces.insert(at, piece)
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
        """The bytes in memory of settled texts that are not in a file yet."""
        return sum(piece.own for piece in self.pieces if piece.settled)

    def put_aside(self, file: int) -> None:
        """Write the settled texts to a file, to be copied from there."""
        settled = [piece for piece in self.pieces if piece.settled and piece.span is None]
        offset = os.lseek(file, 0, os.SEEK_END)
        write_all(file, (part for piece in settled for part in (*piece.parts, _BETWEEN)))
        for piece in settled:
            piece.stands(Span(file, offset, len(piece)))
            offset += len(piece) + len(_BETWEEN)
        self.merge()

    def merge(self) -> None:
        """Make one of settled pieces that stand next to each other in the last file."""
        merged: list[Piece] = []
        for piece in self.pieces:
            joined = _joined(merged[-1].span, piece.span) if merged and merged[-1].settled and piece.settled else None
            if joined is None:
                merged.append(piece)
            else:
                cuts, at = merged[-1].cuts, len(merged[-1]) + len(_BETWEEN)
                cuts += [(start + at, end + at, new) for start, end, new in piece.cuts]
                merged[-1] = Piece(settled=True, cuts=cuts, since=merged[-1].since)
                merged[-1].stands(joined)
        self.pieces = merged

    def shorten(self) -> None:
        """Give every settled piece its shorter text."""
        for piece in self.pieces:
            if piece.settled:
                piece.shorten()


def _in_memory(parts: Sequence[bytes | Span]) -> list[bytes]:
    return [part for part in parts if isinstance(part, bytes)]


def _joined(one: Span | None, other: Span | None) -> Span | None:
    """The range of two pieces that stand side by side in one file; None where they do not."""
    if one is None or other is None or one.fd != other.fd:
        return None
    if one.offset + one.length + len(_BETWEEN) != other.offset:
        return None
    return Span(one.fd, one.offset, one.length + len(_BETWEEN) + other.length)
