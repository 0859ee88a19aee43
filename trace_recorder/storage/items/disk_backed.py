"""A journal that is read while it grows, and its items, which stay there: the newest values are kept at hand.

What `ItemTable` keeps in memory grows with the run; `FiledItems` does not, but for eight bytes an item.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trace_recorder.storage import journal
from trace_recorder.storage.file_descriptor import Descriptor
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal import Record
from trace_recorder.values.messages import Payload

AT_HAND = 512 * 1024
"""Of so many bytes of items, as they stand in the journal, the values are kept."""

BASES = 64
"""How many full lists are kept; a list is written against the last one of its name."""


class JournalFile:
    """A journal that is open to be read, by whatever name it goes meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Descriptor | None = None
        self._file = Descriptor(os.open(path, os.O_RDONLY | journal.BINARY))

    def read(self, size: int, offset: int) -> bytes:
        """At most `size` bytes from `offset` on; fewer at its end."""
        return b"" if self._file is None else os.pread(self._file.number, size, offset)

    def record_at(self, offset: int) -> Record:
        """The record that begins at an offset. Raises KeyError where there is none."""
        size = 4096
        while (data := self.read(size, offset)) and b"\n" not in data and len(data) == size:
            size *= 8
        for record in journal.read(data.partition(b"\n")[0], base=offset):
            if isinstance(record, Record):
                return record
        raise KeyError(offset)

    def is_in_place(self) -> bool:
        """Whether it is still open, and has the journal's name: a removed one is made again."""
        return self._file is not None and self._file.is_ours() and self._file.same_as(self._path.stat())

    def __del__(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # it was only read
                file.close()


class FiledItems(ItemTable):
    """An `ItemTable` that takes the records of one journal, in order, and reads them there again."""

    def __init__(self, file: JournalFile, *, at_hand: int = AT_HAND) -> None:
        super().__init__()
        self._most_at_hand = at_hand
        self._file = file
        self._offsets = {"n": array("q"), "s": array("q")}
        self._sizes: dict[tuple[str, int], int] = {}
        self._at_hand = 0

    def add_record(self, record: Record) -> None:
        """Take an item record."""
        kind = "s" if "s" in record.data else "n"
        number = record.data[kind]
        offsets = self._offsets[kind]
        if not 0 <= number <= record.offset:  # each takes some bytes
            raise KeyError(f"item {number}: there are not so many items")
        offsets.extend([-1] * (number + 1 - len(offsets)))
        offsets[number] = record.offset
        self._keep(kind, number, record)

        if kind == "n":
            self._end = max(self._end, number + 1)

    def _keep(self, kind: str, number: int, record: Record) -> None:
        self.add_item(record.data, record.crc)
        self._sizes[kind, number] = record.length
        self._at_hand += record.length
        while self._at_hand > self._most_at_hand and len(self._sizes) > 1:
            oldest, oldest_number = next(iter(self._sizes))
            self._at_hand -= self._sizes.pop((oldest, oldest_number))
            (self._strings if oldest == "s" else self._items).pop(oldest_number, None)

    def add_base(self, seq: int, items: Mapping[str, Payload]) -> None:
        """Take the `items` of the record `seq`: its full lists may serve later ones as a base."""
        super().add_base(seq, items)
        if len(self._bases) > BASES:
            del self._bases[next(iter(self._bases))]

    def _fetch(self, kind: str, number: int) -> None:
        offsets = self._offsets[kind]
        if not 0 <= number < len(offsets) or offsets[number] < 0:
            raise KeyError(number)
        self._keep(kind, number, self._file.record_at(offsets[number]))

    def _item(self, number: int) -> tuple[Payload, int]:
        if number not in self._items:
            self._fetch("n", number)
        return self._items[number]

    def _string(self, number: int) -> str:
        if number not in self._strings:
            self._fetch("s", number)
        return self._strings[number]
