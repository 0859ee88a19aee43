"""An immutable sequence over elements that others share, such as the messages of a request.

The requests of a conversation begin with the same elements: each is a range of one list and copies no elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from typing import TypeVar, overload

Element = TypeVar("Element", covariant=True)  # noqa: PLC0105 - it is the public name of what a sequence has


class SharedSequence(Sequence[Element]):
    """The elements of a list from `start` to `stop`. The list may be extended, but not changed otherwise.

    It is equal to a list, or another such sequence, with equal elements. A slice is such a sequence too.
    """

    __slots__ = ("_elements", "_start", "_stop")
    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __init__(self, elements: Sequence[Element] = (), start: int = 0, stop: int | None = None) -> None:
        self._elements = elements
        self._start = start
        self._stop = len(elements) if stop is None else stop

    @classmethod
    def of(cls, elements: Sequence[Element]) -> SharedSequence[Element]:
        """Return elements as such a sequence; those of a list are not copied."""
        return elements if isinstance(elements, SharedSequence) else cls(elements)

    def place(self) -> tuple[Sequence[Element], int, int]:
        """Return what the elements are part of, and where they begin and end there. Do not change it."""
        return self._elements, self._start, self._stop

    def extended(self, more: Iterable[Element]) -> SharedSequence[Element]:
        """Return these elements and more. They are added to the same list if it ends where this sequence does."""
        elements = self._elements
        if not isinstance(elements, list) or self._stop != len(elements):
            return SharedSequence([*self, *more])
        elements.extend(more)
        return SharedSequence(elements, self._start)

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> Element: ...

    @overload
    def __getitem__(self, index: slice) -> SharedSequence[Element]: ...

    def __getitem__(self, index: int | slice) -> Element | SharedSequence[Element]:
        places = range(self._start, self._stop)[index]
        if isinstance(places, int):
            return self._elements[places]
        if places.step == 1:
            return SharedSequence(self._elements, places.start, max(places.start, places.stop))
        return SharedSequence([self._elements[place] for place in places])

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements[self._start : self._stop])

    def __reversed__(self) -> Iterator[Element]:
        return map(self._elements.__getitem__, range(self._stop - 1, self._start - 1, -1))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedSequence):
            same = other._elements is self._elements and other._start == self._start and other._stop == self._stop
            return same or (len(other) == len(self) and list(other) == list(self))
        return list(self) == other if isinstance(other, list) else NotImplemented

    def __add__(self, other: Iterable[Element]) -> list[Element]:
        return [*self, *other] if isinstance(other, list | SharedSequence) else NotImplemented

    def __radd__(self, other: Iterable[Element]) -> list[Element]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))

    def shared_length(self, other: SharedSequence[object]) -> int:
        """Return how many elements both have in common, as the same objects, at their beginning."""
        shorter = min(len(self), len(other))
        if self._elements is other._elements and self._start == other._start:
            return shorter
        return next((at for at, same in enumerate(map(is_, self, other)) if not same), shorter)
