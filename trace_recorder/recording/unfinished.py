"""What a run is in the middle of: calls and steps that have begun, and records that have to wait.

No lock is held here. Each method changes its dict or deque by one operation, which no other thread, signal's handler or
garbage collector can interrupt; whoever takes an entry out is the only one that handles it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol
from weakref import ref

__records__ = True  # `guard.is_recording` looks for this name


class Unfinished(Protocol):
    """What is being recorded when a run ends."""

    def write_pending(self, *, last: bool = False) -> None:
        """Write what is not on file yet; all of it, if it is the `last` time. Does not raise."""

    def wait(self) -> None:
        """Wait, but not for good, for what is being written aside. Does not raise."""

    def abandoned_by_caller(self) -> None:
        """Write that whoever it was recorded for is gone. Does not raise."""

    def end_with_run(self) -> None:
        """Write what has come, as all that there will be. Does not raise."""


class UnfinishedWork:
    """The unfinished calls and steps of one run, and the records that wait for the next one."""

    def __init__(self) -> None:
        self._unfinished: dict[int, Unfinished] = {}
        self._abandoned_ids: dict[int, object] = {}
        self._deferred: deque[Callable[[], None]] = deque()

    def hold(self, unfinished: Unfinished) -> None:
        """Keep something that is being recorded, until it is released."""
        self._unfinished[id(unfinished)] = unfinished

    def release(self, unfinished: Unfinished) -> None:
        """Drop what has been recorded."""
        self._unfinished.pop(id(unfinished), None)

    def all(self) -> list[Unfinished]:
        """What is held now."""
        return list(self._unfinished.values())

    def clear(self) -> None:
        """Drop everything that is held."""
        self._unfinished.clear()

    def watch(self, unfinished: Unfinished, owner: object) -> ref[object]:
        """Have `abandoned_by_caller` called, with the next record or flush, once the owner is garbage.

        Keep the reference that this returns; dropping it cancels that. That the owner is gone is noted by a method of
        `dict`: in a destructor of ours, what a signal's handler raises would be lost.
        """
        return ref(owner, partial(self._abandoned_ids.__setitem__, id(unfinished)))

    def end_abandoned(self) -> None:
        """Call `abandoned_by_caller` of those whose owners are gone."""
        while self._abandoned_ids:
            left = self._unfinished.get(self._abandoned_ids.popitem()[0])
            if left is not None:
                left.abandoned_by_caller()

    def defer(self, record: Callable[[], None]) -> None:
        """Have something recorded behind the next record, or at the end: it came in the middle of one."""
        self._deferred.append(record)

    def settle(self) -> None:
        """Record what was deferred. Call this without the run's lock, behind each record."""
        if self._abandoned_ids:
            self.end_abandoned()
        while self._deferred:
            self._deferred.popleft()()
