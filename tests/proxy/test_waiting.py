"""What has arrived is passed on before the proxy waits for more: at once, as one, and with the same errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx2
import pytest

from trace_recorder.proxy.server import send_body
from trace_recorder.proxy.waiting import do_before_waits

WAIT = b"wait"
"""In a script of chunks: the provider has sent no more until the event loop has run."""


class Chunks(httpx2.AsyncByteStream):
    """The body of a response, made from a script of chunks and waits. It may end with an error."""

    def __init__(self, *script: bytes | Exception) -> None:
        self._script = script

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self._script:
            if isinstance(step, Exception):
                raise step
            if step == WAIT:
                await asyncio.sleep(0)
            else:
                yield step


def sent(media: str, *script: bytes | Exception, error: type[Exception] | None = None) -> list[tuple[bytes, bool]]:
    """Return what the client gets of a body: the bytes of each event, and whether more follow."""
    events: list[tuple[bytes, bool]] = []

    async def send(event: Mapping[str, Any]) -> None:
        await asyncio.sleep(0)  # as for a client that reads slowly
        events.append((event["body"], event["more_body"]))

    async def run() -> None:
        response = httpx2.Response(200, headers={"content-type": media}, stream=Chunks(*script))
        await send_body(response, send)

    if error is None:
        asyncio.run(run())
    else:
        with pytest.raises(error):
            asyncio.run(run())
    return events


LARGE = b"x" * 8000


@pytest.mark.parametrize(
    ("script", "events"),
    [
        ((), [b""]),
        ((b"a", b"b", b"c", WAIT, b"d", WAIT, WAIT, b"e"), [b"a", b"bc", b"d", b"e"]),
        ((b"a", WAIT, b"b", WAIT), [b"a", b"b", b""]),
        ((WAIT, b"a", b"b", b"c", b"d", WAIT), [b"a", b"bcd", b""]),
        ((b"a", LARGE, b"b" * 200, b"c", WAIT, b"d"), [b"a", LARGE + b"b" * 200, b"c", b"d"]),
    ],
)
def test_events_that_are_there_pass_as_one(script: tuple[bytes, ...], events: list[bytes]) -> None:
    """The first event waits for no other, and no event waits for one that is not there yet, or for many."""
    *before, last = events
    assert sent("text/event-stream", *script) == [*((body, True) for body in before), (last, False)]


@pytest.mark.parametrize(
    ("script", "events"),
    [
        ((), [(b"", False)]),
        ((b"a", WAIT), [(b"a", False)]),
        ((b"a", b"b", WAIT, b"c", WAIT), [(b"a", True), (b"b", True), (b"c", False)]),
        ((b"a", WAIT, b"b", b"c"), [(b"abc", False)]),
    ],
)
def test_the_last_chunk_of_an_answer_is_held_back(script: tuple[bytes, ...], events: list[tuple[bytes, bool]]) -> None:
    """It passes after the end of the body, which is on file by then. A chunk before it passes with it or earlier."""
    assert sent("application/json", *script) == events


@pytest.mark.parametrize("media", ["text/event-stream", "application/json"])
def test_what_arrived_passes_before_an_error(media: str) -> None:
    """If the provider closes the connection, the client gets all that came before."""
    events = sent(media, b"a", b"b", httpx2.ReadError("closed"), error=httpx2.ReadError)
    assert (b"".join(body for body, _ in events), {more for _, more in events}) == (b"ab", {True})


def log_of(work: Callable[[list[str]], Awaitable[str]], do: Callable[[list[str]], Awaitable[None]]) -> list[str]:
    """Return what happened in order, and the result or the error."""
    log: list[str] = []

    async def run() -> None:
        try:
            log.append(await do_before_waits(lambda: do(log), work(log)))
        except (ValueError, asyncio.CancelledError) as error:
            log.append(type(error).__name__)

    asyncio.run(run())
    return log


async def _waits_twice(log: list[str]) -> str:
    try:
        for _ in range(2):
            log.append("wait")
            await asyncio.sleep(0)
    except BaseException as error:
        log.append(f"work sees {type(error).__name__}")
        raise
    return "result"


def test_it_is_done_before_each_wait() -> None:
    """The work goes on after each wait, and its result is returned."""

    async def do(log: list[str]) -> None:
        log.append("do")
        await asyncio.sleep(0)

    assert log_of(_waits_twice, do) == ["wait", "do", "wait", "do", "result"]


def test_work_that_is_ready_is_not_interrupted() -> None:
    """Nothing is done before work that need not wait, or that fails at once."""

    async def ready(log: list[str]) -> str:
        return "result"

    async def fails(log: list[str]) -> str:
        raise ValueError

    async def do(log: list[str]) -> None:
        log.append("do")

    assert [log_of(work, do) for work in (ready, fails)] == [["result"], ["ValueError"]]


def test_the_work_sees_an_error_of_what_is_done_before() -> None:
    """So the work can close its connection."""

    async def do(log: list[str]) -> None:
        raise ValueError

    assert log_of(_waits_twice, do) == ["wait", "work sees ValueError", "ValueError"]


@pytest.mark.parametrize("is_doing", [False, True])
def test_the_work_sees_a_cancellation(*, is_doing: bool) -> None:
    """It does not matter whether the task waits for the work or for what is done before."""
    log: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def do() -> None:
        if is_doing:
            await asyncio.Event().wait()

    async def run() -> None:
        async def both() -> None:
            await do_before_waits(do, work())

        task = asyncio.create_task(both())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        log.append(str(task.cancelled()))

    asyncio.run(run())
    assert log == ["cancelled", "True"]
