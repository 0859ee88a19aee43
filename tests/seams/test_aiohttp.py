"""Cases that only aiohttp has: cancelled reads, long streams, keys in the headers of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.provider import CHAT, SILENCE, Answer, chat_chunk, plain, serving, stream
from tests.seams.callers import ASK
from trace_recorder import LLMInteraction, TrajectoryRecorder, load

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

    async def act(session: Payload, url: str) -> None:
        async with session.post(url, json={**ASK, "stream": True}) as response:
            content = response.content
            lines.extend([await content.readline(), await content.readline()])  # the event and its empty line
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(content.readline(), 0.05)
            lines.extend([line async for line in content])

    answer = stream(chat_chunk("one"), 0.3, chat_chunk("two"), b"data: [DONE]\n\n")
    call = recorded(tmp_path / "a.json", answer, act)

    assert b"".join(lines) == chat_chunk("one") + chat_chunk("two") + b"data: [DONE]\n\n"
    assert (call.response.content, call.complete, call.error) == ("onetwo", True, None)


def test_a_cancelled_call_is_recorded_as_cancelled(tmp_path: Path) -> None:
    """A call whose read was cancelled and whose response was closed has the cancellation as its error."""

    async def act(session: Payload, url: str) -> None:
        async def read() -> None:
            async with session.post(url, json={**ASK, "stream": True}) as response:
                await response.read()

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await read()

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
