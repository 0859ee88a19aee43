"""A journal that is read while it grows, and a table of its items that stay on disk: only the newest values are cached.

The memory of an `ItemTable` grows with the run; that of `DiskBackedItems` only by 16 bytes for each item.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path

from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.file_descriptor import Descriptor
from trace_recorder.storage.file_system import BINARY
from trace_recorder.storage.items.table import MAX_MISSING_ITEMS, ItemTable
from trace_recorder.storage.journal_reader import Record, read
from trace_recorder.values.messages import Payload

MAX_CACHED_BYTES = 512 * 1024
"""How many bytes of items are cached, counted as they are in the journal."""
MAX_BASES = 64
"""How many full lists are kept; a list is only ever relative to the last one of its name."""


class JournalFile:
    """A journal that is open for reading, also if it is renamed or removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Descriptor | None = None
        self._file = Descriptor(os.open(path, os.O_RDONLY | BINARY))

    def read(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from `offset` on; fewer at the end of the file."""
        return b"" if self._file is None else os.pread(self._file.number, size, offset)

    def record_at(self, offset: int) -> Record:
        """Return the record that begins at an offset. Raises KeyError if there is none."""
        size = 4096
        while (data := self.read(size, offset)) and b"\n" not in data and len(data) == size:
            size *= 8
        for record in read(data.partition(b"\n")[0], base=offset):
            if isinstance(record, Record):
                return record
        raise KeyError(offset)

    def is_in_place(self) -> bool:
        """Whether the file is open and has the journal's name: a removed journal is created again as another file."""
        try:
            return self._file is not None and os.path.samestat(self._file.stat(), self._path.stat())
        except ours(OSError):
            return False

    def __del__(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # it was only read
                file.close()


class DiskBackedItems(ItemTable):
    """An `ItemTable` that takes the records of one journal in order, and reads their values from it again."""

    def __init__(self, file: JournalFile, *, max_cached_bytes: int = MAX_CACHED_BYTES) -> None:
        super().__init__(max_bases=MAX_BASES)
        self._max_cached_bytes = max_cached_bytes
        self._file = file
        self._offsets = {"n": array("q"), "s": array("q")}
        self._sizes: dict[tuple[str, int], int] = {}
        self._cached_bytes = self._taken = 0

    def add_record(self, record: Record) -> None:
        """Take an item record. Raises KeyError if its number is too high for a journal with so few items."""
        kind = "s" if "s" in record.data else "n"
        number = record.data[kind]
        offsets = self._offsets[kind]
        self._taken += 1
        if not 0 <= number < self._taken + MAX_MISSING_ITEMS:  # lines may be missing, or in another order
            raise KeyError(f"item {number}: there are not so many items")
        offsets.extend([-1] * (number + 1 - len(offsets)))
        offsets[number] = record.offset
        self.add_item(record.data, record.crc)
        if kind == "n":
            self._end = max(self._end, number + 1)
        self._sizes[kind, number] = record.length
        self._cached_bytes += record.length
        while self._cached_bytes > self._max_cached_bytes and len(self._sizes) > 1:
            oldest, oldest_number = next(iter(self._sizes))
            self._cached_bytes -= self._sizes.pop((oldest, oldest_number))
            (self._strings if oldest == "s" else self._items).pop(oldest_number, None)

    def record_at(self, place: int) -> Record:
        """Return the record that begins at a place in the journal. Raises KeyError if there is none."""
        return self._file.record_at(place)

    def _fetch(self, kind: str, number: int) -> None:
        offsets = self._offsets[kind]
        if not 0 <= number < len(offsets) or offsets[number] < 0:
            raise KeyError(number)
        self.add_record(self._file.record_at(offsets[number]))

    def _item(self, number: int) -> tuple[Payload, int]:
        if number not in self._items:
            self._fetch("n", number)
        return self._items[number]

    def _string(self, number: int) -> str:
        if number not in self._strings:
            self._fetch("s", number)
        return self._strings[number]
