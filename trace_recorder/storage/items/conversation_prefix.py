"""The beginnings of conversations: recent requests, kept so that the next one need not be parsed and hashed again.

A request that begins and ends with the same bytes as an earlier one has the same elements, and new ones between.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Self

from trace_recorder.storage.items.item_lists import ItemList, Parts

MAX_PREFIXES = 64
"""How many requests are kept."""
MAX_PREFIX_BYTES = 8 * 1024 * 1024
"""How many bytes all but the newest may take together."""
MAX_NEWEST_BYTES = 16 * 1024 * 1024
"""How many bytes the newest may take."""
MIN_CACHED_BYTES = 2048
"""A smaller request is kept for the next one alone: parsing it costs no more than searching for it."""
PROBE_BYTES = 64
"""How many bytes at the end of a head are compared first: most other requests differ in them."""


@dataclass(slots=True)
class ConversationPrefix:
    """The last request of a conversation: its longest list ends at `head`, and `tail` is what follows it.

    `growing` is that list; `body` and `parts` are the request taken apart; `probe` is the end of the head.
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
        """Make this request the last one; all elements of its longest list must be in `growing`."""
        self.request, self.head = request, len(request) - len(self.tail)
        self.size = len(request) + len(self.tail)
        self.probe_start = max(0, self.head - PROBE_BYTES)
        self.probe = request[self.probe_start : self.head]
        return self

    def added_span(self, request: bytes) -> tuple[int, int] | None:
        """Return where a request goes on between this head and tail; None where it does not continue this one."""
        if not request.startswith(self.probe, self.probe_start) or not request.endswith(self.tail):
            return None  # two cheap comparisons reject most requests of other conversations
        head, end = self.head, len(request) - len(self.tail)
        is_longer = head <= end and request.startswith(memoryview(self.request)[:head])
        return (head, end) if is_longer else None


def newest_prefixes(newest: ConversationPrefix | None, prefixes: list[ConversationPrefix]) -> list[ConversationPrefix]:
    """Return the prefixes to keep, the newest first, without small ones and without the oldest beyond the limits."""
    others = [other for other in prefixes if other is not newest and other.size >= MIN_CACHED_BYTES]
    others = others[: MAX_PREFIXES - 1]
    while sum(map(_size_of, others)) > MAX_PREFIX_BYTES:
        others.pop()
    return others if newest is None or newest.size > MAX_NEWEST_BYTES else [newest, *others]


_size_of = attrgetter("size")
