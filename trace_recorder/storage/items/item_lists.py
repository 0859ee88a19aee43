"""Gives numbers to the items of a request, and writes lists of items as ranges of numbers.

An element that was written before keeps its number. `RequestItems` gives the next number to a new element. Two elements
are the same item if their JSON texts have the same bytes. `encoder.py` describes the format.

A list of many ranges may be written relative to a base: an earlier list of the same name that is written in full. A
part of the base is found even if elements before it were inserted, removed or replaced. All lists that refer to one
base may together have at most about as many ranges as one full list. After that, the next list is written in full, and
becomes the base. So n requests whose lists have n ranges each take about n^1.5 ranges instead of n^2.

`encoder.py` takes requests apart, and `conversation_prefix.py` says which elements need not be parsed again.
`large_strings.py` replaces large strings by marks.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from trace_recorder.facts import ItemFact, JsonText
from trace_recorder.storage.items.large_strings import (
    MIN_STRING_CHARACTERS,
    LargeString,
    digest,
    marks_in,
    reduce_json,
    restore,
)
from trace_recorder.values.json_text import make_json_writer, one_line
from trace_recorder.values.messages import Payload
from trace_recorder.values.prompt_comparison import range_begins
from trace_recorder.values.structs import Struct, field

dump_json = make_json_writer(",", ":")


class Element(Struct, eq=False):
    """An element of a list that is given to `encode_lists`.

    `text` is its JSON text. `item` is the number of its item, or None while the element is new. `parts` is how many
    JSON values it has. The caller may find the element again by its `key`. When the element is on file, the caller may
    drop its text, and keep the number of its characters in `chars`.
    """

    text: str
    parts: int
    key: Hashable | None = None
    item: int | None = None
    chars: int = 0


class ItemList(Struct):
    """A list of a request, as the numbers of its elements. `begins` are the positions at which ranges begin."""

    numbers: array[int] = field(default_factory=lambda: array("L"))
    begins: array[int] = field(default_factory=lambda: array("L"))

    @classmethod
    def of(cls, numbers: array[int]) -> ItemList:
        """Return the list of these elements, by the numbers of their items."""
        return cls(numbers, array("L", range_begins(numbers)))

    def add(self, number: int) -> None:
        """Append an element, by the number of its item."""
        if not self.numbers or self.numbers[-1] != number - 1:
            self.begins.append(len(self.numbers))
        self.numbers.append(number)

    def ranges(self) -> list[list[int]]:
        """Return the numbers as inclusive ranges."""
        numbers, spans = self.numbers, pairwise([*self.begins, len(self.numbers)])
        return [[numbers[begin], numbers[end - 1]] for begin, end in spans]

    def add_elements(self, elements: Sequence[Element], items: RequestItems) -> None:
        """Append elements, and set the item of each new element."""
        for element in elements:
            if element.item is None:
                element.item = items.item_of(element.text)
            self.add(element.item)


Parts = Mapping[str, int | ItemList]
"""The members of a request that are stored as items.

The name of a member maps to the number of one item, or to a list of items.
"""


class RequestItems:
    """The items of one request.

    `known` maps the keys of items that were written before to their numbers. `new` does so for all other items, whose
    facts are in `facts`.
    """

    def __init__(self, known: Mapping[bytes, int], next_numbers: dict[str, int]) -> None:
        self.new: dict[bytes, int] = {}
        self.facts: list[ItemFact] = []
        self._known = known
        self._next = next_numbers
        self._large: dict[str, LargeString] = {}
        self._is_reduced = False
        self.restored: Callable[[str], str] = str
        """A function that returns JSON text with its large strings in place of their marks."""
        self.size_of: Callable[[str], int] = len
        """A function that returns how many characters a JSON text and its large strings have."""

    def take_reduced(self, strings: Mapping[str, LargeString]) -> None:
        """Take the large strings of the request, each with its mark.

        From now on, the texts of elements have marks in place of these strings.
        """
        self._large |= strings
        self._is_reduced = True
        self.restored, self.size_of = self._restored, self._size_of

    def item_of(self, text: str) -> int:
        """Return the number of an element's item, from its JSON text.

        If the item was not written before, add it to `new`.
        """
        if len(text) > MIN_STRING_CHARACTERS and not self._is_reduced:
            reduced = reduce_json(text.encode())
            self._large |= reduced.strings
            text = reduced.text
        key = digest(b"n", text.encode("utf-8", "surrogatepass"))
        known = self._known.get(key, self.new.get(key))
        if known is not None:
            return known
        strings: dict[str, int] = {}
        value = text
        if self._large:
            value = self._refer_to_strings(text, strings)
        number = self._take_number("n", key)
        self.facts.append(ItemFact(n=number, strings=strings or None, value=JsonText(one_line(value))))
        return number

    def _restored(self, text: str) -> str:
        return restore(text, self._large)

    def _size_of(self, text: str) -> int:
        marks = (self._large[mark[0]] for mark in marks_in(text) if mark[0] in self._large)
        return len(text) + sum(len(string.literal) for string in marks)

    def bytes_of(self, text: str) -> int:
        """Return how many bytes a part of the request had. `text` is this part, or what `take_reduced` left of it."""
        size = len(text)
        if not text.isascii():
            size = len(text.encode("utf-8", "surrogatepass"))
        if self._is_reduced:
            marks = (mark[0] for mark in marks_in(text) if mark[0] in self._large)
            size += sum(len(self._large[mark].data) - len(mark) for mark in marks)
        return size

    def _refer_to_strings(self, text: str, strings: dict[str, int]) -> str:
        """Replace the marks of large strings by placeholders, and add each placeholder's item number to `strings`."""
        parts: list[str] = []
        done = 0
        for mark in marks_in(text):
            large = self._large.get(mark[0])
            if large is None:  # it only looks like a mark
                continue
            number = self._known.get(large.key, self.new.get(large.key))
            if number is None:
                number = self._take_number("s", large.key)
                self.facts.append(ItemFact(s=number, value=JsonText(large.literal, large.data)))
            placeholder = f"@string:{number}"
            if _contains(text, placeholder):
                parts += (text[done : mark.start()], large.literal)
            else:
                strings[placeholder] = number
                parts += (text[done : mark.start()], f'"{placeholder}"')
            done = mark.end()
        return "".join([*parts, text[done:]])

    def _take_number(self, name: str, key: bytes) -> int:
        number = self._next[name]
        self._next[name] = number + 1  # even if Ctrl-C follows, no number is used twice: the record may be on file
        self.new[key] = number
        return number


def _contains(text: str, placeholder: str) -> bool:
    """Return whether an element's JSON text contains a placeholder's text already, possibly written with escapes."""
    return placeholder in text or ("\\u" in text and placeholder in dump_json(json.loads(text)))


MAX_FULL_RANGES = 12
"""A list with more ranges than this is written relative to an earlier list (`Base`) if that saves enough.

Otherwise it is written in full, and becomes a base itself.
"""


class Base:
    """A list that is written in full in the record `seq`.

    `written` is how many ranges the lists that refer to this base have together.
    """

    def __init__(self, seq: int, numbers: array[int]) -> None:
        self.seq = seq
        self.numbers = numbers
        self.written = 0

    @cached_property
    def _positions(self) -> dict[int, int]:
        """Maps each number in this base to its first position."""
        return {number: position for position, number in reversed(list(enumerate(self.numbers)))}

    def ranges_of(self, numbers: array[int]) -> list[Payload]:
        """Return the ranges of a list of numbers.

        Two or more numbers in a row that this base has in the same order become a range of positions in the base. All
        other numbers become ranges of numbers.
        """
        ranges: list[Payload] = []
        others = ItemList()
        position = place = 0
        while position < len(numbers):
            place = self._place_of(numbers[position], place)
            same = _common_length(numbers, position, self.numbers, place)
            if same > 1:
                ranges += [*others.ranges(), {"base": [place, place + same - 1]}]
                others = ItemList()
            else:  # a single number is shorter than its position in the base
                same = 1
                others.add(numbers[position])
            position, place = position + same, place + same
        return [*ranges, *others.ranges()]

    def _place_of(self, number: int, expected: int) -> int:
        """Return `expected` if the base has the number at that position.

        Otherwise return the number's first position in the base, or `expected` if the base does not have the number.
        """
        if expected < len(self.numbers) and self.numbers[expected] == number:
            return expected
        return self._positions.get(number, expected)


def ranges_of_base(part: ItemList, base: Base | None) -> Payload | None:
    """Return the entry of a list in a record's `items`, with ranges relative to `base`.

    Return None if they are not fewer than the list's own ranges.
    """
    if base is None:
        return None
    ranges, full = base.ranges_of(part.numbers), len(part.begins)
    base.written += len(ranges)
    if len(ranges) >= full or base.written > max(full, MAX_FULL_RANGES):
        return None
    return {"base": base.seq, "ranges": ranges}


def _common_length(numbers: Sequence[int], begin: int, other: Sequence[int], place: int) -> int:
    """Return how many consecutive numbers are the same in `numbers` from `begin` on and in `other` from `place` on."""
    length, step, longest = 0, 1, min(len(numbers) - begin, len(other) - place)
    while step and length < longest:
        end = min(length + step, longest)
        if numbers[begin + length : begin + end] == other[place + length : place + end]:
            length, step = end, 2 * step
        else:
            longest, step = end - 1, (end - length) // 2
    return length
