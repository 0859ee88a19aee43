"""The ASGI application of the proxy: it forwards each request to its upstream, and gives back what comes.

Bodies pass byte for byte, chunk by chunk. Headers pass with their values and in their order, but for those of the
connection itself (`_HOP_BY_HOP`). The HTTP client records: a request to a model is read whole, as it is on file before
it is sent, and is sent in the context of its session.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from trace_recorder.attach.current import async_http_client
from trace_recorder.capture.decoding import plain_request
from trace_recorder.dialects.endpoints import endpoint_of, is_stream_type
from trace_recorder.loopback import why_refused
from trace_recorder.proxy.sessions import Session, SessionRequest, Sessions, digest_of
from trace_recorder.proxy.upstreams import Upstream
from trace_recorder.values.origins import REPLAYED_FROM_HEADER, is_believed
from trace_recorder.version import __version__

Json = Any
Event = Mapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

TOKEN_HEADER = "x-trace-recorder-token"  # noqa: S105 - the name of a header
"""The header in which a client that is not on this machine proves that it may use the proxy."""
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
"""Headers of one connection, which are not forwarded in either direction."""
_NOT_SENT = _HOP_BY_HOP | {b"host", b"expect", TOKEN_HEADER.encode()}
_IDLE_CHECK_SECONDS = 5.0
_BAD_GATEWAY = 502
_SUCCESS = range(200, 300)


class ClientGoneError(Exception):
    """The client closed its connection before its request was complete."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes: its upstream, the address there, and what its path says of its run."""

    upstream: Upstream
    url: str
    chosen: tuple[str, ...]


class Proxy:
    """Forwards the requests of programs, and has their LLM calls recorded.

    `port` is the one that it listens at. With a `token` it also answers clients of other machines that send it.
    """

    def __init__(
        self, upstreams: Mapping[str, Upstream], sessions: Sessions, *, port: int, token: str | None = None
    ) -> None:
        self._upstreams = upstreams
        self._sessions = sessions
        self._port = port
        self._token = token

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Answer one request, or run for the time of the server."""
        if scope["type"] == "lifespan":
            await self._run(receive, send)
        elif scope["type"] == "http":
            await self._answer(_Incoming(scope, receive), send)

    async def _run(self, receive: Receive, send: Send) -> None:
        """Hold what all requests share, from the server's start to its end."""
        await receive()
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # cookies are between the program and its provider
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        settings: dict[str, Any] = {"follow_redirects": False, "timeout": None, "limits": limits, "cookies": jar}
        async with (
            async_http_client(library="httpx", **settings) as self._client,
            httpx.AsyncClient(**settings) as self._unrecorded,
        ):
            idle = asyncio.create_task(self._end_idle_sessions())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            idle.cancel()
        await send({"type": "lifespan.shutdown.complete"})

    async def _end_idle_sessions(self) -> None:
        while True:
            await asyncio.sleep(_IDLE_CHECK_SECONDS)
            self._sessions.end_idle()

    async def _answer(self, incoming: _Incoming, send: Send) -> None:
        refused = self._why_refused(incoming)
        if refused is not None:
            await _give(send, 403, refused)
            return
        route = self._route(incoming)
        if route is None:
            names = ", ".join(f"/{name}" for name in self._upstreams)
            await _give(send, 404, f"the path has to begin with the name of an upstream: {names}")
            return
        try:
            await self._forward(incoming, route, send)
        except ClientGoneError:
            return

    def _why_refused(self, incoming: _Incoming) -> str | None:
        if self._token is None:
            return why_refused(self._port, incoming.method, incoming.header)
        if incoming.header("origin") is not None:
            return "a page in a browser may not use this proxy."
        if hmac.compare_digest((incoming.header(TOKEN_HEADER) or "").encode(), self._token.encode()):
            return None
        return f"this proxy asks for its token in the header {TOKEN_HEADER}."

    def _route(self, incoming: _Incoming) -> Route | None:
        first, _, rest = incoming.path.lstrip("/").partition("/")
        chosen: tuple[str, ...] = ()
        if first == "run" and rest.count("/") >= 3:
            *words, rest = rest.split("/", 3)
            chosen = tuple(map(unquote, words))
            first, _, rest = rest.partition("/")
        upstream = self._upstreams.get(first)
        if upstream is None:
            return None
        query = f"?{incoming.query}" if incoming.query else ""
        return Route(upstream, f"{upstream.url}/{rest}{query}", chosen)

    async def _forward(self, incoming: _Incoming, route: Route, send: Send) -> None:
        parts = urlsplit(route.url)
        endpoint = endpoint_of(incoming.method, parts.hostname or "", parts.path, parts.port)
        session: Session | None = None
        client, context, digest, status = self._client, Context(), b"", 0
        if endpoint is None:
            content: bytes | AsyncIterator[bytes] | None = incoming.body() if incoming.has_body else None
        else:
            body = b"".join([chunk async for chunk in incoming.body()])
            content = body
            plain_body = plain_request(incoming.headers_to_send(), body)
            known = self._sessions.of(SessionRequest(route.chosen, incoming.header, endpoint.api, plain_body))
            if known is None:  # it would be recorded to the run of another session
                client = self._unrecorded
            else:
                session, context = known
                digest = digest_of(route.url, incoming.header, body)
                context = session.context_of_retry(digest) or context
        request = httpx.Request(incoming.method, route.url, headers=incoming.headers_to_send(), content=content)
        if session is not None:
            session.requests += 1
        try:
            status = await self._until_client_is_gone(incoming, _exchange(client, request, send), context)
        finally:
            if session is not None:
                session.requests -= 1
                if status not in _SUCCESS:
                    session.remember_failure(digest, context)

    async def _until_client_is_gone(self, incoming: _Incoming, exchange: Any, context: Context) -> int:
        """Run an exchange, and return its status; cancel it when the client closes its connection, and return 0.

        The client's own call would be cancelled too.
        """
        work = asyncio.create_task(exchange, context=context)
        gone = asyncio.create_task(incoming.gone())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
        with suppress(asyncio.CancelledError):
            return int(await work)
        return 0


async def _exchange(client: httpx.AsyncClient, request: httpx.Request, send: Send) -> int:
    """Send a request, give the answer back as it comes, and return its status."""
    try:
        response = await client.send(request, stream=True, auth=None)
    except httpx.TransportError as error:
        message = f"{request.url.host} cannot be reached: {type(error).__name__}: {error}"
        await _give(send, _BAD_GATEWAY, message)
        return _BAD_GATEWAY
    try:
        await send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": _headers_to_give(response, request),
            }
        )
        await _give_body(response, send)
    finally:
        await response.aclose()
    return response.status_code


def _headers_to_give(response: httpx.Response, request: httpx.Request) -> list[tuple[bytes, bytes]]:
    """Return the headers for the client, in their order.

    The client believes this machine, so a provider elsewhere may not have its answers taken for recorded ones.
    """
    left_out = _HOP_BY_HOP if is_believed(str(request.url)) else _HOP_BY_HOP | {REPLAYED_FROM_HEADER.encode()}
    return [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in left_out]


async def _give_body(response: httpx.Response, send: Send) -> None:
    """Give a body back. The last chunk of a plain one is held until it is on file, as all of it is with that chunk.

    If the provider closes in mid-stream, all that came is given before the exception is raised.
    """
    streams = is_stream_type(response.headers.get("content-type", ""))
    held = b""
    try:
        async for chunk in response.aiter_raw():
            due, held = (chunk, b"") if streams else (held, chunk)
            if due:
                await send({"type": "http.response.body", "body": due, "more_body": True})
    except httpx.TransportError:
        await send({"type": "http.response.body", "body": held, "more_body": True})
        raise
    await send({"type": "http.response.body", "body": held, "more_body": False})


async def _give(send: Send, status: int, message: str) -> None:
    """Answer with an error of the proxy's own."""
    body = json.dumps({"error": {"type": "trace_recorder_proxy", "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers.append((b"x-trace-recorder", __version__.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Incoming:
    """A request of a client. `body` reads it; after that, `gone` returns when the client closes its connection."""

    def __init__(self, scope: Event, receive: Receive) -> None:
        self.method: str = scope["method"]
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        self.path = raw_path.partition(b"?")[0].decode("latin-1")
        self.query = scope["query_string"].decode("latin-1")
        self._headers: list[tuple[bytes, bytes]] = [*scope["headers"]]
        self._receive = receive
        self._is_read = asyncio.Event()
        if not self.has_body:
            self._is_read.set()

    @property
    def has_body(self) -> bool:
        """Whether the headers announce a body."""
        return any(name in {b"content-length", b"transfer-encoding"} for name, _ in self._headers)

    def header(self, name: str) -> str | None:
        """Return the value of a header by its name in small letters."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self._headers if key == wanted), None)

    def headers_to_send(self) -> list[tuple[bytes, bytes]]:
        """Return the headers for the upstream, in their order."""
        return [(name, value) for name, value in self._headers if name not in _NOT_SENT]

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises ClientGoneError."""
        more = True
        while more:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientGoneError
            more = event.get("more_body", False)
            if event.get("body"):
                yield event["body"]
        self._is_read.set()

    async def gone(self) -> None:
        """Return when the client has closed its connection."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
