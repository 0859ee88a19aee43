"""The unfinished work of a run: calls and steps that have begun, and records that are deferred.

Nothing here takes a lock. Each method changes its dict or deque by one operation, which no other thread, signal handler
or garbage collection can interrupt. An entry is handled only by the thread that takes it out of the dict or deque.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol
from weakref import ref


class Unfinished(Protocol):
    """A call or a step that a run has to end if it is still open at the end of the run."""

    def write_pending(self, *, last: bool = False) -> None:
        """Write the text that is not on file yet.

        If `last` is True, also write text that may be the beginning of a secret. Does not raise.
        """

    def wait(self) -> None:
        """Wait, with a time limit, for background threads that write this call or step. Does not raise."""

    def abandoned_by_caller(self) -> None:
        """Write the end of a call or step whose object the caller has dropped. Does not raise."""

    def end_with_run(self) -> None:
        """Write the end of a call or step that is still open when the run ends. Does not raise."""


class UnfinishedWork:
    """The unfinished calls and steps of one run, and the records that are deferred until after the next record.

    `settle` does nothing if `abandoned_ids` and `deferred` are empty.
    """

    def __init__(self) -> None:
        self._unfinished: dict[int, Unfinished] = {}
        self.abandoned_ids: dict[int, object] = {}
        self.deferred: deque[Callable[[], None]] = deque()

    def hold(self, unfinished: Unfinished) -> None:
        """Keep unfinished work until it is released."""
        self._unfinished[id(unfinished)] = unfinished

    def release(self, unfinished: Unfinished) -> None:
        """Drop work that has been recorded. Drop its id too, because a later object may get the same id."""
        self._unfinished.pop(id(unfinished), None)
        self.abandoned_ids.pop(id(unfinished), None)

    def all(self) -> list[Unfinished]:
        """Return the unfinished work."""
        return list(self._unfinished.values())

    def clear(self) -> None:
        """Drop all unfinished work."""
        self._unfinished.clear()

    def watch(self, unfinished: Unfinished, owner: object) -> ref[object]:
        """Call `abandoned_by_caller` at the next record or flush after the owner was garbage collected.

        Keep the returned reference, because dropping it cancels the call. The callback is a method of `dict`, because a
        signal handler's exception in a Python callback would be lost.
        """
        return ref(owner, partial(self.abandoned_ids.__setitem__, id(unfinished)))

    def end_abandoned(self) -> None:
        """Call `abandoned_by_caller` of all work whose owner was garbage collected."""
        while self.abandoned_ids:
            work = self._unfinished.get(self.abandoned_ids.popitem()[0])
            if work is not None:
                work.abandoned_by_caller()

    def defer(self, record: Callable[[], None]) -> None:
        """Call `record` after the next record, or at the end of the run.

        A thread that is writing another record calls this.
        """
        self.deferred.append(record)

    def settle(self) -> None:
        """End the abandoned work, and write the deferred records.

        Call this after each record, without the run's lock.
        """
        if self.abandoned_ids:
            self.end_abandoned()
        while self.deferred:
            self.deferred.popleft()()
