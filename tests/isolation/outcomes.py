"""The result of a call for its caller, in every detail, for comparison with that of an unwrapped client.

There are eight calls, of four SDKs, sync and async, each in six ways.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.provider import DROP, Answer, plain, serving
from tests.versions.every_shape import SHAPES
from tests.versions.shapes import Shape, plainly

Payload = Any

CALLS = {
    "openai": ("openai, OpenAI: create", "openai, OpenAI: create, streamed"),
    "openai async": ("openai, AsyncOpenAI: create", "openai, AsyncOpenAI: create, streamed"),
    "anthropic": ("anthropic, Anthropic: create", "anthropic, Anthropic: create, streamed"),
    "anthropic async": ("anthropic, AsyncAnthropic: create", "anthropic, AsyncAnthropic: create, streamed"),
    "google": ("google-genai, Client: generate_content", "google-genai, Client: generate_content_stream"),
    "google async": (
        "google-genai, Client, .aio: generate_content",
        "google-genai, Client, .aio: generate_content_stream",
    ),
    "ollama": ("ollama, Client: chat", "ollama, Client: chat, streamed"),
    "ollama async": ("ollama, AsyncClient: chat", "ollama, AsyncClient: chat, streamed"),
}
KINDS = ("plain", "error", "stream", "cut", "closed", "left")
"""A whole answer; an answer of status 400; a stream that is read, cut off by the server, closed by the caller,
or left.
"""

REFUSED = plain({"error": {"message": "no such model", "type": "invalid_request_error", "code": 400}}, 400)


@dataclass(frozen=True)
class Outcome:
    """A caller's result: the type and content of each piece, and the exception."""

    got: Payload = field(default_factory=list)
    raised: Payload = None


def shape_of(call: str, kind: str) -> tuple[Shape, Answer]:
    """Return how to make a call, and the server's answer; the encoding in the call's name changes neither."""
    whole, streamed = (SHAPES[name] for name in CALLS[call])
    shape = whole if kind in ("plain", "error") else streamed
    answer = REFUSED if kind == "error" else shape.call.answers[0]
    if kind == "cut":
        answer = replace(answer, chunks=[*answer.chunks[:2], 0.02, DROP])
    return shape, replace(answer, headers={**answer.headers, "content-encoding": "identity"})


def outcome_of(shape: Shape, url: str, kind: str, bind: Callable[[Payload], object]) -> Outcome:
    """Make a call through a bound client, and return the outcome."""
    got: list[Payload] = []

    async def take(said: Payload) -> Payload:
        got.append(described(said))
        if shape.call.answers[0].headers["content-type"] != "application/json":
            await TAKES.get(kind, _to_the_end)(said, got)

    client = shape.client(url)
    bind(client)
    try:
        replace(shape, call=replace(shape.call, take=take)).run(client)
    except Exception as error:  # noqa: BLE001 - any exception that the caller gets is compared
        return Outcome(got, in_all(error))
    finally:
        if kind == "left":
            gc.collect()
    return Outcome(got)


async def _to_the_end(response: Payload, got: list[Payload]) -> None:
    if hasattr(response, "__aiter__"):
        async for one in response:
            got.append(described(one))  # noqa: PERF401 - the pieces before an exception are wanted
    else:
        for one in response:
            got.append(described(one))  # noqa: PERF401 - likewise


async def _closed(response: Payload, got: list[Payload]) -> None:
    chunks = await _first(response, got)
    if hasattr(response, "__aiter__"):
        await (response.close() if hasattr(response, "close") else chunks.aclose())
    else:
        response.close()


async def _left(response: Payload, got: list[Payload]) -> None:
    chunks = await _first(response, got)
    asynchronous = hasattr(response, "__aiter__")
    del response, chunks
    gc.collect()
    if asynchronous:
        for _ in range(100):  # rounds of the loop, in which it closes collected generators
            await asyncio.sleep(0)


async def _first(response: Payload, got: list[Payload]) -> Payload:
    if hasattr(response, "__aiter__"):
        chunks = aiter(response)
        got.append(described(await anext(chunks)))
    else:
        chunks = iter(response)
        got.append(described(next(chunks)))
    return chunks


TAKES = {"closed": _closed, "left": _left}


def described(value: Payload) -> Payload:
    """Return the type of a value, and its content if it is plain data."""
    said = plainly(value)
    return type(value), said if said is not value or isinstance(value, str | dict) else None


def in_all(error: BaseException | None) -> Payload:
    """Return the types and messages of an exception and of the exceptions that caused it."""
    errors = []
    while error is not None:
        words = re.sub(r"127.0.0.1:\d+|\b[0-9a-f]{12}\b", "…", str(error))
        errors.append((type(error), words, getattr(error, "status_code", None), getattr(error, "body", None)))
        error = error.__cause__ or error.__context__
    return errors


_unwrapped: dict[tuple[str, str], Outcome] = {}


def unwrapped(call: str, kind: str) -> Outcome:
    """Return the result for the caller of a client that is not wrapped."""
    if (call, kind) not in _unwrapped:
        shape, answer = shape_of(call, kind)
        with serving(answer) as server:
            _unwrapped[call, kind] = outcome_of(shape, server.url, kind, lambda _: None)
    return _unwrapped[call, kind]
