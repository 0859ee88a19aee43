"""The items of one request: elements and large strings, each with the number of its record, and the lists of them.

An element that was written before keeps its number; `RequestItems` gives the next one to an element that is new. Two
elements are the same item where their JSON texts are the same, byte for byte. The format is described in `encoder.py`.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.storage.items.large_strings import (
    MIN_STRING_CHARACTERS,
    LargeString,
    digest,
    marks_in,
    reduce_json,
    restore,
)
from trace_recorder.values.json_text import make_json_writer, one_line

dump_json = make_json_writer(",", ":")


@dataclass(slots=True)
class Item:
    """The number of an item, and the CRC of its record, which is 0 until that has been written."""

    number: int
    crc: int = 0


@dataclass(slots=True)
class NewItem:
    """An item record to be written, as JSON members: `about` as it is, `members_to_mask` with its secrets masked."""

    about: str
    members_to_mask: str
    key: bytes
    item: Item


@dataclass(slots=True, eq=False)
class Element:
    """An element of a list: its JSON text, which is a new item until `item` is set.

    The caller finds it again by its `key`, unless that is None. `parts` is how many values it consists of. When it is
    on file, its text may be dropped, and `chars` counts the memory of its entry.
    """

    text: str
    parts: int
    key: Hashable | None = None
    item: Item | None = None
    chars: int = 0


@dataclass(slots=True)
class ItemList:
    """A list of a request: the numbers of its elements, the same as ranges, and the running check value.

    `waiting` are the elements at the end with CRCs that are not in `check` yet: their records may not be written.
    `total` is the check value that was asked for last.
    """

    numbers: array[int] = field(default_factory=lambda: array("L"))
    ranges: list[list[int]] = field(default_factory=list)
    check: int = 0
    waiting: list[Item] = field(default_factory=list)
    total: int = 0

    def add(self, item: Item) -> None:
        """Append an element."""
        number = item.number
        self.numbers.append(number)
        self.waiting.append(item)
        if self.ranges and self.ranges[-1][1] == number - 1:
            self.ranges[-1][1] = number
        else:
            self.ranges.append([number, number])

    def add_elements(self, elements: Sequence[Element], items: RequestItems) -> None:
        """Append elements, and set the item of each one that is new."""
        for element in elements:
            if element.item is None:
                element.item = items.item_of(element.text)
            self.add(element.item)


Parts = Mapping[str, int | ItemList]
"""The members of a request that are stored as items: the number of one item, or a list of them."""


class RequestItems:
    """The items of one request: those written before, and those that are `new`.

    `known` has those written before by their keys. Number and CRC are one integer, the CRC in its lowest 32 bits: tens
    of thousands are remembered, and this halves their memory.
    """

    def __init__(self, known: Mapping[bytes, int], next_numbers: dict[str, int]) -> None:
        self.new: dict[bytes, NewItem] = {}
        self._known = known
        self._next = next_numbers
        self._large: dict[str, LargeString] = {}
        self._is_reduced = False
        self.restored: Callable[[str], str] = str
        """Returns JSON text with its large strings in their places."""
        self.size_of: Callable[[str], int] = len
        """Returns how many characters JSON text has with its large strings."""

    def take_reduced(self, strings: Mapping[str, LargeString]) -> None:
        """Take the large strings of the request, by their marks: they are not in the elements' texts any more."""
        self._large |= strings
        self._is_reduced = True
        self.restored, self.size_of = self._restored, self._size_of

    def item_of(self, text: str) -> Item:
        """Return the item of an element's JSON text; a new one where it was not written before."""
        if len(text) > MIN_STRING_CHARACTERS and not self._is_reduced:
            text = self._reduce(text)
        known = self._find(key := digest("n", text.encode("utf-8", "surrogatepass")))
        if known is not None:
            return known
        strings: dict[str, int] = {}
        value = self._refer_to_strings(text, strings) if self._large else text
        return self._add(key, "n", one_line(value), strings)

    def _restored(self, text: str) -> str:
        return restore(text, self._large)

    def _size_of(self, text: str) -> int:
        marks = (self._large[mark[0]] for mark in marks_in(text) if mark[0] in self._large)
        return len(text) + sum(len(string.literal) for string in marks)

    def _reduce(self, text: str) -> str:
        reduced = reduce_json(text.encode())
        if reduced is None:  # it has such marks, which nobody sends
            return text
        self._large |= reduced.strings
        return reduced.text.decode() if reduced.strings else text

    def _refer_to_strings(self, text: str, strings: dict[str, int]) -> str:
        """Replace the marks of large strings by placeholders for their items."""
        parts: list[str] = []
        done = 0
        for mark in marks_in(text):
            large = self._large.get(mark[0])
            if large is None:  # it was sent like this
                continue
            item = self._find(large.key) or self._add(large.key, "s", large.literal)
            placeholder = f"@string:{item.number}"
            if _contains(text, placeholder):
                parts += (text[done : mark.start()], large.literal)
            else:
                strings[placeholder] = item.number
                parts += (text[done : mark.start()], f'"{placeholder}"')
            done = mark.end()
        return "".join([*parts, text[done:]])

    def _find(self, key: bytes) -> Item | None:
        known = self._known.get(key)
        if known is not None:
            return Item(known >> 32, known & 0xFFFFFFFF)
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
