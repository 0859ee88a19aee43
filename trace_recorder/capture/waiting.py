"""What an async transport waits with, in asyncio and in trio: its caller's event loop works on meanwhile.

Neither is imported here before it runs. Where no event loop is known, as when a coroutine is driven by hand, nothing is
waited for: what was to be done aside is done at once.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trace_recorder.background_work import work_aside


async def step_back() -> None:
    """Let the event loop do once what else there is. Raises what the loop throws in, as a cancelled task's error."""
    trio = _trio()
    if trio is not None:
        await trio.lowlevel.checkpoint()
    elif (asyncio := _asyncio()) is not None:
        await asyncio.sleep(0)


async def aside(work: Callable[[], None]) -> None:
    """Have a thread of its own do some work, which does not raise, and wait for it.

    Whoever is cancelled waits no more; the work goes on to its end.
    """
    trio = _trio()
    if trio is not None:
        done = trio.Event()
        wake = _waker(trio.lowlevel.current_trio_token().run_sync_soon, done.set)
        if _start(work, wake):
            await done.wait()
            return
    elif (asyncio := _asyncio()) is not None:
        event = asyncio.Event()
        if _start(work, _waker(asyncio.get_running_loop().call_soon_threadsafe, event.set)):
            await event.wait()
            return
    work()


def _waker(call: Callable[[Callable[[], None]], Any], wake: Callable[[], None]) -> Callable[[], None]:
    def awaken() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            call(wake)

    return awaken


def _start(work: Callable[[], None], wake: Callable[[], None]) -> bool:
    """Start a thread that works and then wakes; False where the system has no more threads."""

    def run() -> None:
        try:
            work_aside(work)
        finally:
            wake()

    try:
        threading.Thread(target=run, name="trace_recorder request", daemon=True).start()
    except RuntimeError:
        return False
    return True


def _trio() -> Any:
    """The module trio, if that is what runs here."""
    trio, sniffio = sys.modules.get("trio"), sys.modules.get("sniffio")  # the first imports the second
    if trio is None or sniffio is None:
        return None
    try:
        return trio if sniffio.current_async_library() == "trio" else None
    except sniffio.AsyncLibraryNotFoundError:
        return None


def _asyncio() -> Any:
    """The module asyncio, if that is what runs here."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio if asyncio is not None and asyncio.current_task() is not None else None
    except RuntimeError:
        return None
