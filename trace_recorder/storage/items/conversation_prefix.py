"""The newest request of a conversation, and which elements of its longest list a later request repeats.

A request usually repeats the list of an earlier request, and adds elements at its end. Or it also lacks old elements,
or has other elements in their place. Requests are compared as bytes, so no element that is repeated is parsed or hashed
again: `memcmp` finds how many elements are equal. At a difference, the later request is searched for the next elements
of the earlier one. The bytes between are new elements.

The comparison may be wrong about bytes inside strings, so it is only a guess until the new bytes were parsed. If they
are whole elements, the guess is right: after an element, a parser of JSON reads equal bytes equally. Otherwise the
whole request is parsed (`encoder.py`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, Self

from trace_recorder.storage.items.item_lists import ItemList, Parts
from trace_recorder.values.structs import Struct, field

MAX_PREFIXES = 64
"""Only the newest prefixes are kept, at most this many."""
MAX_PREFIX_BYTES = 8 * 1024 * 1024
"""All kept prefixes except the newest have at most this many bytes together. The oldest prefixes are dropped first."""
MAX_NEWEST_BYTES = 16 * 1024 * 1024
"""The newest prefix is kept only if it has at most this many bytes."""
MIN_COMPARED_BYTES = 2048
"""A request with fewer bytes than this is neither compared nor kept, because parsing it costs no more."""
PROBE_BYTES = 64
"""`extension_by` first compares this many bytes, at the end of the prefix's head.

A request of another conversation usually differs there.
"""
MAX_COMPARED = 8
"""A request that extends no prefix is compared with at most this many of the newest prefixes."""
MAX_PIECES = 64
"""If a request is in more pieces than this, parsing all of it costs no more than comparing it."""
MAX_REMOVED = 64
"""At a difference, at most this many elements may have been removed from the earlier list."""
MAX_REPLACED = 8
"""At a difference, at most this many elements may have been replaced."""
SEARCHED_BYTES = 128 * 1024
"""At a difference, the next elements of the earlier list are searched in this many bytes."""


class KeptItems(NamedTuple):
    """Elements of the earlier list that a request repeats: their positions, from `begin` to before `end`."""

    begin: int
    end: int


class NewBytes(NamedTuple):
    """The span of a request's bytes that has new elements."""

    start: int
    end: int


class ListChanges(Struct, frozen=True):
    """The elements of a request's longest list, in order, compared with those of the earlier request `base`.

    In both requests, the first element begins at the byte `opening`. If `extends`, the first piece has all elements of
    the earlier list.
    """

    base: bytes
    opening: int
    pieces: Sequence[KeptItems | NewBytes]
    extends: bool

    def new(self) -> Iterator[NewBytes]:
        """Yield the spans of the new bytes."""
        for piece in self.pieces:
            if isinstance(piece, NewBytes):
                yield piece

    def new_bytes(self) -> int:
        """Return how many bytes are new."""
        return sum(span.end - span.start for span in self.new())


class ConversationPrefix(Struct):
    """The newest request of a conversation, cut into a head and a tail.

    The head ends where the request's longest list ends, and `tail` has the bytes after it. `body` and `parts` are the
    request taken apart. `growing` is the longest list, which is the part `name`. Its first element begins at the byte
    `opening`, and `ends` has the byte at which each element ends. `probe` has the last bytes of the head. `size` is how
    many bytes this prefix keeps in memory.
    """

    tail: bytes
    body: str
    parts: Parts
    name: str
    growing: ItemList
    opening: int
    ends: array[int] = field(default_factory=lambda: array("Q"))
    request: bytes = b""
    head: int = 0
    size: int = 0
    probe: bytes = b""
    probe_start: int = 0

    def end_before(self, place: int) -> int:
        """Return the byte at which the element before the position `place` ends, or the first element begins."""
        if place == 0:
            return self.opening
        return self.ends[place - 1]

    def take(self, request: bytes) -> Self:
        """Make a request the newest of the conversation.

        The request ends with `tail`. All elements of its longest list must be in `growing` and in `ends` already.
        Another thread may compare a request meanwhile. So `request` is set last: it shows which elements are there.
        """
        self.head = len(request) - len(self.tail)
        self.size = len(request) + len(self.tail) + self.ends.itemsize * len(self.ends)
        self.probe_start = max(0, self.head - PROBE_BYTES)
        self.probe = request[self.probe_start : self.head]
        self.request = request
        return self

    def extension_by(self, request: bytes) -> ListChanges | None:
        """Return the changes of a request that only adds elements to the list.

        Return None if the request does not begin with this head and end with this tail.
        """
        if not request.startswith(self.probe, self.probe_start) or not request.endswith(self.tail):
            return None  # two cheap comparisons reject most requests of other conversations
        base, head, end = self.request, self.head, len(request) - len(self.tail)
        if head > end or not request.startswith(memoryview(base)[:head]):
            return None
        pieces: list[KeptItems | NewBytes] = [KeptItems(0, len(self.ends))]
        if head < end:
            pieces.append(NewBytes(head, end))
        return ListChanges(base, self.opening, pieces, extends=True)

    def changes_in(self, request: bytes) -> ListChanges | None:
        """Return the changes of a request that also lacks elements of the list, or has others in their place.

        Return None if the request differs outside of the list, or if more than half of it is new.
        """
        base, end = self.request, len(request) - len(self.tail)
        if not request.endswith(self.tail) or not request.startswith(memoryview(base)[: self.opening]):
            return None
        comparison = _Comparison(base, request, self.ends, self.opening, end)
        pieces: list[KeptItems | NewBytes] = []
        remaining = len(request) // 2
        for piece in comparison.pieces():
            pieces.append(piece)
            if isinstance(piece, NewBytes):
                remaining -= piece.end - piece.start
            if remaining < 0 or len(pieces) > MAX_PIECES:
                return None
        return ListChanges(base, self.opening, pieces, extends=False)


class _Comparison:
    """The comparison of the lists of two requests, from their first elements on.

    `at` is the position in the later request, whose list ends at `end`. `place` is the position in the earlier list.
    """

    def __init__(self, earlier: bytes, later: bytes, ends: array[int], opening: int, end: int) -> None:
        self._earlier = memoryview(earlier)
        self._later = later
        self._ends = ends
        self._opening = opening
        self._end = end
        self._at = opening
        self._place = 0

    def pieces(self) -> Iterator[KeptItems | NewBytes]:
        """Yield the elements of the later list, in order."""
        while self._at < self._end:
            kept = self._take_equal()
            if kept.end > kept.begin:
                yield kept
            if self._at < self._end and not self._skip_removed():
                yield self._take_new()

    def _take_equal(self) -> KeptItems:
        """Take all elements that are equal in both lists."""
        begin, start = self._place, self._opening
        if begin:
            start = self._ends[begin - 1]
        same = _common_length(self._earlier[start:], self._later, self._at, self._end)
        self._place = bisect_right(self._ends, start + same, begin)
        if self._place > begin:
            self._at += self._ends[self._place - 1] - start
        return KeptItems(begin, self._place)

    def _skip_removed(self) -> bool:
        """Skip the next elements of the earlier list if the later list goes on with an element after them."""
        if self._at == self._opening:
            return False  # the elements after the first one begin with a comma
        for place in range(self._place + 1, min(self._place + 1 + MAX_REMOVED, len(self._ends))):
            if self._later.startswith(self._element(place), self._at):
                self._place = place
                return True
        return False

    def _take_new(self) -> NewBytes:
        """Take the bytes before the next element that is in both lists, or all bytes if there is no such element."""
        start, until, begin = self._at, min(self._at + SEARCHED_BYTES, self._end), self._end
        for place in range(max(self._place, 1), min(self._place + 1 + MAX_REPLACED, len(self._ends))):
            at = self._later.find(self._element(place), start, until)
            if at >= 0:
                self._place, begin, until = place, at, at
        self._at = begin
        return NewBytes(start, begin)

    def _element(self, place: int) -> memoryview:
        """Return the bytes of an element of the earlier list, which begin with the comma before it.

        The first element has no comma before it, so `place` is not 0.
        """
        return self._earlier[self._ends[place - 1] : self._ends[place]]


def _common_length(earlier: memoryview, later: bytes, begin: int, end: int) -> int:
    """Return how many bytes of `later`, from `begin` to before `end`, are those begin the beginning of `earlier`."""
    length = min(len(earlier), end - begin)
    done, size = 0, PROBE_BYTES
    while done < length and later.startswith(earlier[done : done + size], begin + done):
        done, size = done + size, size * 2
    while done < length and (size := size // 2):
        if later.startswith(earlier[done : done + size], begin + done):
            done += size
    return min(done, length)


def changes_of(
    prefixes: Sequence[ConversationPrefix], request: bytes
) -> Iterator[tuple[ConversationPrefix, ListChanges]]:
    """Yield the prefixes that a request may continue, each with the changes, the best prefix first."""
    extended = []
    for prefix in prefixes:
        changes = prefix.extension_by(request)
        if changes is not None:
            extended.append((prefix, changes))
    yield from sorted(extended, key=lambda each: each[1].new_bytes())
    for prefix in prefixes[:MAX_COMPARED]:
        changes = prefix.changes_in(request)
        if changes is not None:
            yield prefix, changes


def newest_prefixes(newest: ConversationPrefix | None, prefixes: list[ConversationPrefix]) -> list[ConversationPrefix]:
    """Return the prefixes to keep, the newest first.

    Drop the oldest prefixes beyond the limits.
    """
    others = [other for other in prefixes if other is not newest][: MAX_PREFIXES - 1]
    while sum(map(_size_of, others)) > MAX_PREFIX_BYTES:
        others.pop()
    if newest is None or newest.size > MAX_NEWEST_BYTES:
        return others
    return [newest, *others]


_size_of = attrgetter("size")
