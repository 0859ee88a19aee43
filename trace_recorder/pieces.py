"""Pieces: the texts of a document's array, of which only those that may still change are kept in memory.

A piece that has been written stands in the file that was written last, and is copied from there into the next one.
Pieces that are settled and stand next to each other become one: what is kept does not grow with the array.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.replacing import Span, write_all

_BETWEEN = b",\n"

Cut = bytes | tuple[int, int]
"""A part of a shorter text: its bytes, or from where to where it stands in the longer one."""


@dataclass(slots=True, eq=False)
class Piece:
    """The text of one element, or of several settled ones: in memory, in parts, or where it stands in the last file.

    Other pieces may have the same parts, as interactions that begin alike do: `own` is how many bytes it adds to
    those in memory. `cuts` are the shorter text that it may be given; empty where there is none.
    """

    parts: Sequence[bytes | Span] = ()
    own: int = 0
    span: Span | None = None
    settled: bool = False
    cuts: list[Cut] = field(default_factory=list)
    _size: int = 0

    def set(self, parts: Sequence[bytes], own: int | None = None, cuts: Iterable[Cut] = ()) -> None:
        """Give it another text."""
        self._size = sum(map(len, parts))
        self.parts, self.own, self.span = parts, self._size if own is None else own, None
        self.cuts = [*cuts]

    def stands(self, span: Span) -> None:
        """Hear where the text stands in a file."""
        self.parts, self.own, self.span, self._size = (), 0, span, span.length

    def shorten(self) -> None:
        """Give it its shorter text; what that repeats of a text in a file stays there."""
        span = self.span
        if not self.cuts:
            return
        if span is None:
            text = b"".join(_in_memory(self.parts))
            self.set([cut if isinstance(cut, bytes) else text[slice(*cut)] for cut in self.cuts])
            return
        cuts, self.cuts, self.span = self.cuts, [], None
        self.parts = [cut if isinstance(cut, bytes) else _within(span, *cut) for cut in cuts]
        self.own = sum(map(len, _in_memory(self.parts)))
        self._size = self.own + sum(part.length for part in self.parts if isinstance(part, Span))

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
        for piece in self.pieces:
            if piece.settled and piece.span is None:
                offset = os.lseek(file, 0, os.SEEK_END)
                write_all(file, (*piece.parts, _BETWEEN))
                piece.stands(Span(file, offset, len(piece)))
        self.merge()

    def merge(self) -> None:
        """Make one of settled pieces that stand next to each other in the last file."""
        merged: list[Piece] = []
        for piece in self.pieces:
            joined = _joined(merged[-1].span, piece.span) if merged and merged[-1].settled and piece.settled else None
            if joined is None:
                merged.append(piece)
            else:
                cuts = _joined_cuts(merged[-1], piece)
                merged[-1] = Piece(settled=True, cuts=cuts)
                merged[-1].stands(joined)
        self.pieces = merged

    def shorten(self) -> None:
        """Give every settled piece its shorter text."""
        for piece in self.pieces:
            if piece.settled:
                piece.shorten()


def _in_memory(parts: Sequence[bytes | Span]) -> list[bytes]:
    return [part for part in parts if isinstance(part, bytes)]


def _within(span: Span, start: int, end: int) -> Span:
    return Span(span.fd, span.offset + start, end - start)


def _joined_cuts(one: Piece, other: Piece) -> list[Cut]:
    """The shorter text of two pieces, and of what stands between them; that of the first is continued in place."""
    if not one.cuts and not other.cuts:
        return []
    cuts = one.cuts or [(0, len(one))]
    at = len(one) + len(_BETWEEN)
    _add(cuts, (len(one), at))
    for cut in other.cuts or [(0, len(other))]:
        _add(cuts, cut if isinstance(cut, bytes) else (cut[0] + at, cut[1] + at))
    return cuts


def _add(cuts: list[Cut], cut: Cut) -> None:
    last = cuts[-1]
    if isinstance(last, bytes) or isinstance(cut, bytes) or last[1] != cut[0]:
        cuts.append(cut)
    else:
        cuts[-1] = (last[0], cut[1])


def _joined(one: Span | None, other: Span | None) -> Span | None:
    """The range of two pieces that stand side by side in one file; None where they do not."""
    if one is None or other is None or one.fd != other.fd:
        return None
    if one.offset + one.length + len(_BETWEEN) != other.offset:
        return None
    return Span(one.fd, one.offset, one.length + len(_BETWEEN) + other.length)
