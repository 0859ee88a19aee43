"""A set of weakly referenced objects, by identity. An object that is freed is removed without running Python code.

A signal handler may raise an exception (Ctrl-C) in a destructor, or in the callback of a weak reference that
`weakref.WeakSet` uses. Such an exception cannot propagate: Python prints and discards it. Here the callback is a method
of `dict`, in which no handler runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Generic, TypeVar
from weakref import ref

Kept = TypeVar("Kept")


class WeakRegistry(Generic[Kept]):
    """Objects that other code keeps alive. They may be listed while other threads add and discard some."""

    def __init__(self) -> None:
        self._refs: dict[int, ref[Kept]] = {}

    def add(self, value: Kept) -> None:
        """Add an object. It is removed when it is freed."""
        key = id(value)
        self._refs[key] = ref(value, partial(self._refs.pop, key))  # the reference is the default of `pop`

    def discard(self, value: Kept) -> None:
        """Remove an object."""
        self._refs.pop(id(value), None)

    def __contains__(self, value: object) -> bool:
        return id(value) in self._refs

    def __iter__(self) -> Iterator[Kept]:
        return iter([value for kept in list(self._refs.values()) if (value := kept()) is not None])
