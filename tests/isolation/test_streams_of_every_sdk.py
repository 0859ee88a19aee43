"""A stream of any SDK that ends early: the caller's result is that of an unwrapped client, and the received part is
recorded. `test_endings.py` has every way to end with one method of one SDK; this file has every method with two ways.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest
from google import genai

from tests.provider import GENERATED, MESSAGE, OLLAMA, SILENCE, Answer, chat_chunk, serving, stream
from tests.versions.answers import RESPONSE_STREAM
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate

Payload = Any
ASK = [{"role": "user", "content": "hello"}]
MESSAGES: Payload = {"model": "m", "max_tokens": 9, "messages": ASK}


def named(piece: Payload) -> bytes:
    return f"event: {piece['type']}\ndata: {json.dumps(piece)}\n\n".encode()


def silent(*chunks: bytes) -> Answer:
    """Return a stream that stops in the middle."""
    return stream(*chunks, SILENCE)


def silent_lines(*parts: Payload) -> Answer:
    chunks = [json.dumps(part).encode() + b"\n" for part in parts]
    return Answer([*chunks, SILENCE], 200, {"content-type": "application/x-ndjson"})


RESPONSES = silent(*RESPONSE_STREAM.chunks[:4])  # type: ignore[arg-type]
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
ANTHROPIC = silent(
    named({"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}}),
    named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
    named({"type": "content_block_stop", "index": 0}),
    named({"type": "content_block_start", "index": 1, "content_block": TOOL_USE}),
    named({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"at'}}),
)
SAID = {"candidates": [{"content": GENERATED["candidates"][0]["content"], "index": 0}]}  # type: ignore[index]
GOOGLE = silent(f"data: {json.dumps(SAID)}\r\n\r\n".encode())
UNDONE = {name: OLLAMA[name] for name in ("model", "created_at")} | {"done": False}
OLLAMA_CHAT = silent_lines({**UNDONE, "message": {"role": "assistant", "content": "hi"}})
OLLAMA_GENERATE = silent_lines({**UNDONE, "response": "hi"})


@dataclass(frozen=True)
class Method:
    """A method that streams: how its client is made, how it is called, and how many pieces its answer has."""

    make: Callable[[str, bool], Payload]
    call: Callable[[Payload], Payload]
    answer: Answer
    pieces: int
    calls: tuple[object, ...] = ()
    """The received arguments of the tool calls, which are incomplete."""


def of_openai(url: str, asynchronous: bool) -> Payload:
    make = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    return make(api_key="k", base_url=f"{url}/v1", max_retries=0)


def of_anthropic(url: str, asynchronous: bool) -> Payload:
    make = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
    return make(api_key="k", base_url=url, max_retries=0)


def of_google(url: str, asynchronous: bool) -> Payload:  # noqa: ARG001 - one client is sync and async
    return genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url))


def of_ollama(url: str, asynchronous: bool) -> Payload:
    return (ollama.AsyncClient if asynchronous else ollama.Client)(host=url)


METHODS = {
    "chat": Method(
        of_openai,
        lambda client: client.chat.completions.create(model="m", messages=ASK, stream=True),
        silent(chat_chunk("hi")),
        1,
    ),
    "chat helper": Method(
        of_openai, lambda client: client.chat.completions.stream(model="m", messages=ASK), silent(chat_chunk("hi")), 2
    ),
    "responses": Method(
        of_openai, lambda client: client.responses.create(model="m", input="hello", stream=True), RESPONSES, 4
    ),
    "responses helper": Method(
        of_openai, lambda client: client.responses.stream(model="m", input="hello"), RESPONSES, 4
    ),
    "messages": Method(
        of_anthropic, lambda client: client.messages.create(**MESSAGES, stream=True), ANTHROPIC, 6, ('{"at',)
    ),
    "messages helper": Method(of_anthropic, lambda client: client.messages.stream(**MESSAGES), ANTHROPIC, 8, ('{"at',)),
    "beta messages helper": Method(
        of_anthropic, lambda client: client.beta.messages.stream(**MESSAGES), ANTHROPIC, 8, ('{"at',)
    ),
    "generate_content": Method(
        of_google, lambda client: client.models.generate_content_stream(model="m", contents="hello"), GOOGLE, 1
    ),
    "a Gemini chat": Method(
        of_google, lambda client: client.chats.create(model="m").send_message_stream("hello"), GOOGLE, 1
    ),
    "ollama chat": Method(of_ollama, lambda client: client.chat("m", ASK, stream=True), OLLAMA_CHAT, 1),
    "ollama generate": Method(of_ollama, lambda client: client.generate("m", "hello", stream=True), OLLAMA_GENERATE, 1),
}


def pieces_of(response: Payload) -> Iterator[Payload]:
    """Yield the pieces of a stream, or of a helper, which is a context manager."""
    if hasattr(response, "__enter__"):
        with response as inside:
            yield from inside
    else:
        yield from response


async def pieces_later(response: Payload) -> AsyncIterator[Payload]:
    """Yield the pieces of an async client's stream."""
    async with AsyncExitStack() as stack:
        made = await response if isinstance(response, Awaitable) else response
        inside = await stack.enter_async_context(made) if hasattr(made, "__aenter__") else made
        async for piece in inside:
            yield piece


def left(client: Payload, method: Method) -> list[object]:
    """Take the pieces that the server sends, and leave the stream."""
    pieces = pieces_of(method.call(client))
    types = [type(next(pieces)) for _ in range(method.pieces)]
    del pieces
    gc.collect()
    return types


async def cancelled(client: Payload, method: Method) -> list[object]:
    """Take the pieces that the server sends, and be cancelled while waiting for the next."""
    types: list[object] = []

    async def listen() -> None:
        async for piece in pieces_later(method.call(client)):
            types.append(type(piece))  # noqa: PERF401 - the pieces before the end are wanted

    task = asyncio.create_task(listen())
    while len(types) < method.pieces:
        await asyncio.sleep(0.005)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    for name in ("close", "aclose"):
        if hasattr(client, name):
            await getattr(client, name)()
            break
    return [*types, task.cancelled()]


def outcome(method: Method, url: str, wrap: Callable[[Payload], object], *, asynchronous: bool) -> list[object]:
    """Return the caller's result."""
    client = method.make(url, asynchronous)
    wrap(client)
    if asynchronous:
        return asyncio.run(cancelled(getattr(client, "aio", client), method))
    try:
        return left(client, method)
    finally:
        (client if hasattr(client, "close") else client._client).close()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["left", "cancelled"])
@pytest.mark.parametrize("name", METHODS)
def test_the_received_part_of_a_stream_is_recorded(tmp_path: Path, name: str, asynchronous: bool) -> None:
    """A stream that ends early is recorded once, with its text, its incomplete tool calls and the reason.

    The caller notices nothing.
    """
    method = METHODS[name]
    with serving(method.answer) as server:
        unwrapped = outcome(method, server.url, lambda _: None, asynchronous=asynchronous)
    with serving(method.answer) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        assert outcome(method, server.url, recorder.wrap, asynchronous=asynchronous) == unwrapped

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (one.stream, one.complete, one.response.content) == (True, False, "hi")
    assert tuple(call.arguments for call in one.response.tool_calls) == method.calls
    assert one.ended_by in ({"CancelledError"} if asynchronous else {"the caller closed it", "it was abandoned"})
    assert (one.error.type if one.error else None) == ("CancelledError" if asynchronous else None)
    assert validate(recorder.trajectory_path).ok


OVERLOADED = {"type": "overloaded_error", "message": "overloaded"}
ERRORS: dict[Callable[[str, bool], Payload], bytes] = {
    of_openai: named({"type": "error", "error": OVERLOADED, "message": "overloaded", "code": None, "param": None}),
    of_anthropic: named({"type": "error", "error": OVERLOADED}),
    of_google: b'data: {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}\r\n\r\n',
    of_ollama: b'{"error": "overloaded"}\n',
}


@pytest.mark.parametrize("name", METHODS)
def test_an_error_event_is_the_reason_for_a_stream_s_end(tmp_path: Path, name: str) -> None:
    """After an error event in a stream, the caller gets the SDK's exception, and the received part and the provider's
    error are recorded.
    """
    method = METHODS[name]
    answer = Answer([*method.answer.chunks[:-1], ERRORS[method.make]], 200, method.answer.headers)

    def raised(wrap: Callable[[Payload], object], url: str) -> tuple[object, ...]:
        client = method.make(url, False)
        wrap(client)
        try:
            return (*map(type, pieces_of(method.call(client))),)
        except Exception as error:  # noqa: BLE001 - any exception that the caller gets is compared
            return type(error), str(error)
        finally:
            (client if hasattr(client, "close") else client._client).close()

    with serving(answer) as server:
        unwrapped = raised(lambda _: None, server.url)
    with serving(answer) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        assert raised(recorder.wrap, server.url) == unwrapped

    [one] = load(recorder.trajectory_path).llm_interactions
    assert one.error is not None
    assert (one.response.content, one.error.message) == ("hi", "overloaded")
    assert (one.complete, one.ended_by) == (False, "the stream carried an error")
