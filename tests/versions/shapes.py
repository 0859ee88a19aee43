"""A shape is one way to call an SDK: how to create the client, which method to call, and how to read the answer.

Sync and async shapes run through the same code, which awaits everything that can be awaited. A sync shape never waits.
If the installed version lacks a name, the shape is skipped with that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import isawaitable
from typing import Any

import pytest

from tests.provider import Answer

Payload = Any
Make = Callable[[str], Payload]
"""A function that creates a client of the server at a URL."""

of_the_sdks = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        "Inheritance class AiohttpClientSession from ClientSession is discouraged:DeprecationWarning",
        "Interactions usage is experimental:UserWarning",
        "Async interactions client cannot use aiohttp:UserWarning",
        "invalid escape sequence",
    )
]
"""Warnings that SDKs raise whether or not a client is wrapped."""


class NotInThisVersionError(Exception):
    """The installed version of an SDK lacks the client or the argument that a shape needs."""


async def returned(said: Payload) -> Payload:
    """Return the answer itself."""
    return said


async def iterated(said: Payload) -> Payload:
    """Return every chunk of a stream."""
    return [chunk async for chunk in said] if hasattr(said, "__aiter__") else list(said)


async def parsed(said: Payload) -> Payload:
    """Return the parsed value of a raw response."""
    return await _settled(said.parse())


async def parsed_stream(said: Payload) -> Payload:
    """Return every chunk of the stream that a raw response contains."""
    return await iterated(await parsed(said))


async def entered(said: Payload) -> Payload:
    """Return every event of a stream helper, which is a context manager."""
    return await _inside(said, iterated)


async def read(said: Payload) -> Payload:
    """Return the bytes of a streaming response, which is a context manager."""
    return await _inside(said, lambda response: _settled(response.read()))


async def _inside(manager: Payload, take: Callable[[Payload], Awaitable[Payload]]) -> Payload:
    if not hasattr(manager, "__aenter__"):
        with manager as inside:
            return await take(inside)
    async with AsyncExitStack() as stack:
        return await take(await stack.enter_async_context(manager))


async def _settled(value: Payload) -> Payload:
    return await value if isawaitable(value) else value


@dataclass(frozen=True)
class Call:
    """A method call on a client. `apis` are the dialects of its LLM calls, in order."""

    method: Callable[[Payload], Callable[..., Payload]]
    arguments: Mapping[str, Payload]
    answers: tuple[Answer, ...]
    apis: tuple[str, ...]
    take: Callable[[Payload], Awaitable[Payload]] = field(default=returned)


@dataclass(frozen=True)
class Shape:
    """A way to call an SDK."""

    make: Make
    call: Call
    asynchronous: bool

    def client(self, url: str) -> Payload:
        """Create the client. Skip the test if the installed version has no such client or method."""
        try:
            client = self.make(url)
            self._method(client)
        except (ImportError, AttributeError, NotInThisVersionError) as missing:
            pytest.skip(f"not in this version: {missing}")
        return client

    def run(self, client: Payload) -> Payload:
        """Make the call, read its answer as plain data, and close the client."""
        work = self._run(client)
        return asyncio.run(work) if self.asynchronous else _without_waiting(work)

    async def _run(self, client: Payload) -> Payload:
        try:
            said = self._method(client)(**self.call.arguments)
            return plainly(await self.call.take(await _settled(said)))
        finally:
            await closed(client, asynchronous=self.asynchronous)

    def _method(self, client: Payload) -> Callable[..., Payload]:
        return self.call.method(getattr(client, "aio", client) if self.asynchronous else client)


def shapes(clients: Mapping[str, Make], calls: Mapping[str, Call], *, basic: int) -> dict[str, Shape]:
    """Return every call on the first client, and the first `basic` calls on each of the others.

    A client whose name begins with "Async" or is google-genai's ".aio" is called asynchronously.
    """
    by_name = {}
    for place, (client, make) in enumerate(clients.items()):
        asynchronous = client.startswith("Async") or ".aio" in client
        for name, call in list(calls.items())[: basic if place else None]:
            by_name[f"{client}: {name}"] = Shape(make, call, asynchronous)
    return by_name


def own_transport(library: str, *, asynchronous: bool) -> Payload:
    """Return a transport as a user may write one, which adds a header to each request."""
    http = import_module(library)
    base = http.AsyncHTTPTransport if asynchronous else http.HTTPTransport
    method = "handle_async_request" if asynchronous else "handle_request"

    def handle(self: Payload, request: Payload) -> Payload:
        request.headers["x-sent-through"] = "a transport of the user's own"
        return getattr(base, method)(self, request)

    return type("OwnTransport", (base,), {method: handle})()


def on_own(library: str, make: Callable[..., Payload], *, asynchronous: bool = False) -> Make:
    """Return a client of openai or anthropic with the user's own HTTP client, if this version accepts one of
    `library`.
    """

    def made(url: str) -> Payload:
        http = import_module(library)
        kind = http.AsyncClient if asynchronous else http.Client
        own = kind(transport=own_transport(library, asynchronous=asynchronous))
        return taking(own, partial(make, url, http_client=own), partial(make, url))

    return made


def taking(own: Payload, make: Callable[[], Payload], make_plain: Callable[[], Payload]) -> Payload:
    """Return a client over the user's HTTP client, or raise `NotInThisVersionError` if this version does not accept the
    HTTP client.
    """
    library = type(own).__module__.partition(".")[0]
    refusal = NotInThisVersionError(f"a client that takes one of {library}")
    if library == "httpx2" and speaks(make_plain()) == "httpx":
        raise refusal
    try:
        return make()
    except TypeError as refused:
        raise refusal from refused


def speaks(client: Payload) -> str:
    """Return the HTTP library of an SDK's client."""
    [name] = {kind.__module__.partition(".")[0] for kind in type(http_clients(client)[0]).__mro__} & {"httpx", "httpx2"}
    return name


def on_aiohttp(package: str, make: Callable[..., Payload]) -> Make:
    """Return an async client of openai or anthropic with the package's own HTTP client, which sends by aiohttp."""

    def made(url: str) -> Payload:
        try:
            return make(url, http_client=import_module(package).DefaultAioHttpClient())
        except RuntimeError as missing:
            raise NotInThisVersionError(f"{package}[aiohttp]") from missing

    return made


def plainly(value: Payload) -> Payload:
    """Return an answer as plain data, without the HTTP headers, which contain the time."""
    if isinstance(value, list):
        return [plainly(one) for one in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude={"sdk_http_response"}, warnings=False)
    return value


def http_clients(client: Payload) -> list[Payload]:
    """Return every HTTP client within an SDK's client, found without the package's help."""
    holder = getattr(client, "_api_client", client)
    found = [getattr(holder, name, None) for name in ("_client", "_httpx_client", "_async_httpx_client")]
    return [one for one in found if one is not None]


def inside(client: Payload) -> Payload:
    """Return what `unwrap` restores: the identity of every transport, and the attributes of the objects around the
    transports.
    """
    http = http_clients(client)
    transports = [(id(one._transport), [id(mounted) for mounted in one._mounts.values()]) for one in http]
    return transports, [sorted(vars(one)) for one in (getattr(client, "_api_client", client), *http)]


async def closed(client: Payload, *, asynchronous: bool) -> None:
    """Close a used client. The async clients inside a google-genai client are closed only after an async call."""
    for owner in (getattr(client, "aio", None), *http_clients(client)):
        close = getattr(owner, "aclose", None)
        if close is None and hasattr(owner, "close"):
            owner.close()
        elif close is not None and asynchronous:
            await close()


def _without_waiting(work: Coroutine[Payload, None, Payload]) -> Payload:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a sync call has nothing to wait for")
