"""Runs work in a thread while the caller's event loop, asyncio's or trio's, runs other tasks.

Neither library is imported here: the library that runs the caller is already imported. If the caller runs in no task of
either library, because a coroutine is run with `send`, the calling thread does the work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from trace_recorder.background_work import background_threads, run_yielding
from trace_recorder.signal_handlers import ours, suppress


def _nothing() -> None:
    """Do nothing."""


async def run_in_thread(
    work: Callable[[], None],
    name: str,
    is_waited_for: Callable[[], bool] = lambda: False,
    then: Callable[[], None] = _nothing,
) -> None:
    """Run `work` in another thread, and wait until it is done.

    `work` must not raise. After `work`, the thread calls `then`, and the caller does not wait for `then`.

    The thread yields to other threads, except while `is_waited_for` returns True, because another thread then waits for
    the work. If the caller is cancelled, it stops waiting, and the work continues to its end. If the caller runs in
    no task of asyncio or trio, or no thread can be started, the caller does the work and calls `then` itself.
    """
    trio = _trio()
    if trio is not None:
        done = trio.Event()
        wake = _waker(trio.lowlevel.current_trio_token().run_sync_soon, done.set)
        if _start(work, name, wake, is_waited_for, then):
            await done.wait()
            return
    elif (asyncio := _asyncio()) is not None:
        event = asyncio.Event()
        wake = _waker(asyncio.get_running_loop().call_soon_threadsafe, event.set)
        if _start(work, name, wake, is_waited_for, then):
            await event.wait()
            return
    work()
    then()


def start_or_run(work: Callable[[], None], name: str, is_waited_for: Callable[[], bool]) -> None:
    """Start a thread that does the work, and do not wait for it. If no thread can be started, do the work now."""
    if not _start(work, name, _nothing, is_waited_for, _nothing):
        work()


def _waker(call: Callable[[Callable[[], None]], Any], wake: Callable[[], None]) -> Callable[[], None]:
    def call_wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is waiting
            call(wake)

    return call_wake


def _start(
    work: Callable[[], None],
    name: str,
    wake: Callable[[], None],
    is_waited_for: Callable[[], bool],
    then: Callable[[], None],
) -> bool:
    """Start a thread that does the work, then calls `wake` and `then`. Return False if no thread can be started."""

    def run() -> None:
        try:
            work()
        finally:
            wake()
        then()

    try:
        background_threads.run(partial(run_yielding, run, is_waited_for), f"trace_recorder {name}")
    except ours(RuntimeError):
        return False
    return True


def _trio() -> Any:
    """Return the module trio if the caller runs in a task of trio, or else None."""
    trio, sniffio = sys.modules.get("trio"), sys.modules.get("sniffio")  # trio imports sniffio
    if trio is None or sniffio is None:
        return None
    try:
        return trio if sniffio.current_async_library() == "trio" else None
    except sniffio.AsyncLibraryNotFoundError:
        return None


def _asyncio() -> Any:
    """Return the module asyncio if the caller runs in a task of asyncio, or else None."""
    asyncio = sys.modules.get("asyncio")
    try:
        if asyncio is not None and asyncio.current_task() is not None:
            return asyncio
    except ours(RuntimeError):  # no event loop runs in this thread
        pass
    return None
