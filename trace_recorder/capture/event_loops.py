"""Waiting in the caller's event loop, asyncio's or trio's, so that it runs other tasks meanwhile.

Neither library is imported here: the one that runs the caller is already imported. If no event loop is known, as when
a coroutine is run with `send`, nothing is awaited: work is done in the calling thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trace_recorder.background_work import run_yielding, start_thread


async def yield_to_event_loop() -> None:
    """Let the event loop run its other tasks once. Raises what the loop throws in, such as a cancellation."""
    trio = _trio()
    if trio is not None:
        await trio.lowlevel.checkpoint()
    elif (asyncio := _asyncio()) is not None:
        await asyncio.sleep(0)


async def run_in_thread(work: Callable[[], None], is_awaited: Callable[[], bool] = lambda: False) -> None:
    """Run `work`, which does not raise, in a new thread, and wait for it.

    The thread yields to others, unless `is_awaited` says that another thread waits for it. A cancelled caller stops
    waiting; the work continues to its end.
    """
    trio = _trio()
    if trio is not None:
        done = trio.Event()
        wake = _waker(trio.lowlevel.current_trio_token().run_sync_soon, done.set)
        if _start(work, wake, is_awaited):
            await done.wait()
            return
    elif (asyncio := _asyncio()) is not None:
        event = asyncio.Event()
        if _start(work, _waker(asyncio.get_running_loop().call_soon_threadsafe, event.set), is_awaited):
            await event.wait()
            return
    work()


def _waker(call: Callable[[Callable[[], None]], Any], wake: Callable[[], None]) -> Callable[[], None]:
    def call_wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is waiting
            call(wake)

    return call_wake


def _start(work: Callable[[], None], wake: Callable[[], None], is_awaited: Callable[[], bool]) -> bool:
    """Start a thread that does the work and then calls `wake`. Return False if the system has no more threads."""

    def run() -> None:
        try:
            run_yielding(work, is_awaited)
        finally:
            wake()

    try:
        start_thread(run, "trace_recorder request")
    except RuntimeError:
        return False
    return True


def _trio() -> Any:
    """Return the module trio if the caller runs in it."""
    trio, sniffio = sys.modules.get("trio"), sys.modules.get("sniffio")  # the first imports the second
    if trio is None or sniffio is None:
        return None
    try:
        return trio if sniffio.current_async_library() == "trio" else None
    except sniffio.AsyncLibraryNotFoundError:
        return None


def _asyncio() -> Any:
    """Return the module asyncio if the caller runs in a task of it."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio if asyncio is not None and asyncio.current_task() is not None else None
    except RuntimeError:
        return None
