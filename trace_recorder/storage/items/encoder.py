"""Items: what is sent again and again is stored once.

An LLM call repeats the whole conversation. `ItemEncoder` takes a request's JSON apart: each element of a list that
recurs (messages, contents, tools, …), each large member, and each large string inside an element is an `item`
record, written once and numbered; what is left of the request names numbers. `table.py` expands it to the
JSON that was sent. Equality is that of the serialised text, never of Python values. Which member means what is not
known here: the same rule serves every provider.

    item         {"n": 7, "value": …}                                     an element or a large member
                 {"n": 8, "value": {… "@string:3" …}, "strings": {"@string:3": 3}}
                 {"s": 3, "value": "…"}                                   a large string inside an element
    in a record  "body": the request with null in place of what is in `items`
                 "items": {"messages": [[0, 41]], "instructions": 42}     ranges of numbers, or one number
                 "check": {"messages": "9f3a01bc", …}                     CRC-32 over the CRCs of those item records

Where the numbers of a list are scattered, ranges may name positions of an earlier list that stands in full:
{"base": 171, "ranges": [[900, 900], {"base": [1, 280]}]}, 171 being the `seq` of the record that holds it.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby, islice
from operator import attrgetter
from typing import Self
from zlib import crc32

from trace_recorder.storage.redaction.names import kind_of
from trace_recorder.values.json_text import COLON, STRING, Member, decode, members_of, more_elements, one_line, writer
from trace_recorder.values.messages import Payload

LARGE_MEMBER = 256
"""A member of the request that is no list of objects is an item from this many characters on."""
LARGE_STRING = 8192
"""A string inside an element is an item of its own from this many characters on."""
KNOWN_ITEMS = 16_384
"""How many items are remembered, at most; one that was forgotten is written again when it comes back."""
SCATTERED = 12
"""A list of more ranges than this is written against an earlier full one."""
LANES = 64
LANE_BYTES = 8 * 1024 * 1024
"""How many requests are remembered for the next to be held against, and of how many bytes together are the older."""
LONGEST_LANE = 16 * 1024 * 1024
"""Of how many bytes the newest may be."""
WORTH = 2048
"""A request of fewer bytes is remembered for the next one alone: taking it apart costs no more than looking for it."""
TELLING = 64
"""By so many bytes at its end most requests are told from a head that is not theirs."""


@dataclass(slots=True)
class _Item:
    """The number of an item, and the CRC of its record, which is known when that has been written."""

    number: int
    crc: int = 0

    def packed(self) -> int:
        """Both in one: of tens of thousands, that is half the memory."""
        return self.number << 32 | self.crc


def _unpacked(packed: int) -> _Item:
    return _Item(packed >> 32, packed & 0xFFFFFFFF)


@dataclass(slots=True)
class NewItem:
    """An item record that is to be written: members about it, and members in which secrets are masked, as JSON text."""

    about: str
    said: str
    key: bytes
    item: _Item


@dataclass(slots=True)
class _List:
    """A list of the last request: the numbers of its elements, their ranges, and the running check value.

    `waiting` are elements at the end whose records may not be written yet, and which are not in the check value.
    """

    numbers: array[int] = field(default_factory=lambda: array("L"))
    ranges: list[list[int]] = field(default_factory=list)
    check: int = 0
    waiting: list[_Item] = field(default_factory=list)

    def add(self, item: _Item) -> None:
        number = item.number
        self.numbers.append(number)
        self.waiting.append(item)
        if self.ranges and self.ranges[-1][1] == number - 1:
            self.ranges[-1][1] = number
        else:
            self.ranges.append([number, number])

    def checked(self) -> int:
        """The check value of all of it."""
        return crc32(b"".join([b"%08x" % item.crc for item in self.waiting]), self.check)

    def written(self) -> None:
        """Hear that there are no records that wait."""
        self.check, self.waiting = self.checked(), []


_Parts = Mapping[str, int | _List]
"""What of a request are items, by the name of its member: one, or a list."""


@dataclass(slots=True)
class _Lane:
    """The last request of a conversation: up to `head` stands its longest list, `tail` is what comes behind.

    A request that begins and ends with the same bytes has the same elements and members, and new elements between.
    """

    tail: bytes
    body: str
    parts: _Parts
    growing: _List
    request: bytes = b""
    head: int = 0
    size: int = 0
    telling: bytes = b""
    told_at: int = 0

    def take(self, request: bytes) -> Self:
        """Take a request, whose longest list is all there in `growing`."""
        self.request, self.head = request, len(request) - len(self.tail)
        self.size = len(request) + len(self.tail)
        self.told_at = max(0, self.head - TELLING)
        self.telling = request[self.told_at : self.head]
        return self

    def middle(self, request: bytes) -> bytes | None:
        """What a request has between this one's head and tail; None where it is no continuation of this one."""
        if not request.startswith(self.telling, self.told_at) or not request.endswith(self.tail):
            return None  # so are most that have nothing to do with this one
        head, end = self.head, len(request) - len(self.tail)
        is_longer = head <= end and request.startswith(memoryview(self.request)[:head])
        return request[head:end] if is_longer else None


@dataclass(slots=True)
class Encoded:
    """A request taken apart: the records that are `new`, and the JSON texts of its `body` and its `items`."""

    new: list[NewItem]
    body: str
    items: str
    _parts: _Parts
    _written: Callable[[int], None]

    def check(self, crcs: Sequence[int]) -> str:
        """The JSON text of its check values, from the CRCs of the new records. It may be asked for again."""
        for new, crc in zip(self.new, crcs, strict=True):
            new.item.crc = crc
        return _dump({name: f"{part.checked():08x}" for name, part in self._parts.items() if isinstance(part, _List)})

    def written(self, seq: int) -> None:
        """Hear that the new records are on file, and the request, as the record `seq`."""
        self._written(seq)


class _Items:
    """The items of one request: those that are known already, and those that are `new`."""

    def __init__(self, known: Mapping[bytes, int], numbers: dict[str, int]) -> None:
        self.new: dict[bytes, NewItem] = {}
        self._known = known
        self._next = numbers

    def of(self, text: str) -> _Item:
        """The item that an element is, or becomes."""
        known = self._find(key := _digest("n", text))
        if known is not None:
            return known
        strings: dict[str, int] = {}
        shorter = STRING.sub(lambda found: self._string(found, text, strings), text) if _is_large(text) else text
        return self._made(key, "n", one_line(shorter), strings)

    def _string(self, found: re.Match[str], text: str, strings: dict[str, int]) -> str:
        if found.end() - found.start() < LARGE_STRING or COLON.match(text, found.end()):
            return found[0]
        key = _digest("s", found[0])
        item = self._find(key) or self._made(key, "s", found[0])
        placeholder = f"@string:{item.number}"
        if _says(text, placeholder):
            return found[0]
        strings[placeholder] = item.number
        return f'"{placeholder}"'

    def _find(self, key: bytes) -> _Item | None:
        if key in self._known:
            return _unpacked(self._known[key])
        return self.new[key].item if key in self.new else None

    def _made(self, key: bytes, name: str, value: str, strings: Mapping[str, int] | None = None) -> _Item:
        number = self._next[name]
        self._next[name] = number + 1  # once and for all: what Ctrl-C interrupts may have been written
        about = f'"{name}":{number},"strings":{_dump(strings)}' if strings else f'"{name}":{number}'
        item = _Item(number)
        self.new[key] = NewItem(about, f'"value":{value}', key, item)
        return item


class ItemEncoder:
    """Takes requests apart for one journal. Not thread-safe: the run's lock is held around it.

    What it gave is known when it hears that it was written: what could not be written is new again.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._next = {"n": 0, "s": 0}
        self._bases: dict[str, tuple[int, array[int]]] = {}
        self._lanes: list[_Lane] = []

    def encode(self, request: bytes) -> Encoded:
        """Take a request apart into item records, those that are new, and what is left of it.

        `request` is a JSON object in UTF-8. What it shares with an earlier request, byte for byte, is neither parsed
        nor hashed again. Raises NotJsonError where it is no such thing.
        """
        lanes, self._lanes = self._lanes, []  # whatever interrupts this leaves no lane that is half continued
        items = _Items(self._known, self._next)
        body, parts, lane = _continued(lanes, request, items) or _begun(request, items)
        said, full = self._numbers_of(parts)
        new = list(items.new.values())

        def remember(seq: int) -> None:
            self._known |= {one.key: one.item.packed() for one in new}
            if len(self._known) > KNOWN_ITEMS:
                for key in list(islice(self._known, len(self._known) - KNOWN_ITEMS // 8 * 7)):
                    del self._known[key]
            for part in parts.values():
                if isinstance(part, _List):
                    part.written()
            self._bases |= {name: (seq, numbers) for name, numbers in full.items()}
            self._lanes = _newest(lane, [*self._lanes, *lanes])  # some were taken apart while this was masked

        return Encoded(new, body, _dump(said), parts, remember)

    def new_bytes(self, request: bytes) -> int:
        """How many bytes of a request are likely to be new. It may be asked by any thread."""
        middles = (lane.middle(request) for lane in self._lanes)
        return min((len(middle) for middle in middles if middle is not None), default=len(request))

    def _numbers_of(self, parts: _Parts) -> tuple[dict[str, Payload], dict[str, array[int]]]:
        """What a record says of each part, and the lists among them that may serve later ones as a base."""
        said: dict[str, Payload] = {}
        full: dict[str, array[int]] = {}
        for name, part in parts.items():
            if isinstance(part, int):
                said[name] = part
                continue
            said[name] = self._against_base(name, part)
            if said[name] is part.ranges and len(part.ranges) > SCATTERED:
                full[name] = part.numbers[:]  # a copy: a list that is continued grows in place
        return said, full

    def _against_base(self, name: str, part: _List) -> Payload:
        base = self._bases.get(name)
        if base is None or len(part.ranges) <= SCATTERED:
            return part.ranges
        ranges = _against(base[1], part.numbers)
        if len(ranges) > max(SCATTERED, math.isqrt(len(part.numbers))):
            return part.ranges
        return {"base": base[0], "ranges": ranges}


def _continued(lanes: list[_Lane], request: bytes, items: _Items) -> tuple[str, _Parts, _Lane] | None:
    """Take apart a request that the request of a lane begins and ends, with new elements between; None for another."""
    for lane in lanes:
        middle = lane.middle(request)
        added = None if middle is None else more_elements(middle)
        if added is not None:
            for element in added:
                lane.growing.add(items.of(element))
            return lane.body, lane.parts, lane.take(request)
    return None


def _begun(request: bytes, items: _Items) -> tuple[str, _Parts, _Lane | None]:
    """Take apart a request that continues none. Of members with one name the last counts, as for every reader."""
    text = decode(request)
    members = members_of(text)
    by_name = {member.name: member for member in members}
    body: list[str] = []
    parts: dict[str, int | _List] = {}
    for name, member in by_name.items():
        part = _part(text, member, items)
        body.append(f"{member.spelled}:{one_line(member.value) if part is None else 'null'}")
        if part is not None:
            parts[name] = part
    skeleton = "{" + ",".join(body) + "}"
    twice = len(members) != len(by_name)
    return skeleton, parts, None if twice else _lane_of(request, text, by_name, skeleton, parts)


def _part(text: str, member: Member, items: _Items) -> int | _List | None:
    if member.elements is not None:
        numbers = _List()
        for start, end in member.elements:
            numbers.add(items.of(text[start:end]))
        return numbers
    if len(member.value) < LARGE_MEMBER or kind_of(member.name):
        return None  # what its name says to be secret stays beside its name
    return items.of(member.value).number


def _lane_of(request: bytes, text: str, members: dict[str, Member], body: str, parts: _Parts) -> _Lane | None:
    """A request by its longest list, which the next one is likely to continue; None where it has no list."""
    lists = [name for name, member in members.items() if member.elements]
    if not lists:
        return None
    longest = max(lists, key=lambda name: len(members[name].value))
    elements, growing = members[longest].elements, parts[longest]
    if not elements or not isinstance(growing, _List):
        return None
    tail = text[elements[-1][1] :].encode()
    return _Lane(tail, body, parts, growing).take(request)


def _newest(lane: _Lane | None, lanes: list[_Lane]) -> list[_Lane]:
    """The lanes to remember, the newest first, without small ones, and without the oldest ones beyond the limits."""
    others = [other for other in lanes if other is not lane and other.size >= WORTH][: LANES - 1]
    while sum(map(_size_of, others)) > LANE_BYTES:
        others.pop()
    return others if lane is None or lane.size > LONGEST_LANE else [lane, *others]


_size_of = attrgetter("size")


def _says(text: str, placeholder: str) -> bool:
    """Whether an element says this itself, be it spelled with escapes."""
    return placeholder in text or ("\\u" in text and placeholder in _dump(json.loads(text)))


def _is_large(text: str) -> bool:
    return len(text) > LARGE_STRING


def _digest(name: str, text: str) -> bytes:
    """What tells an item from all others: 120 bits, with which the object takes 48 bytes; with 128 it would take 64."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=15, person=name.encode()).digest()


_dump = writer(",", ":")


def _against(base: array[int], numbers: array[int]) -> list[Payload]:
    """Write `numbers` as ranges of positions at which `base` has the same, and ranges of numbers between them."""
    if numbers[: len(base)] == base:
        return [{"base": [0, len(base) - 1]}, *_ranges(numbers[len(base) :])]
    ranges: list[Payload] = []
    for same, group in groupby(enumerate(numbers), lambda pair: pair[0] < len(base) and base[pair[0]] == pair[1]):
        pairs = list(group)
        if same:
            ranges.append({"base": [pairs[0][0], pairs[-1][0]]})
        else:
            ranges.extend(_ranges(number for _, number in pairs))
    return ranges


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    part = _List()
    for number in numbers:
        part.add(_Item(number))
    return part.ranges
