"""Whether the requests of a journal can be put together, and are what their writer meant.

A request that continues an earlier one is checked from the end of that one on.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from zlib import crc32

from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.messages import Payload

MAX_LISTS = 8
"""With how many earlier lists of its name a list is compared."""


class ItemChecks:
    """Checks the requests of one journal, in their order. `records` are all of its records."""

    def __init__(self, items: ItemTable, records: Iterable[Record]) -> None:
        self._items = items
        numbered = (one for one in records if one.kind == "item" and "s" not in one.data)
        self._crcs = {one.data["n"]: b"%08x" % one.crc for one in numbered if isinstance(one.data.get("n"), int)}
        self._lists: dict[str, deque[tuple[array[int], int]]] = {}

    def is_meant(self, data: Mapping[str, Payload]) -> bool:
        """Whether the items of a request are those that its check values were made of.

        Raises KeyError, TypeError, ValueError or AttributeError where it cannot be put together.
        """
        dict(data["body"])
        found = {name: self._check_value(name, part) for name, part in data["items"].items()}
        return all(found[name] == expected for name, expected in data["check"].items())

    def _check_value(self, name: str, part: Payload) -> str | None:
        if isinstance(part, int):
            self._items.element(part)
            return None
        numbers = self._items.numbers(name, part)
        earlier = self._lists.setdefault(name, deque(maxlen=MAX_LISTS))
        begin = max(
            (one for one in earlier if numbers[: len(one[0])] == one[0]), key=lambda one: len(one[0]), default=None
        )
        known, check = begin or (array("q"), 0)
        new = numbers[len(known) :]
        for number in new:
            self._items.element(number)
        check = crc32(b"".join([self._crcs[number] for number in new]), check)
        earlier.append((numbers, check))
        return f"{check:08x}"
