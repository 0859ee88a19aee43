"""Many concurrent agents, in tasks and threads, on one client: every call is recorded in the right file."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from types import FrameType
from typing import Any

import httpx2
import openai

from tests.chat_calls import run_of
from tests.provider import CHAT, chat_chunk, plain, serving
from trace_recorder import TrajectoryRecorder, load, wrap
from trace_recorder.attach.current import following

Payload = Any
AGENTS = 200
THREADS = 16
CALLS = 2


def said(question: str) -> list[Payload]:
    """Return the messages of a question."""
    return [{"role": "user", "content": question}]


class Echo(httpx2.AsyncBaseTransport):
    """A server that answers every question with the question, streamed in two pieces with a pause for other tasks."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0)
        asked = json.loads(request.content)["messages"][-1]["content"]

        async def pieces() -> AsyncIterator[bytes]:
            for piece in (chat_chunk(asked[:3]), chat_chunk(asked[3:]), b"data: [DONE]\n\n"):
                await asyncio.sleep(0.001)
                yield piece

        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=pieces())


def questions(agent: int) -> list[str]:
    """Return an agent's questions."""
    return [f"agent {agent}, question {number}" for number in range(CALLS)]


def answered(path: Path) -> list[tuple[Payload, str | None, bool]]:
    """Return the question and answer of every interaction, and whether it is complete."""
    found = load(path).llm_interactions
    return [(one.input_messages[0].content, one.response and one.response.content, one.complete) for one in found]  # type: ignore[misc]


def test_two_hundred_agents_with_one_client_are_separate(tmp_path: Path) -> None:
    """The file of each of 200 concurrent agents has exactly its own questions and answers, in order."""

    async def agent(client: openai.AsyncOpenAI, number: int) -> None:
        async with TrajectoryRecorder(tmp_path / f"{number}.json", strict=True):
            for question in questions(number):
                made = await client.chat.completions.create(model="m", messages=said(question), stream=True)
                async for _ in made:
                    pass

    async def agents() -> None:
        http_client = httpx2.AsyncClient(transport=Echo())
        async with openai.AsyncOpenAI(api_key="k", base_url="http://echo/v1", http_client=http_client) as client:
            wrap(client)
            await asyncio.gather(*(agent(client, number) for number in range(AGENTS)))

    asyncio.run(agents())

    found = {number: answered(tmp_path / f"{number}.json") for number in range(AGENTS)}
    assert found == {number: [(one, one, True) for one in questions(number)] for number in range(AGENTS)}


def in_threads(number: int, work: Callable[[int], object]) -> None:
    """Run a function in many threads at the same time, and raise the exception of one of them, if any."""
    begin = Barrier(number)

    def together(one: int) -> object:
        begin.wait()
        return work(one)

    with ThreadPoolExecutor(number) as pool:
        for done in [pool.submit(together, one) for one in range(number)]:
            done.result()


@contextmanager
def shared_client() -> Iterator[tuple[openai.OpenAI, Payload]]:
    """Yield a client that follows the context, and its server."""
    with serving(plain(CHAT)) as server, openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client:
        yield wrap(client), server


def ask(client: openai.OpenAI, question: str) -> None:
    """Ask a question, and read the answer."""
    assert client.chat.completions.create(model="m", messages=said(question)).choices[0].message.content == "hi"


def test_sixteen_threads_with_one_client_are_separate(tmp_path: Path) -> None:
    """The file of each of 16 threads with their own recorders has exactly the thread's own questions, in order."""
    with shared_client() as (client, server):

        def agent(number: int) -> None:
            with TrajectoryRecorder(tmp_path / f"{number}.json", strict=True):
                for question in questions(number):
                    ask(client, question)

        in_threads(THREADS, agent)

    found = {number: answered(tmp_path / f"{number}.json") for number in range(THREADS)}
    assert found == {number: [(one, "hi", True) for one in questions(number)] for number in range(THREADS)}
    assert len(server.requests) == THREADS * CALLS


def test_to_thread_copies_the_context(tmp_path: Path) -> None:
    """Calls in `asyncio.to_thread` are recorded in the file of the agent whose task started the thread."""

    async def agent(client: openai.OpenAI, number: int) -> None:
        async with TrajectoryRecorder(tmp_path / f"{number}.json", strict=True):
            await asyncio.gather(*(asyncio.to_thread(ask, client, question) for question in questions(number)))

    async def agents(client: openai.OpenAI) -> None:
        await asyncio.gather(agent(client, 0), agent(client, 1))

    with shared_client() as (client, _):
        asyncio.run(agents(client))

    found = [sorted(answered(tmp_path / f"{number}.json"), key=str) for number in range(2)]
    assert found == [[(one, "hi", True) for one in questions(number)] for number in range(2)]


def test_a_bound_client_needs_no_context(tmp_path: Path) -> None:
    """Among many open recorders, a client's bound recorder records its calls in any thread."""
    with serving(plain(CHAT)) as server:

        def agent(number: int) -> None:
            with (
                TrajectoryRecorder(tmp_path / f"{number}.json", strict=True) as recorder,
                recorder.wrap(openai.OpenAI(api_key="k", base_url=f"{server.url}/v1")) as client,
                ThreadPoolExecutor(2) as pool,
            ):
                for done in [pool.submit(ask, client, question) for question in questions(number)]:
                    done.result()

        in_threads(4, agent)

    found = {number: sorted(answered(tmp_path / f"{number}.json"), key=str) for number in range(4)}
    assert found == {number: [(one, "hi", True) for one in questions(number)] for number in range(4)}


def test_recorders_may_begin_and_end_meanwhile(tmp_path: Path) -> None:
    """A call finds the only open recorder while other recorders begin and end."""
    there: list[TrajectoryRecorder] = []

    def come_or_go(_: FrameType, event: str, __: object) -> Payload:
        if event == "line" and there:
            there.pop().finalize()
        elif event == "line":
            there.append(TrajectoryRecorder(tmp_path / "other.json"))
            contextvars.copy_context().run(there[0].start)
        return come_or_go

    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        run = run_of(recorder)
        sys.settrace(come_or_go)
        try:
            found = contextvars.Context().run(following.open_run)
        finally:
            sys.settrace(None)

    assert found in (run, None)
