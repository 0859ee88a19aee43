"""The items of one request: elements and large strings, each with the number of its record, and the lists of them.

An element that was written before keeps its number; `RequestItems` gives the next one to an element that is new. Two
elements are the same item where their JSON texts are the same, byte for byte. The format is described in `encoder.py`.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from zlib import crc32

from trace_recorder.background_work import yield_to_others
from trace_recorder.storage.redaction.json_strings import literals
from trace_recorder.values.json_text import COLON, make_json_writer, one_line

MIN_STRING_CHARACTERS = 8192
"""A string inside an element is an item of its own from this many characters on."""

dump_json = make_json_writer(",", ":")


@dataclass(slots=True)
class Item:
    """The number of an item, and the CRC of its record, which is 0 until that has been written."""

    number: int
    crc: int = 0

    def pack(self) -> int:
        """Both as one integer: tens of thousands are remembered, and this halves their memory."""
        return self.number << 32 | self.crc


def unpack_item(packed: int) -> Item:
    """Return the item that `Item.pack` packed."""
    return Item(packed >> 32, packed & 0xFFFFFFFF)


@dataclass(slots=True)
class NewItem:
    """An item record to be written, as JSON members: `about` as it is, `members_to_mask` with its secrets masked."""

    about: str
    members_to_mask: str
    key: bytes
    item: Item


@dataclass(slots=True)
class ItemList:
    """A list of a request: the numbers of its elements, the same as ranges, and the running check value.

    `waiting` are the elements at the end with CRCs that are not in `check` yet: their records may not be written.
    """

    numbers: array[int] = field(default_factory=lambda: array("L"))
    ranges: list[list[int]] = field(default_factory=list)
    check: int = 0
    waiting: list[Item] = field(default_factory=list)

    def add(self, item: Item) -> None:
        """Append an element."""
        number = item.number
        self.numbers.append(number)
        self.waiting.append(item)
        if self.ranges and self.ranges[-1][1] == number - 1:
            self.ranges[-1][1] = number
        else:
            self.ranges.append([number, number])

    def check_value(self) -> int:
        """The CRC-32 over the CRCs of all elements; those that wait must have theirs by now."""
        return crc32(b"".join([b"%08x" % item.crc for item in self.waiting]), self.check)

    def mark_written(self) -> None:
        """Move the waiting elements into the running check value: their records are on file."""
        self.check, self.waiting = self.check_value(), []


Parts = Mapping[str, int | ItemList]
"""The members of a request that are stored as items: the number of one item, or a list of them."""


class RequestItems:
    """The items of one request: those written before, and those that are `new`."""

    def __init__(self, known: Mapping[bytes, int], next_numbers: dict[str, int]) -> None:
        self.new: dict[bytes, NewItem] = {}
        self._known = known
        self._next = next_numbers

    def item_of(self, text: str) -> Item:
        """Return the item of an element's JSON text; a new one where it was not written before."""
        known = self._find(key := _digest("n", text))
        if known is not None:
            return known
        strings: dict[str, int] = {}
        shorter = text
        if len(text) > MIN_STRING_CHARACTERS:
            shorter = self._extract_strings(text, strings)
        return self._add(key, "n", one_line(shorter), strings)

    def _extract_strings(self, text: str, strings: dict[str, int]) -> str:
        """Replace large strings by placeholders for their items; names of members stay, which a colon follows."""
        parts: list[str] = []
        done = 0
        for start, end in literals(text):
            if end - start < MIN_STRING_CHARACTERS or COLON.match(text, end):
                continue
            yield_to_others()
            string = text[start:end]
            key = _digest("s", string)
            item = self._find(key) or self._add(key, "s", string)
            placeholder = f"@string:{item.number}"
            if not _contains(text, placeholder):
                strings[placeholder] = item.number
                parts += (text[done:start], f'"{placeholder}"')
                done = end
        return "".join([*parts, text[done:]])

    def _find(self, key: bytes) -> Item | None:
        if key in self._known:
            return unpack_item(self._known[key])
        return self.new[key].item if key in self.new else None

    def _add(self, key: bytes, name: str, value: str, strings: Mapping[str, int] | None = None) -> Item:
        number = self._next[name]
        self._next[name] = number + 1  # never given twice: a record that Ctrl-C interrupted may be on file
        about = f'"{name}":{number},"strings":{dump_json(strings)}' if strings else f'"{name}":{number}'
        item = Item(number)
        self.new[key] = NewItem(about, f'"value":{value}', key, item)
        return item


def _contains(text: str, placeholder: str) -> bool:
    """Whether an element contains this text already, also where it writes it with escapes."""
    return placeholder in text or ("\\u" in text and placeholder in dump_json(json.loads(text)))


def _digest(name: str, text: str) -> bytes:
    """Identify an item by 120 bits: as a `bytes` object they take 48 bytes, where 128 bits would take 64."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=15, person=name.encode()).digest()
