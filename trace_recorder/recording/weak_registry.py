"""A set of weakly referenced objects, by identity. An object that is freed is removed without running Python code.

In a destructor, or in a callback of a weak reference as `weakref.WeakSet` has, an exception of a signal's handler
(Ctrl-C) cannot propagate: Python prints and discards it. Here the callback is a method of `dict`, in which no handler
runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Generic, TypeVar
from weakref import ref

Kept = TypeVar("Kept")


class WeakRegistry(Generic[Kept]):
    """Objects that are held by somebody else. It may be listed while other threads add and discard."""

    def __init__(self) -> None:
        self._refs: dict[int, ref[Kept]] = {}

    def add(self, one: Kept) -> None:
        """Add an object; it is removed when it is freed."""
        key = id(one)
        self._refs[key] = ref(one, partial(self._refs.pop, key))  # the reference is the default of `pop`

    def discard(self, one: Kept) -> None:
        """Remove an object."""
        self._refs.pop(id(one), None)

    def __contains__(self, one: object) -> bool:
        return id(one) in self._refs

    def __iter__(self) -> Iterator[Kept]:
        return iter([one for kept in list(self._refs.values()) if (one := kept()) is not None])
