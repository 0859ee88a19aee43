"""The buffer of one array of the document: of its elements' texts, only those that may still change are in memory.

A text that was written is copied from the last file into the next one. Adjacent settled elements are merged into one,
so what is kept does not grow with the array, except for about 180 bytes for each edit of a text that may be shortened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.storage.atomic_write import Span, write_all

_SEPARATOR = b",\n"

Edit = tuple[int, int, bytes]
"""A replacement that shortens a text: its start, its end, and the new bytes."""


@dataclass(slots=True, eq=False)
class ElementText:
    """The text of one element, or of several settled ones: in memory, in parts, or as a span of the last file.

    Elements may share parts, as interactions with the same beginning do: `own_bytes` is how many bytes this one adds to
    memory, `size` how many it has. `delta_edits`, in order, shorten the text to a delta. `first_seq` is its place among
    the other elements.
    """

    parts: Sequence[bytes | Span] = ()
    own_bytes: int = 0
    span: Span | None = None
    settled: bool = False
    delta_edits: list[Edit] = field(default_factory=list)
    first_seq: int = 0
    size: int = 0

    def set(self, parts: Sequence[bytes], own_bytes: int | None = None, delta_edits: Sequence[Edit] = ()) -> None:
        """Set another text."""
        self.size = sum(map(len, parts))
        self.parts, self.own_bytes, self.span = parts, self.size if own_bytes is None else own_bytes, None
        self.delta_edits = [*delta_edits]

    def shorten(self) -> None:
        """Apply the edits. What they keep of a text in a file stays in that file."""
        delta_edits, self.delta_edits, span = self.delta_edits, [], self.span
        if not delta_edits:
            return
        text = b"".join(_parts_in_memory(self.parts))
        parts: list[bytes | Span] = []
        at = 0
        for start, end, new in (*delta_edits, (self.size, self.size, b"")):
            parts += (text[at:start] if span is None else Span(span.fd, span.offset + at, start - at), new)
            at = end
        self.parts, self.span = parts, None
        self.own_bytes = sum(map(len, _parts_in_memory(parts)))
        self.size = self.own_bytes + sum(part.length for part in parts if isinstance(part, Span))


class Layout:
    """The content of a file to be written, in `parts`: texts, and ranges of the last file, merged where adjacent."""

    def __init__(self) -> None:
        self.size = 0
        self.parts: list[bytes | Span] = []
        self._placed: list[tuple[ElementText, int]] = []
        self._arrays: list[ElementTexts] = []

    def place(self, before: bytes, array: ElementTexts, after: bytes = b"") -> None:
        """Append the elements of an array, with the text before them and what follows the last of them."""
        self._arrays.append(array)
        parts, size, separator = self.parts, self.size + len(before), b"\n"
        parts.append(before)
        last: Span | None = None
        for element in array.elements:
            parts.append(separator)
            size += len(separator)
            separator = _SEPARATOR
            self._placed.append((element, size))
            size += element.size
            span = element.span
            if span is None:
                parts += element.parts
                last = None
            elif last is not None and last.fd == span.fd and last.offset + last.length + len(separator) == span.offset:
                parts[-2:] = [last := Span(last.fd, last.offset, last.length + len(separator) + span.length)]
            else:
                parts.append(last := span)
        parts.append(after)
        self.size = size + len(after)

    def written(self, fd: int) -> None:
        """Set the place of each element in the file that was written, and merge those that are settled."""
        for element, offset in self._placed:
            element.parts, element.own_bytes, element.span = (), 0, Span(fd, offset, element.size)
        for array in self._arrays:
            array.merge()


@dataclass(slots=True)
class ElementTexts:
    """The elements of one array, in order."""

    elements: list[ElementText] = field(default_factory=list)

    def insert(self, first_seq: int) -> ElementText:
        """Insert an element before those that began after it."""
        element = ElementText(first_seq=first_seq)
        at = len(self.elements)
        while at and self.elements[at - 1].first_seq > first_seq:
            at -= 1
        self.elements.insert(at, element)
        return element

    def unwritten_bytes(self) -> int:
        """Return how many bytes of settled texts are in memory because they are in no file yet."""
        return sum(element.own_bytes for element in self.elements if element.settled)

    def spill(self, file: int) -> None:
        """Write the settled texts to a file, from where they are copied later."""
        settled = [element for element in self.elements if element.settled and element.span is None]
        offset = os.lseek(file, 0, os.SEEK_END)
        write_all(file, (part for element in settled for part in (*element.parts, _SEPARATOR)))
        for element in settled:
            element.parts, element.own_bytes, element.span = (), 0, Span(file, offset, element.size)
            offset += element.size + len(_SEPARATOR)
        self.merge()

    def merge(self) -> None:
        """Merge settled elements that are adjacent in the last file."""
        merged: list[ElementText] = []
        place_behind: tuple[int, int] | None = None  # the last element, if it is settled: its file, and where it ends
        for element in self.elements:
            span = element.span if element.settled else None
            if span is None or (span.fd, span.offset) != place_behind:
                merged.append(element)
            else:
                last = merged[-1]
                at = last.size + len(_SEPARATOR)
                last.delta_edits += [(start + at, end + at, new) for start, end, new in element.delta_edits]
                last.size = at + element.size
                last.span = Span(span.fd, span.offset - at, last.size)
            place_behind = None if span is None else (span.fd, span.offset + span.length + len(_SEPARATOR))
        self.elements = merged

    def shorten(self) -> None:
        """Shorten every settled element to its delta."""
        for element in self.elements:
            if element.settled:
                element.shorten()


def _parts_in_memory(parts: Sequence[bytes | Span]) -> list[bytes]:
    return [part for part in parts if isinstance(part, bytes)]
