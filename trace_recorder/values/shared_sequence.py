"""Immutable sequences over elements that others share, such as the tools of a request.

The requests of a conversation begin with the same elements: each is a range of one list and copies no elements.
Messages are in a table, and a prompt is a sequence of the same kind (`message_table.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

Element = TypeVar("Element", covariant=True)  # noqa: PLC0105 - it is the public name of what a sequence has


class ImmutableSequence(Sequence[Element]):
    """A sequence that is equal to a list, or another such sequence, with equal elements. It is added like a list."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as of a list

    @overload
    def __getitem__(self, index: int) -> Element: ...

    @overload
    def __getitem__(self, index: slice) -> ImmutableSequence[Element]: ...

    @abstractmethod
    def __getitem__(self, index: int | slice) -> Element | ImmutableSequence[Element]:
        """Return an element, or a sequence of this kind."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ImmutableSequence):
            return len(other) == len(self) and list(other) == list(self)
        return list(self) == other if isinstance(other, list) else NotImplemented

    def __add__(self, other: Iterable[Element]) -> list[Element]:
        return [*self, *other] if isinstance(other, list | ImmutableSequence) else NotImplemented

    def __radd__(self, other: Iterable[Element]) -> list[Element]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))


class SharedSequence(ImmutableSequence[Element]):
    """The elements of a list from `start` to `stop`. The list may be extended, but not changed otherwise.

    A slice is such a sequence too.
    """

    __slots__ = ("_elements", "_start", "_stop")

    def __init__(self, elements: Sequence[Element] = (), start: int = 0, stop: int | None = None) -> None:
        self._elements = elements
        self._start = start
        self._stop = len(elements) if stop is None else stop

    @classmethod
    def of(cls, elements: Sequence[Element]) -> ImmutableSequence[Element]:
        """Return elements as an immutable sequence; those of a list are not copied."""
        return elements if isinstance(elements, ImmutableSequence) else cls(elements)

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
        if isinstance(other, SharedSequence) and other._elements is self._elements:
            return (other._start == self._start and other._stop == self._stop) or super().__eq__(other)
        return super().__eq__(other)

    __hash__ = None  # as of a list
