"""Expands items: returns the JSON that was sent, from the records that `ItemEncoder` wrote.

`encoder.py` describes the records. The content of the records is not trusted. Ranges are checked before they are
expanded. If an item is missing, because its line is damaged, the calls that use the item cannot be read, but all other
calls can.

An `ItemTable` keeps all items in memory. A `DiskBackedItems` caches only the newest items, keeps 16 bytes for each
older item, and reads the older item's value from an open `JournalFile` again.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from trace_recorder.facts import ABSENT, BasePositions, DeltaList, ItemFact, ItemNumbers, Pair, Parts
from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.file_system import BINARY, Descriptor
from trace_recorder.storage.items.item_lists import MAX_FULL_RANGES
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.values.messages import Payload

MAX_MISSING_ITEMS = 100_000
"""At most this many item records may be missing from a journal.

An item is invalid if its number would mean that more records are missing.
"""
_MAX_REPEATS = 4
"""The ranges of one list may have at most this many numbers for each item of the journal.

More numbers could exhaust the memory.
"""
MAX_REPEATED_CHARS = 256 * 1024 * 1024
"""If an item has the same large string several times, the characters of the repetitions are counted.

All items of a journal together may have at most this many repeated characters. An item that exceeds this limit counts
as missing. For example, a message that has a string of 1 MB 20,000 times has 20 GB when its texts are joined.
"""
_NO_NUMBERS = array("q")


class ItemTable:
    """The items of a journal, and the lists of earlier requests to which later lists may refer (bases).

    At most the newest `max_bases` requests with such lists are kept. `expand` raises KeyError if an item is missing.
    """

    def __init__(self, *, max_bases: float = math.inf) -> None:
        self._max_bases = max_bases
        self._end = 0
        self._items: dict[int, Payload] = {}
        self._strings: dict[int, str] = {}
        self._bases: dict[int, dict[str, array[int]]] = {}
        self._all_numbers = array("q")
        self._repeated_chars: dict[int, int] = {}
        """How many characters the repetitions of large strings add to an item, by the item's number."""
        self._all_repeated_chars = 0

    @property
    def end(self) -> int:
        """One more than the largest number of an item."""
        return self._end

    def add(self, item: ItemFact, offset: int = 0, length: int = 0) -> None:  # noqa: ARG002 - where it is on disk
        """Add an item. Its record has `length` bytes at `offset` of the journal. Raises KeyError without a number."""
        number = item.n
        if number is None:
            if item.s is None:
                raise KeyError("n")
            self._strings[item.s] = item.value
            return
        value = item.value
        if item.strings is not None:
            try:
                value = self._filled(number, value, item.strings)
            except ours(KeyError):  # a large string of the item is missing
                value = ABSENT
        if value is not ABSENT:
            self._items[number] = value
        if self._end <= number < len(self._items) + MAX_MISSING_ITEMS:
            self._end = number + 1

    def _filled(self, number: int, value: Payload, marks: Mapping[str, int]) -> Payload:
        """Return the value of an item with its large strings filled in. Raises KeyError if a string is missing."""
        strings = {mark: self._string(part) for mark, part in marks.items()}
        if not strings:
            return value
        self._count_repeated(number, _filled_chars(value, strings) - sum(map(len, strings.values())))
        return _fill(value, strings)

    def _count_repeated(self, number: int, chars: int) -> None:
        """Add an item's repeated characters to the total of the journal.

        An item that is read again is counted only once. Raises KeyError if the total exceeds `MAX_REPEATED_CHARS`.
        """
        if chars <= 0:
            return
        self._all_repeated_chars += chars - self._repeated_chars.get(number, 0)
        self._repeated_chars[number] = chars
        if self._all_repeated_chars > MAX_REPEATED_CHARS:
            raise KeyError(f"item {number}: its strings are repeated too often")

    def add_base(self, seq: int, items: Parts) -> None:
        """Keep the lists that the record `seq` has in full, because later lists may refer to them.

        `items` are the record's members in items.
        """
        full = {}
        for name, part in items.items():
            if isinstance(part, list) and len(part) > MAX_FULL_RANGES:
                full[name] = self.numbers(name, part)
        if full:
            self._bases[seq] = full
            if len(self._bases) > self._max_bases:
                del self._bases[next(iter(self._bases))]

    def element(self, number: int) -> Payload:
        """Return the value of an item. Raises KeyError if it is missing."""
        return self._items[number]

    def _string(self, number: int) -> str:
        return self._strings[number]

    def record_at(self, place: int) -> Record:
        """Return the record at an offset of the journal. Raises KeyError, because this table has no open journal."""
        raise KeyError(place)

    def expand(self, body: Payload, items: Parts) -> dict[str, Payload]:
        """Return the JSON that was sent, from the body on file and its members in items.

        The caller must not change the result, because the results for other requests share its elements.
        """
        expanded: dict[str, Payload] = dict(body)
        for name, part in items.items():
            if isinstance(part, int):
                value = self.element(part)
            else:
                value = [self.element(number) for number in self.numbers(name, part)]
            if name in expanded:
                expanded[name] = value
            else:
                set_member(expanded, name, value)
        return expanded

    def numbers(self, name: str, part: ItemNumbers) -> array[int]:
        """Return the item numbers of a list, in order. Raises KeyError if the list refers to missing items."""
        ranges: Sequence[Pair | BasePositions]
        if isinstance(part, DeltaList):
            ranges, base = part.ranges, self._bases[part.base][name]
        else:
            ranges, base = part, _NO_NUMBERS
        end = self._end  # each range is checked, because a hostile file may have ranges of billions
        remaining = len(ranges) + _MAX_REPEATS * max(end, len(base))
        if len(self._all_numbers) < end:
            self._all_numbers.extend(range(len(self._all_numbers), end))
        numbers = array("q")
        for entry in ranges:
            if isinstance(entry, BasePositions):
                (first, last), source, count = entry.base, base, len(base)
            else:
                (first, last), source, count = entry, self._all_numbers, end
            remaining -= last - first
            if not 0 <= first <= last < count or remaining < 0:
                raise KeyError(f"{entry}: the list or the journal has fewer items")
            numbers += source[first : last + 1]
        return numbers


def set_member(request: dict[str, Payload], name: str, value: Payload) -> None:
    """Set a member of a request. The name "/request/contents" is that of a member of the object `request`.

    The object inside the request is replaced by a copy.
    """
    outer, _, inner = name[1:].partition("/")
    members = request.get(outer)
    if name in request or not name.startswith("/") or not isinstance(members, dict):
        request[name] = value
    else:
        request[outer] = {**members, inner: value}


def _filled_chars(value: Payload, strings: Mapping[str, str]) -> int:
    """Return how many characters the large strings have together after they replace their placeholders in a value."""
    if isinstance(value, str):
        return len(strings.get(value, ""))
    if isinstance(value, dict):
        return sum(_filled_chars(member, strings) for member in value.values())
    if isinstance(value, list):
        return sum(_filled_chars(element, strings) for element in value)
    return 0


def _fill(value: Payload, strings: Mapping[str, str]) -> Payload:
    if isinstance(value, str):
        return strings.get(value, value)
    if isinstance(value, list):
        return [_fill(element, strings) for element in value]
    if isinstance(value, dict):
        return {name: _fill(element, strings) for name, element in value.items()}
    return value


MAX_CACHED_BYTES = 512 * 1024
"""The newest items are cached, as long as their records have at most this many bytes together."""
MAX_BASES = 64
"""The full lists of at most this many records are kept. A list refers only to the newest full list of the same name."""


class JournalFile:
    """A journal that is open for reading. The journal stays readable if its file is renamed or removed.

    The user of this object calls `close`. There is no `__del__`, because Python drops an exception that a signal
    handler raises in a destructor.
    """

    def __init__(self, path: Path) -> None:
        self._file: Descriptor | None = Descriptor(os.open(path, os.O_RDONLY | BINARY))

    def close(self) -> None:
        """Close the file. Then `read` returns no bytes."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # an error does not matter, because the file was only read
                file.close()

    def read(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from `offset` on, or fewer at the end of the file."""
        if self._file is None:
            return b""
        return os.pread(self._file.number, size, offset)

    def record_at(self, offset: int) -> Record:
        """Return the record that begins at an offset. Raises KeyError if no record begins there."""
        size = 4096
        while (data := self.read(size, offset)) and b"\n" not in data and len(data) == size:
            size *= 8
        for record in read_records(data.partition(b"\n")[0], base=offset):
            if isinstance(record, Record):
                return record
        raise KeyError(offset)


class DiskBackedItems(ItemTable):
    """An `ItemTable` that keeps only the newest values in memory, and reads other values from the journal again.

    The table gets the item records in the order of the journal.
    """

    def __init__(self, file: JournalFile, *, max_cached_bytes: int = MAX_CACHED_BYTES) -> None:
        super().__init__(max_bases=MAX_BASES)
        self._max_cached_bytes = max_cached_bytes
        self._file = file
        self._offsets = {"n": array("q"), "s": array("q")}
        self._sizes: dict[tuple[str, int], int] = {}
        self._cached_bytes = self._taken = 0

    def add(self, item: ItemFact, offset: int = 0, length: int = 0) -> None:
        """Add an item. Its record has `length` bytes at `offset` of the journal.

        Raises KeyError if the item's number shows that too many item records before this record are missing.
        """
        kind, number = "n", item.n
        if number is None:
            kind, number = "s", item.s
        if number is None:
            raise KeyError("n")
        offsets = self._offsets[kind]
        self._taken += 1
        if not 0 <= number < self._taken + MAX_MISSING_ITEMS:  # damaged lines may be missing
            raise KeyError(f"item {number}: the journal has too few records of items before it")
        offsets.extend([-1] * (number + 1 - len(offsets)))
        offsets[number] = offset
        super().add(item)
        if kind == "n":
            self._end = max(self._end, number + 1)
        self._sizes[kind, number] = length
        self._cached_bytes += length
        while self._cached_bytes > self._max_cached_bytes and len(self._sizes) > 1:
            oldest, oldest_number = next(iter(self._sizes))
            self._cached_bytes -= self._sizes.pop((oldest, oldest_number))
            if oldest == "s":
                self._strings.pop(oldest_number, None)
            else:
                self._items.pop(oldest_number, None)

    def record_at(self, place: int) -> Record:
        """Return the record that begins at an offset of the journal. Raises KeyError if no record begins there."""
        return self._file.record_at(place)

    def _fetch(self, kind: str, number: int) -> None:
        offsets = self._offsets[kind]
        if not 0 <= number < len(offsets) or offsets[number] < 0:
            raise KeyError(number)
        record = self._file.record_at(offsets[number])
        if not isinstance(record.fact, ItemFact):
            raise KeyError(number)
        self.add(record.fact, record.offset, record.length)

    def element(self, number: int) -> Payload:
        """Return the value of an item. Raises KeyError if it is missing."""
        if number not in self._items:
            self._fetch("n", number)
        return self._items[number]

    def _string(self, number: int) -> str:
        if number not in self._strings:
            self._fetch("s", number)
        return self._strings[number]
