"""Items of lists that are known as a whole, such as the histories of a run that another tool recorded.

A list may begin with the first elements of another list. Each element becomes an item once. The elements of a list are
consecutive items, so a prompt that is the first part of a list is one range, and nobody has to compare the prompts of
all calls. Elements are found by their identity: they must not change. Large strings stay inside their elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from trace_recorder.facts import ItemFact, Json
from trace_recorder.storage.items.encoder import Encoded, ItemEncoder
from trace_recorder.values.messages import Payload
from trace_recorder.values.prompt_comparison import Ranges


class SharedList(Protocol):
    """A list: the first `base_length` elements of `base`, if there is one, and then the elements `own`."""

    @property
    def base(self) -> SharedList | None:
        """The list with the first elements."""

    @property
    def base_length(self) -> int:
        """How many elements of `base` belong to this list."""

    @property
    def own(self) -> Sequence[Json]:
        """The elements after those of `base`."""


class ListPrefix(NamedTuple):
    """The first `length` elements of a list."""

    elements: SharedList
    length: int


@dataclass(slots=True)
class SharedLists:
    """The lists of one journal, and the numbers of their elements, which `encoder` counts.

    The lists and elements are kept, so that no other object gets the id of one of them.
    """

    encoder: ItemEncoder
    _lists: dict[int, tuple[SharedList, Ranges]] = field(default_factory=dict)
    _elements: dict[int, tuple[Payload, int]] = field(default_factory=dict)

    def encode_prefixes(self, lists: Mapping[str, ListPrefix | None], others: Mapping[str, Payload]) -> Encoded:
        """Take apart a request whose lists are known to be the first elements of longer lists.

        All elements of the longer lists become items at once. They are not compared with the items of other requests,
        and count as written at once. A list that is not known is None. `others` has the other members of the request,
        which stay in its body.
        """
        new: list[ItemFact] = []
        ranges = {name: self._ranges_of(prefix, new) for name, prefix in lists.items() if prefix is not None}
        return Encoded(new, {**dict.fromkeys(lists), **others}, ranges, lambda _: None)

    def _ranges_of(self, prefix: ListPrefix, new: list[ItemFact]) -> Ranges:
        """Return the ranges of item numbers of a prefix. Add the facts of all new elements of its list to `new`."""
        unknown: list[SharedList] = []
        link: SharedList | None = prefix.elements
        while link is not None and id(link) not in self._lists:
            unknown.append(link)
            link = link.base
        for shared in reversed(unknown):
            ranges: Ranges = []
            if shared.base is not None:
                ranges = _first(self._lists[id(shared.base)][1], shared.base_length)
            for element in shared.own:
                number = self._number_of(element, new)
                if ranges and ranges[-1][1] == number - 1:
                    ranges[-1][1] = number
                else:
                    ranges.append([number, number])
            self._lists[id(shared)] = shared, ranges
        return _first(self._lists[id(prefix.elements)][1], prefix.length)

    def _number_of(self, element: Json, new: list[ItemFact]) -> int:
        if id(element) not in self._elements:
            number = self.encoder.next_numbers["n"]
            self.encoder.next_numbers["n"] = number + 1
            self._elements[id(element)] = element, number
            new.append(ItemFact(n=number, value=element))
        return self._elements[id(element)][1]


def _first(ranges: Ranges, length: int) -> Ranges:
    """Return the ranges of the first `length` elements."""
    first: Ranges = []
    remaining = length
    for begin, end in ranges:
        if remaining <= 0:
            break
        first.append([begin, min(end, begin + remaining - 1)])
        remaining -= end - begin + 1
    return first
