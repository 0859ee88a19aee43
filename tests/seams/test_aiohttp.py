"""Cases that only aiohttp has: cancelled reads, long streams, keys in the headers of a session."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.counting import arguments_of
from tests.journals import records_of
from tests.provider import CHAT, SILENCE, Answer, chat_chunk, plain, serving, stream
from tests.seams.callers import ASK
from trace_recorder import LLMInteraction, Replay, TrajectoryRecorder, load
from trace_recorder.capture.decoding import EncodedBody

aiohttp = pytest.importorskip("aiohttp", reason="aiohttp has an environment of its own")
PATH = "/v1/chat/completions"
Payload = Any


def recorded(path: Path, answer: Answer, act: Callable[[Payload, str], Awaitable[None]]) -> LLMInteraction:
    """Run a function with a wrapped session, and return the recorded interaction."""

    async def work(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            await act(recorder.wrap(session), url)

    with serving(answer) as server, TrajectoryRecorder(path, strict=True) as recorder:
        asyncio.run(work(server.url + PATH))
    [call] = load(path).llm_interactions
    return call


def test_a_caller_reads_on_after_a_cancelled_read(tmp_path: Path) -> None:
    """After a timeout around one read, the caller can read on, and neither the caller nor the record loses bytes."""
    lines: list[bytes] = []
    was_cancelled = threading.Event()

    async def act(session: Payload, url: str) -> None:
        async with session.post(url, json={**ASK, "stream": True}) as response:
            content = response.content
            lines.extend([await content.readline(), await content.readline()])  # the event and its empty line
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(content.readline(), 0.05)
            was_cancelled.set()
            lines.extend([line async for line in content])

    answer = stream(chat_chunk("one"), lambda: was_cancelled.wait(60), chat_chunk("two"), b"data: [DONE]\n\n")
    call = recorded(tmp_path / "a.json", answer, act)

    assert b"".join(lines) == chat_chunk("one") + chat_chunk("two") + b"data: [DONE]\n\n"
    assert (call.response.content, call.complete, call.error) == ("onetwo", True, None)


def test_a_cancelled_call_is_recorded_as_cancelled(tmp_path: Path) -> None:
    """A call whose read was cancelled and whose response was closed has the cancellation as its error."""

    async def act(session: Payload, url: str) -> None:
        async def read(limit: asyncio.Timeout) -> None:
            async with limit, session.post(url, json={**ASK, "stream": True}) as response:
                await response.content.readline()
                limit.reschedule(asyncio.get_running_loop().time() + 0.05)
                await response.read()

        with pytest.raises(TimeoutError):
            await read(asyncio.timeout(None))

    call = recorded(tmp_path / "a.json", stream(chat_chunk("one"), SILENCE), act)

    assert (call.response.content, call.complete) == ("one", False)
    assert call.error is not None
    assert call.error.type.endswith("CancelledError")


def test_a_cancellation_by_the_agent_s_own_exception_passes_unchanged(tmp_path: Path) -> None:
    """A cancellation of a class of the agent's own, with an unusual constructor, reaches the caller unchanged."""

    class CancelledError(asyncio.CancelledError):
        def __init__(self, *, why: str) -> None:
            super().__init__()
            self.why = why

    async def act(session: Payload, url: str) -> None:
        async with session.post(url, json={**ASK, "stream": True}) as response:
            await response.content.readline()
            response.content.set_exception(CancelledError(why="enough"))
            with pytest.raises(CancelledError) as raised:
                await response.content.readuntil(b"never")
            assert raised.value.why == "enough"

    call = recorded(tmp_path / "a.json", stream(chat_chunk("one"), SILENCE), act)

    assert (call.response.content, call.complete) == ("one", False)


def test_a_long_stream_is_complete(tmp_path: Path) -> None:
    """A long stream that the caller reads to its end is recorded whole."""

    async def act(session: Payload, url: str) -> None:
        async with session.post(url, json={**ASK, "stream": True}) as response:
            async for _ in response.content:
                pass

    pieces = [chat_chunk(f"{number} ") for number in range(2000)]
    call = recorded(tmp_path / "a.json", stream(*pieces, b"data: [DONE]\n\n"), act)

    assert (call.response.content, call.complete) == ("".join(f"{number} " for number in range(2000)), True)


@pytest.mark.parametrize("way", ["read", "read_nowait"])
def test_a_thread_decodes_a_body_that_aiohttp_leaves_compressed(tmp_path: Path, way: str) -> None:
    """The event loop decodes a few kilobytes of each read, and the rest of the last one. The whole body is on file."""
    text = " ".join(str(number * 7919 % 10007) for number in range(600_000))
    message = {"role": "assistant", "content": text}
    body = gzip.compress(json.dumps({**CHAT, "choices": [{"index": 0, "message": message}]}).encode())
    end = len(body) - 100
    has_most = threading.Event()
    chunks: list[Payload] = [body[at : min(at + 50_000, end)] for at in range(0, end, 50_000)]
    chunks += [lambda: has_most.wait(60), body[end:]]
    answer = Answer(chunks, headers={"content-type": "application/json", "content-encoding": "gzip"})
    got: list[bytes] = []

    async def work(url: str) -> None:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            async with recorder.wrap(session).post(url, json=ASK) as response:
                while not response.content.at_eof():
                    if sum(map(len, got)) >= end:
                        has_most.set()
                    if way == "read_nowait":
                        await asyncio.sleep(0)
                        got.extend(filter(None, [response.content.read_nowait()]))
                    else:
                        got.append(await response.content.readany())

    with serving(answer) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        url = server.url + PATH
        in_loop = arguments_of(lambda: asyncio.run(work(url)), EncodedBody.next_piece, lambda _: 1)
    [call] = load(tmp_path / "a.json").llm_interactions

    assert (b"".join(got) == body, call.response.content == text, call.complete) == (True, True, True)
    assert (len(in_loop) < 2 * len(got) + 4) is (way == "read")


def test_a_thread_writes_a_large_body_that_is_read_whole(tmp_path: Path) -> None:
    """The event loop does not mask a large answer, and the answer is on file when the caller has it."""
    path = tmp_path / "a.json"
    text = "a word of this answer, " * 4000
    answer = plain({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
    masked_by: set[str] = set()
    kinds: list[str] = []

    def redact(masked: str) -> str:
        if text in masked:
            masked_by.add(threading.current_thread().name)
        return masked

    async def work(url: str) -> None:
        async with aiohttp.ClientSession() as session, recorder.wrap(session).post(url, json=ASK) as response:
            await response.json()
            kinds.extend(record.kind for record in records_of(path))

    with serving(answer) as server, TrajectoryRecorder(path, redact=redact) as recorder:
        asyncio.run(work(server.url + PATH))

    assert (masked_by, kinds[-1]) == ({"trace_recorder response"}, "llm_response")


def test_a_key_of_the_session_is_masked_in_answers(tmp_path: Path) -> None:
    """A key in the headers of a session is masked in an answer that contains it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "It is Opaque-K3y9."}, "finish_reason": "stop"}
    path = tmp_path / "a.json"

    async def work(url: str) -> None:
        async with aiohttp.ClientSession(headers={"x-api-key": "Opaque-K3y9"}) as session:
            async with recorder.wrap(session).post(url, json=ASK) as response:
                await response.read()

    with serving(plain({**CHAT, "choices": [choice]})) as server, TrajectoryRecorder(path) as recorder:
        asyncio.run(work(server.url + PATH))
    text = path.with_suffix(".jsonl").read_text()

    assert "It is " in text
    assert "Opaque-K3y9" not in text


MIDDLEWARES = pytest.mark.skipif(
    not hasattr(aiohttp, "ClientMiddlewareType"), reason="aiohttp has middlewares since 3.12"
)


@MIDDLEWARES
def test_retries_of_a_middleware_are_attempts(tmp_path: Path) -> None:
    """Each request of a middleware that retries is an attempt, and a replay gives the same answers again."""
    path, error = tmp_path / "a.json", plain({"error": {"message": "overloaded"}}, status=500)

    async def retry(request: Payload, handler: Payload) -> Payload:
        for _ in range(3):
            response = await handler(request)
            if response.status < 500:
                break
            response.release()
        return response

    async def work(url: str) -> int:
        async with aiohttp.ClientSession(middlewares=(retry,)) as session:
            async with recorder.wrap(session).post(url, json=ASK) as response:
                await response.read()
                return int(response.status)

    with serving(error, error, plain(CHAT)) as server, TrajectoryRecorder(path, strict=True) as recorder:
        url = server.url + PATH
        status = asyncio.run(work(url))
        requests = len(server.requests)
    with Replay(path, instrument=True), TrajectoryRecorder(tmp_path / "b.json") as recorder:
        replayed = asyncio.run(work(url))
    runs = [load(tmp_path / name).llm_interactions for name in ("a.json", "b.json")]

    assert (status, replayed, requests) == (200, 200, 3)
    assert [[attempt.status for attempt in call.attempts] for [call] in runs] == [[500, 500, 200], [500, 500, 200]]


@MIDDLEWARES
def test_a_redirect_is_an_attempt(tmp_path: Path) -> None:
    """The request that a redirect repeats is the next attempt of the call, and is not inferred."""

    async def act(session: Payload, url: str) -> None:
        async with session.post(url, json=ASK) as response:
            await response.read()

    there = plain({}, status=307, location=PATH)
    with serving(there, plain(CHAT)) as server, TrajectoryRecorder(tmp_path / "a.json", strict=True) as recorder:

        async def work() -> None:
            async with aiohttp.ClientSession() as session:
                await act(recorder.wrap(session), server.url + PATH)

        asyncio.run(work())
    [call] = load(tmp_path / "a.json").llm_interactions

    assert [(attempt.status, attempt.inferred) for attempt in call.attempts] == [(307, False), (200, False)]


def test_an_error_that_raise_for_status_raises_is_recorded(tmp_path: Path) -> None:
    """A response that became an exception before its body was read has that exception as its error."""

    async def act(session: Payload, url: str) -> None:
        with pytest.raises(aiohttp.ClientResponseError):
            await session.post(url, json=ASK, raise_for_status=True)

    call = recorded(tmp_path / "a.json", plain({"error": "no"}, status=429), act)

    assert (call.complete, call.ended_by, call.error and call.error.type) == (
        False,
        "its body was not read",
        "ClientResponseError",
    )
