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

_SEPARATOR = b",\n"

Edit = tuple[int, int, bytes]
"""How a text is made shorter: from where to where, and what is put there."""


@dataclass(slots=True, eq=False)
class ElementText:
    """The text of one element, or of several settled ones: in memory, in parts, or where it stands in the last file.

    Other pieces may have the same parts, as interactions that begin alike do: `own_bytes` is how many bytes it adds to
    those in memory. `delta_edits`, in order, are what makes it shorter. `first_seq` says where it stands among the others.
    """

    parts: Sequence[bytes | Span] = ()
    own_bytes: int = 0
    span: Span | None = None
    settled: bool = False
    delta_edits: list[Edit] = field(default_factory=list)
    first_seq: int = 0
    _size: int = 0

    def set(self, parts: Sequence[bytes], own_bytes: int | None = None, delta_edits: Sequence[Edit] = ()) -> None:
        """Give it another text."""
        self._size = sum(map(len, parts))
        self.parts, self.own_bytes, self.span = parts, self._size if own_bytes is None else own_bytes, None
        self.delta_edits = [*delta_edits]

    def written_at(self, span: Span) -> None:
        """Hear where the text stands in a file."""
        self.parts, self.own_bytes, self.span, self._size = (), 0, span, span.length

    def shorten(self) -> None:
        """Make the cuts; what they leave of a text in a file stays there."""
        delta_edits, self.delta_edits, span = self.delta_edits, [], self.span
        if not delta_edits:
            return
        text = b"".join(_parts_in_memory(self.parts))
        parts: list[bytes | Span] = []
        at = 0
        for start, end, new in (*delta_edits, (len(self), len(self), b"")):
            parts += (text[at:start] if span is None else Span(span.fd, span.offset + at, start - at), new)
            at = end
        self.parts, self.span = parts, None
        self.own_bytes = sum(map(len, _parts_in_memory(parts)))
        self._size = self.own_bytes + sum(part.length for part in parts if isinstance(part, Span))

    def __len__(self) -> int:
        return self._size


class Layout:
    """What a file is to hold: texts, and ranges of the last file, those that stand side by side there as one."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes | Span] = []
        self._placed: list[tuple[ElementText, int]] = []

    def put(self, text: bytes) -> None:
        """Put a text behind what is there."""
        self._parts.append(text)
        self.size += len(text)

    def place(self, element: ElementText) -> None:
        """Put a piece behind what is there."""
        self._placed.append((element, self.size))
        self.size += len(element)
        span = element.span
        if span is None:
            self._parts.extend(element.parts)
            return
        before = self._parts[-2] if len(self._parts) > 1 else b""
        joined = _joined(before, span) if isinstance(before, Span) and self._parts[-1] == _SEPARATOR else None
        if joined is None:
            self._parts.append(span)
        else:
            self._parts[-2:] = [joined]

    def __iter__(self) -> Iterator[bytes | Span]:
        """The parts, in order."""
        return iter(self._parts)

    def written(self, fd: int) -> None:
        """Say to each piece where it stands in the file."""
        for element, offset in self._placed:
            element.written_at(Span(fd, offset, len(element)))


@dataclass(slots=True)
class ElementTexts:
    """The elements of one array, in order."""

    elements: list[ElementText] = field(default_factory=list)

    def add(self) -> ElementText:
        """Begin another element."""
        element = ElementText()
        self.elements.append(element)
        return element

    def insert(self, first_seq: int) -> ElementText:
        """Begin another element, before those that began after it."""
        element = ElementText(first_seq=first_seq)
        at = len(self.elements)
        while at and self.elements[at - 1].first_seq > first_seq:
            at -= 1
        self.elements.insert(at, element)
        return element

    def __len__(self) -> int:
        """About how many bytes the array has, as it is written."""
        return sum(map(len, self.elements))

    def lay_out(self, layout: Layout) -> None:
        """Write the elements."""
        for number, element in enumerate(self.elements):
            layout.put(_SEPARATOR if number else b"\n")
            layout.place(element)

    def unwritten_bytes(self) -> int:
        """The bytes in memory of settled texts that are not in a file yet."""
        return sum(element.own_bytes for element in self.elements if element.settled)

    def spill(self, file: int) -> None:
        """Write the settled texts to a file, to be copied from there."""
        settled = [element for element in self.elements if element.settled and element.span is None]
        offset = os.lseek(file, 0, os.SEEK_END)
        write_all(file, (part for element in settled for part in (*element.parts, _SEPARATOR)))
        for element in settled:
            element.written_at(Span(file, offset, len(element)))
            offset += len(element) + len(_SEPARATOR)
        self.merge()

    def merge(self) -> None:
        """Make one of settled pieces that stand next to each other in the last file."""
        merged: list[ElementText] = []
        for element in self.elements:
            joined = (
                _joined(merged[-1].span, element.span) if merged and merged[-1].settled and element.settled else None
            )
            if joined is None:
                merged.append(element)
            else:
                delta_edits, at = merged[-1].delta_edits, len(merged[-1]) + len(_SEPARATOR)
                delta_edits += [(start + at, end + at, new) for start, end, new in element.delta_edits]
                merged[-1] = ElementText(settled=True, delta_edits=delta_edits, first_seq=merged[-1].first_seq)
                merged[-1].written_at(joined)
        self.elements = merged

    def shorten(self) -> None:
        """Give every settled piece its shorter text."""
        for element in self.elements:
            if element.settled:
                element.shorten()


def _parts_in_memory(parts: Sequence[bytes | Span]) -> list[bytes]:
    return [part for part in parts if isinstance(part, bytes)]


def _joined(one: Span | None, other: Span | None) -> Span | None:
    """The range of two pieces that stand side by side in one file; None where they do not."""
    if one is None or other is None or one.fd != other.fd:
        return None
    if one.offset + one.length + len(_SEPARATOR) != other.offset:
        return None
    return Span(one.fd, one.offset, one.length + len(_SEPARATOR) + other.length)
