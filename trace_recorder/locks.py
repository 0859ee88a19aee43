"""The locks of recording, and whether the current thread holds one of them.

The garbage collector may close a stream or a step at any moment, even in a thread that holds a lock of recording. Then
the closing code must not wait for another thread, because that thread may wait for the lock. `holds_lock` asks the
locks themselves, because Ctrl-C could leave a counter of our own wrong. "Locks and their order" in docs/architecture.md
lists all locks.

Python 3.14 may run a signal handler between a lock's own `__enter__` and the block of a `with` statement. If the
handler raises there, the lock is never released. So `Lock` has an `__enter__` after which no handler runs.
"""

from __future__ import annotations

import os
from _thread import RLock
from functools import partial
from typing import Any
from weakref import ref

_locks: dict[int, ref[Any]] = {}
"""All locks that are in use. Each change is one operation of a dict, which nothing interrupts."""


class Lock(RLock):  # type: ignore[misc]
    """A re-entrant lock that a `with` statement releases even if a signal handler raises when it has been taken."""

    __slots__ = ()

    def __enter__(self) -> bool:  # type: ignore[override]
        """Take the lock.

        Python runs signal handlers when a function begins, and when a call of a built-in has ended. It runs none after
        an assignment has unpacked an iterator, nor when a function in Python has returned.
        """
        [taken] = map(self.acquire, (True,))
        return taken


def new_lock() -> Lock:
    """Return a re-entrant lock of recording."""
    lock = Lock()
    # `pop` gets the dead reference as its default
    _locks[id(lock)] = ref(lock, partial(_locks.pop, id(lock)))
    return lock


def holds_lock() -> bool:
    """Return whether the current thread holds a lock of recording."""
    locks = (kept() for kept in list(_locks.values()))
    return any(lock is not None and lock._is_owned() for lock in locks)


def _free_after_fork() -> None:
    """Free the locks that other threads of the parent process held at the fork.

    Otherwise a new thread of the child could seem to hold such a lock, because a new thread may get the id of the
    thread that held the lock.
    """
    for kept in list(_locks.values()):
        lock = kept()
        if lock is not None and not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_after_fork)
