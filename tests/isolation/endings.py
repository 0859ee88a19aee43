"""The ways in which a call to a model can end early: by an act of the agent, a failing server, or a cancellation."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import httpx2

from tests.provider import DROP, SILENCE, UNANSWERED, Answer, Server, chat_chunk, stream

Payload = Any
ASK: Payload = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
SILENT = stream(chat_chunk("one"), SILENCE)
CUT = stream(chat_chunk("one"), 0.02, DROP)
LIVELY = stream(chat_chunk("one"), 0.02, chat_chunk("two"), SILENCE)
HALF = Answer([b"{", SILENCE])
LATE = UNANSWERED


@dataclass
class Agent:
    """A caller with a client and a server, and the data that it has received."""

    client: Payload
    server: Server
    heard: list[Payload] = field(default_factory=list)

    def ask(self, **more: Payload) -> Payload:
        """Make a call."""
        return self.client.chat.completions.create(**ASK, **more)

    def stream(self) -> Payload:
        """Make a streamed call."""
        return self.ask(stream=True)

    def helper(self) -> Payload:
        """Make a streamed call by the SDK's own helper."""
        return self.client.chat.completions.stream(**ASK)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition is true."""
        while not condition():
            await anyio.sleep(0.005)

    async def until_asked(self) -> None:
        """Wait until the server has the request."""
        await self.until(lambda: self.server.requests)

    async def until_heard(self) -> None:
        """Wait until the first chunk has arrived."""
        await self.until(lambda: self.heard)


class StubbornError(Exception):
    """An exception class of the agent's own."""


@dataclass(frozen=True)
class Ending:
    """A server's answer, an agent's act, and the expected record: how the call ended, and the received part."""

    answer: Answer
    act: Callable[[Agent], Payload]
    ended_by: str
    content: str | None = None
    failed: bool = False
    """Return whether this is the type of an error."""
    options: Mapping[str, Payload] = field(default_factory=dict)


def call(agent: Agent) -> None:
    agent.ask()


def read(agent: Agent) -> None:
    for _ in agent.stream():
        pass


def read_impatiently(agent: Agent) -> None:
    """Read a stream whose next chunk may take only a fifth of a second. The first chunk may take any time."""
    made = agent.stream()
    made.response.request.extensions["timeout"] = IMPATIENT["timeout"].as_dict()
    for _ in made:
        pass


def interrupted(agent: Agent, work: Callable[[Agent], None], *, moment: Callable[[Agent], object]) -> None:
    def press() -> None:
        while not moment(agent):
            time.sleep(0.005)
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=press).start()
    work(agent)


def hear(agent: Agent) -> None:
    for piece in agent.stream():
        agent.heard.append(piece)


def close(agent: Agent) -> None:
    made = agent.stream()
    next(made)
    made.close()


def leave_the_block(agent: Agent) -> None:
    with agent.stream() as made:
        for _ in made:
            break


def fail_in_the_block(agent: Agent) -> None:
    with agent.stream() as made:
        for _ in made:
            raise StubbornError("enough")


def break_out(agent: Agent) -> None:
    for _ in agent.stream():
        break
    gc.collect()


def never_iterate(agent: Agent) -> None:
    agent.stream()
    gc.collect()


def abandon(agent: Agent) -> None:
    made = agent.stream()
    circle = [made]
    circle.append(circle)
    next(made)
    del made, circle
    gc.collect()


def _pieces(agent: Agent) -> Iterator[Payload]:
    yield from agent.stream()


def close_its_generator(agent: Agent) -> None:
    pieces: Payload = _pieces(agent)
    next(pieces)
    pieces.close()
    gc.collect()


def close_in_another_thread(agent: Agent) -> None:
    made = agent.stream()
    next(made)
    thread = threading.Thread(target=made.close)
    thread.start()
    thread.join()


def leave_the_helper(agent: Agent) -> None:
    with agent.helper() as events:
        next(iter(events))


def leave_a_streaming_response(agent: Agent) -> None:
    with agent.client.chat.completions.with_streaming_response.create(**ASK, stream=True) as response:
        next(response.iter_bytes())


CLOSED = "the caller closed it"
LEFT = "it was abandoned"
IMPATIENT = {"timeout": httpx2.Timeout(None, read=0.2)}
ASKED = partial(interrupted, moment=lambda agent: agent.server.requests)
HEARD = partial(interrupted, moment=lambda agent: agent.heard)

SYNC: dict[str, Ending] = {
    "Ctrl-C while it waits": Ending(LATE, partial(ASKED, work=call), "KeyboardInterrupt", failed=True),
    "Ctrl-C in an answer": Ending(HALF, partial(ASKED, work=call), "KeyboardInterrupt", failed=True),
    "Ctrl-C in a stream": Ending(SILENT, partial(HEARD, work=hear), "KeyboardInterrupt", "one", failed=True),
    "timeout while it waits": Ending(LATE, call, "ReadTimeout", failed=True, options=IMPATIENT),
    "timeout in an answer": Ending(HALF, call, "ReadTimeout", failed=True, options=IMPATIENT),
    "timeout in a stream": Ending(SILENT, read_impatiently, "ReadTimeout", "one", failed=True),
    "cut off": Ending(CUT, read, "RemoteProtocolError", "one", failed=True),
    "closed": Ending(LIVELY, close, CLOSED, "one"),
    "block left": Ending(LIVELY, leave_the_block, CLOSED, "one"),
    "block left by an exception": Ending(LIVELY, fail_in_the_block, CLOSED, "one"),
    "broken out of": Ending(LIVELY, break_out, LEFT, "one"),
    "never iterated": Ending(LIVELY, never_iterate, LEFT),
    "abandoned": Ending(LIVELY, abandon, LEFT, "one"),
    "own generator closed": Ending(LIVELY, close_its_generator, LEFT, "one"),
    "closed in another thread": Ending(LIVELY, close_in_another_thread, CLOSED, "one"),
    "helper left": Ending(LIVELY, leave_the_helper, CLOSED, "one"),
    "streaming response left": Ending(LIVELY, leave_a_streaming_response, CLOSED, "one"),
}


async def acall(agent: Agent) -> None:
    await agent.ask()


async def ahear(agent: Agent) -> None:
    async for piece in await agent.stream():
        agent.heard.append(piece)


async def aread_impatiently(agent: Agent) -> None:
    made = await agent.stream()
    made.response.request.extensions["timeout"] = IMPATIENT["timeout"].as_dict()
    async for _ in made:
        pass


Moment = Callable[[Agent], Awaitable[None]]
Work = Callable[[Agent], Coroutine[Payload, Payload, None]]


async def cancelled(agent: Agent, work: Work, moment: Moment) -> None:
    task = asyncio.create_task(work(agent))
    await moment(agent)
    task.cancel()
    await task


async def timed_out(agent: Agent, work: Work, moment: Moment) -> None:
    async with asyncio.timeout(None) as limit:

        async def expire() -> None:
            await moment(agent)
            limit.reschedule(asyncio.get_running_loop().time())

        expiring = asyncio.create_task(expire())
        await work(agent)
        await expiring


async def beside_a_failure(agent: Agent, work: Work, moment: Moment) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(work, agent)
        await moment(agent)
        raise StubbornError("the other one")


async def beside_a_failing_task(agent: Agent, work: Work, moment: Moment) -> None:
    async def fail() -> None:
        await moment(agent)
        raise StubbornError("the other one")

    async with asyncio.TaskGroup() as group:
        group.create_task(work(agent))
        group.create_task(fail())


async def scope_cancelled(agent: Agent, work: Work, moment: Moment) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(work, agent)
        await moment(agent)
        group.cancel_scope.cancel()


async def aclose(agent: Agent) -> None:
    made = await agent.stream()
    await anext(made)
    await made.close()


async def abreak_out(agent: Agent) -> None:
    async for _ in await agent.stream():
        break
    gc.collect()
    for _ in range(100):  # rounds of the loop, in which it closes collected generators
        await asyncio.sleep(0)


async def anever_iterate(agent: Agent) -> None:
    await agent.stream()
    gc.collect()


async def close_in_another_task(agent: Agent) -> None:
    made = await agent.stream()
    await anext(made)
    await asyncio.create_task(made.close())


async def _apieces(agent: Agent) -> AsyncIterator[Payload]:
    async with await agent.stream() as made:
        async for piece in made:
            yield piece


async def close_its_generator_in_another_task(agent: Agent) -> None:
    pieces: Payload = _apieces(agent)
    await anext(pieces)
    await asyncio.create_task(pieces.aclose())


async def aleave_the_helper(agent: Agent) -> None:
    async with agent.helper() as events:
        await anext(aiter(events))


STOPPED = "CancelledError"
IN_CALL: Payload = {"work": acall, "moment": Agent.until_asked}
IN_STREAM: Payload = {"work": ahear, "moment": Agent.until_heard}

ASYNC: dict[str, Ending] = {
    "cancelled while it waits": Ending(LATE, partial(cancelled, **IN_CALL), STOPPED, failed=True),
    "cancelled in an answer": Ending(HALF, partial(cancelled, **IN_CALL), STOPPED, failed=True),
    "cancelled in a stream": Ending(SILENT, partial(cancelled, **IN_STREAM), STOPPED, "one", failed=True),
    "asyncio.timeout while it waits": Ending(LATE, partial(timed_out, **IN_CALL), STOPPED, failed=True),
    "asyncio.timeout in a stream": Ending(SILENT, partial(timed_out, **IN_STREAM), STOPPED, "one", failed=True),
    "sibling failed in a call": Ending(LATE, partial(beside_a_failing_task, **IN_CALL), STOPPED, failed=True),
    "sibling failed in a stream": Ending(
        SILENT, partial(beside_a_failing_task, **IN_STREAM), STOPPED, "one", failed=True
    ),
    "timeout in a stream": Ending(SILENT, aread_impatiently, "ReadTimeout", "one", failed=True),
    "cut off": Ending(CUT, ahear, "RemoteProtocolError", "one", failed=True),
    "closed": Ending(LIVELY, aclose, CLOSED, "one"),
    "broken out of": Ending(LIVELY, abreak_out, CLOSED, "one"),
    "never iterated": Ending(LIVELY, anever_iterate, LEFT),
    "closed in another task": Ending(LIVELY, close_in_another_task, CLOSED, "one"),
    "own generator closed in another task": Ending(LIVELY, close_its_generator_in_another_task, CLOSED, "one"),
    "helper left": Ending(LIVELY, aleave_the_helper, CLOSED, "one"),
}

TRIO: dict[str, Ending] = {
    "cancelled while it waits": Ending(LATE, partial(scope_cancelled, **IN_CALL), "Cancelled", failed=True),
    "cancelled in a stream": Ending(SILENT, partial(scope_cancelled, **IN_STREAM), "Cancelled", "one", failed=True),
    "sibling failed in a stream": Ending(
        SILENT, partial(beside_a_failure, **IN_STREAM), "Cancelled", "one", failed=True
    ),
    "timeout in a stream": Ending(SILENT, aread_impatiently, "ReadTimeout", "one", failed=True),
    "closed": Ending(LIVELY, aclose, CLOSED, "one"),
    "cut off": Ending(CUT, ahear, "RemoteProtocolError", "one", failed=True),
}
