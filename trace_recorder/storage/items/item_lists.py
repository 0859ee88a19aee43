"""Gives numbers to the items of a request, and writes lists of items as ranges of numbers.

An element that was written before keeps its number. `RequestItems` gives the next number to a new element. Two elements
are the same item if their JSON texts have the same bytes. `encoder.py` describes the format.

A list of many ranges may be written relative to a base: an earlier list of the same name that is written in full. A
part of the base is found even if elements before it were inserted, removed or replaced. All lists that refer to one
base may together have at most about as many ranges as one full list. After that, the next list is written in full, and
becomes the base. So n requests whose lists have n ranges each take about n^1.5 ranges instead of n^2.

A `ConversationPrefix` is the newest request of a conversation, cut in two. The head ends where the request's longest
list ends, and the tail has the rest. If a later request begins with this head and ends with this tail, only the bytes
between them are parsed and hashed. These bytes are the elements that the request adds to the list. `encoder.py` chooses
the prefix of a request, and takes requests apart. `large_strings.py` replaces large strings by marks.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Self

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
    """A list of a request: the numbers of its elements, and the same numbers as ranges."""

    numbers: array[int] = field(default_factory=lambda: array("L"))
    ranges: list[list[int]] = field(default_factory=list)

    def add(self, number: int) -> None:
        """Append an element, by the number of its item."""
        self.numbers.append(number)
        if self.ranges and self.ranges[-1][1] == number - 1:
            self.ranges[-1][1] = number
        else:
            self.ranges.append([number, number])

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
                ranges += [*others.ranges, {"base": [place, place + same - 1]}]
                others = ItemList()
            else:  # a single number is shorter than its position in the base
                same = 1
                others.add(numbers[position])
            position, place = position + same, place + same
        return [*ranges, *others.ranges]

    def _place_of(self, number: int, expected: int) -> int:
        """Return `expected` if the base has the number at that position.

        Otherwise return the number's first position in the base, or `expected` if the base does not have the number.
        """
        if expected < len(self.numbers) and self.numbers[expected] == number:
            return expected
        return self._positions.get(number, expected)


def ranges_or_base(part: ItemList, base: Base | None) -> Payload:
    """Return the entry of a list in a record's `items`.

    The entry has ranges relative to `base` if they are fewer, and otherwise the list's own ranges.
    """
    if base is None:
        return part.ranges
    ranges = base.ranges_of(part.numbers)
    base.written += len(ranges)
    if len(ranges) >= len(part.ranges) or base.written > max(len(part.ranges), MAX_FULL_RANGES):
        return part.ranges
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


MAX_PREFIXES = 64
"""Only the newest prefixes are kept, at most this many."""
MAX_PREFIX_BYTES = 8 * 1024 * 1024
"""All kept prefixes except the newest have at most this many bytes together. The oldest prefixes are dropped first."""
MAX_NEWEST_BYTES = 16 * 1024 * 1024
"""The newest prefix is kept only if it has at most this many bytes."""
MIN_CACHED_BYTES = 2048
"""A prefix with fewer bytes than this is kept only while it is the newest.

Parsing such a short request costs no more than comparing it with a prefix.
"""
PROBE_BYTES = 64
"""`added_span` first compares this many bytes, at the end of the prefix's head.

A request of another conversation usually differs there.
"""


class ConversationPrefix(Struct):
    """The newest request of a conversation, cut into a head and a tail.

    `head` is the length of the head in bytes, and `tail` has the bytes of the tail. `growing` is the longest list,
    which ends where the head ends. `body` and `parts` are the request taken apart. `probe` has the last bytes of the
    head. `size` is how many bytes this prefix keeps in memory.
    """

    tail: bytes
    body: str
    parts: Parts
    growing: ItemList
    request: bytes = b""
    head: int = 0
    size: int = 0
    probe: bytes = b""
    probe_start: int = 0

    def take(self, request: bytes) -> Self:
        """Make a request the newest of the conversation.

        The request ends with `tail`. All elements of the request's longest list must be in `growing` already.
        """
        self.request, self.head = request, len(request) - len(self.tail)
        self.size = len(request) + len(self.tail)
        self.probe_start = max(0, self.head - PROBE_BYTES)
        self.probe = request[self.probe_start : self.head]
        return self

    def added_span(self, request: bytes) -> tuple[int, int] | None:
        """Return the span of a request between the head and the tail of this prefix.

        Return None if the request does not begin with this head and end with this tail.
        """
        if not request.startswith(self.probe, self.probe_start) or not request.endswith(self.tail):
            return None  # two cheap comparisons reject most requests of other conversations
        head, end = self.head, len(request) - len(self.tail)
        if head > end or not request.startswith(memoryview(self.request)[:head]):
            return None
        return head, end


def newest_prefixes(newest: ConversationPrefix | None, prefixes: list[ConversationPrefix]) -> list[ConversationPrefix]:
    """Return the prefixes to keep, the newest first.

    Drop small prefixes that are not the newest, and the oldest prefixes beyond the limits.
    """
    others = [other for other in prefixes if other is not newest and other.size >= MIN_CACHED_BYTES]
    others = others[: MAX_PREFIXES - 1]
    while sum(map(_size_of, others)) > MAX_PREFIX_BYTES:
        others.pop()
    if newest is None or newest.size > MAX_NEWEST_BYTES:
        return others
    return [newest, *others]


_size_of = attrgetter("size")
