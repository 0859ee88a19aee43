"""The proxy's server. It forwards each request to its upstream, and returns the answer to the client.

Bodies pass byte for byte, chunk by chunk. Headers pass with their values and in their order, except the headers that
concern one connection only (`_HOP_BY_HOP`). The HTTP client records the calls. A request to a model is read whole,
because it must be on file before it is sent. Such a request is sent in the context of its session, so recording finds
the run and the agent.

`serving` runs the server in a thread, so that the main thread can wait for a program, or for Ctrl-C.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
import uvicorn

from trace_recorder.attach.current import async_http_client
from trace_recorder.capture.proxy_header import RECORDED_HEADER, TOKEN_HEADER
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.dialects.endpoints import is_stream_type, recognise, recognise_websocket
from trace_recorder.guard import Guard
from trace_recorder.loopback import HOST, why_refused
from trace_recorder.proxy.server_exchange import ServerExchange
from trace_recorder.proxy.server_messages import Origin, ServerMessages
from trace_recorder.proxy.sessions import Session, SessionRequest, Sessions
from trace_recorder.proxy.token_requests import TokenRequests
from trace_recorder.proxy.upstreams import Upstream, address_of, upstream_for
from trace_recorder.proxy.waiting import do_before_waits
from trace_recorder.proxy.websocket_sessions import WebsocketSession
from trace_recorder.proxy.websocket_tunnel import UPGRADE, Tunnel, UpgradedConnection, send_event
from trace_recorder.recording.mcp_messages import MESSAGES_PATH, MCPFact
from trace_recorder.values.origins import REPLAYED_FROM_HEADER, is_believed
from trace_recorder.version import __version__

AsgiEvent = Mapping[str, Any]
Receive = Callable[[], Awaitable[AsgiEvent]]
Send = Callable[[AsgiEvent], Awaitable[None]]
Forwarding = Coroutine[Any, Any, int]
"""A coroutine that sends a request, passes the answer to the client, and returns the HTTP status of the answer."""

_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
"""Headers that concern one connection only. They are not forwarded in either direction."""
_NOT_SENT = _HOP_BY_HOP | {b"host", b"expect", TOKEN_HEADER.encode(), RECORDED_HEADER.encode()}
_IDLE_CHECK_SECONDS = 5.0
_JOINED_BYTES = 8 * 1024
"""Chunks that are there at the same moment are joined until they have more bytes than this.

To parse so many takes less than a millisecond, and the client waits for it.
"""
_BAD_GATEWAY = 502
_SUCCESS = range(200, 300)
_guard = Guard()


class ClientGoneError(Exception):
    """The client closed its connection before its request was complete."""


@dataclass(frozen=True, slots=True)
class Route:
    """The destination of a request, and the TASK, GROUP and ATTEMPT of a path that begins with `/run`."""

    path: str
    """The path after the name of the upstream, as the client sent it."""
    url: str
    chosen: tuple[str, ...]
    tokens: str | None = None
    """The kind of the server if it is asked for the tokens of calls."""


@dataclass(frozen=True, slots=True)
class _ServerRoute:
    """The MCP server to which a request goes, and the TASK, GROUP and ATTEMPT of its path."""

    name: str
    url: str
    chosen: tuple[str, ...]


class Proxy:
    """Forwards the requests of programs. Its HTTP client records their LLM calls.

    The server listens on `port`. If `token` is not None, every client has to send the token. `mcp_servers` has the
    addresses of MCP servers by name. The path `/mcp/NAME` leads to such a server.
    """

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        sessions: Sessions,
        *,
        port: int,
        token: str | None = None,
        mcp_servers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._upstreams = upstreams
        self._mcp_servers = mcp_servers
        self._sessions = sessions
        self._messages = ServerMessages(sessions)
        self._token_requests = TokenRequests()
        self._port = port
        self._token = token

    async def __call__(self, scope: AsgiEvent, receive: Receive, send: Send) -> None:
        """Answer one request, or keep the HTTP clients open until the server ends."""
        if scope["type"] == "lifespan":
            await self._run(receive, send)
        elif scope["type"] == "http":
            await self._answer(_Incoming(scope, receive), send)

    async def _run(self, receive: Receive, send: Send) -> None:
        """Open the HTTP clients at the server's start, and close them at its end."""
        await receive()
        settings: dict[str, Any] = {
            "follow_redirects": False,
            "timeout": None,
            "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=100),
            # Cookies are between the program and its provider, so the proxy keeps none.
            "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            # Both clients share the context, because reading the certificates takes 0.1 s.
            "verify": httpx2.create_ssl_context(),
        }
        async with (
            async_http_client(library="httpx2", **settings) as self._client,
            httpx2.AsyncClient(**settings) as self._unrecorded,
        ):
            if any(upstream.tokens for upstream in self._upstreams.values()):
                self._token_requests.watch(self._client)
            idle = asyncio.create_task(self._end_idle_sessions())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            idle.cancel()
            self._messages.end()
        await send({"type": "lifespan.shutdown.complete"})

    async def _end_idle_sessions(self) -> None:
        while True:
            await asyncio.sleep(min(_IDLE_CHECK_SECONDS, self._sessions.idle_seconds))
            self._sessions.end_idle(time.monotonic())

    async def _answer(self, incoming: _Incoming, send: Send) -> None:
        refused = self._why_refused(incoming)
        if refused is not None:
            await _send_error(send, 403, refused)
            return
        if incoming.path == MESSAGES_PATH:
            await self._take_message(incoming, send)
            return
        if (server := self._mcp_server(incoming)) is not None:
            with suppress(ClientGoneError):
                await self._forward_mcp(incoming, server, send)
            return
        if (route := await self._route_or_error(incoming, send)) is not None:
            with suppress(ClientGoneError):
                await self._forward(incoming, route, send)

    async def upgraded(self, head: AsgiEvent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request for a websocket: let the websocket pass between the client and the upstream."""
        incoming, send = _Incoming(head, _no_body), partial(send_event, writer)
        refused = self._why_refused(incoming)
        if refused is not None:
            await _send_error(send, 403, refused)
        elif (route := await self._route_or_error(incoming, send)) is not None:
            request = incoming.request_to(route.url, None)
            request.headers.update(UPGRADE)
            tunnel = Tunnel(reader, writer, self._recording(incoming, route, request))
            try:
                await tunnel.run(self._unrecorded, request)
            except httpx2.TransportError as error:
                await _send_error(send, _BAD_GATEWAY, _unreachable(request, error))

    def _recording(self, incoming: _Incoming, route: Route, request: httpx2.Request) -> WebsocketSession | None:
        """Return what records a websocket, or None if it does not lead to a model, or the program records it itself."""
        endpoint = recognise_websocket(route.url)
        dialect = None if endpoint is None else dialect_of(endpoint.api)
        if endpoint is None or dialect is None or dialect.websockets is None:
            return None
        if own_run := incoming.header(RECORDED_HEADER):
            self._sessions.note_own_run(own_run)
            return None
        headers = request.headers.raw
        handshake = SessionRequest(route.url, route.chosen, incoming.header, endpoint.api, b"", headers)
        return WebsocketSession(self._sessions, handshake, dialect.websockets)

    async def _route_or_error(self, incoming: _Incoming, send: Send) -> Route | None:
        """Return the destination of a request. If there is none, answer with an error, and return None."""
        route = self._route(incoming)
        if route is None:
            names = ", ".join(f"/{name}" for name in self._upstreams)
            await _send_error(send, 404, f"the path has to begin with the name of an upstream: {names}")
            return None
        if _leaves_base(route.path):
            await _send_error(send, 400, "the path may not have `..`, because it would leave the upstream's address")
            return None
        return route

    async def _take_message(self, incoming: _Incoming, send: Send) -> None:
        """Record a message between the program and an MCP server, which `trace-recorder mcp-tap` has seen."""
        body = b"".join([chunk async for chunk in incoming.body()])
        if await self._messages.take(body):
            await _send_json(send, 200, {})
        else:
            await _send_error(send, 503, "the message was not recorded.")

    def _mcp_server(self, incoming: _Incoming) -> _ServerRoute | None:
        """Return the MCP server to which a request goes, or None."""
        chosen, path = _split_chosen(incoming.path)
        first, _, name = path.partition("/")
        url = self._mcp_servers.get(name) if first == "mcp" else None
        if url is None:
            return None
        return _ServerRoute(name, f"{url}?{incoming.query}" if incoming.query else url, chosen)

    async def _forward_mcp(self, incoming: _Incoming, route: _ServerRoute, send: Send) -> None:
        """Forward a request to an MCP server, and record the messages in it and in its answer."""
        body = b"".join([chunk async for chunk in incoming.body()])
        request = incoming.request_to(route.url, body if incoming.has_body else None)
        exchange, origin = ServerExchange(route.name, incoming.header("mcp-session-id")), Origin(route.chosen)

        async def record(read: Callable[[], list[MCPFact]], size: int) -> None:
            facts: list[MCPFact] = []
            with _guard.protect("read a message of an MCP server"):
                facts = read()
            await self._messages.record(exchange.connection_id, facts, size, origin)

        async def recorded(event: AsgiEvent) -> None:
            chunk = event.get("body", b"")
            if event["type"] == "http.response.start":
                await record(lambda: exchange.answered(event["headers"]), 0)
            else:
                await record(lambda: exchange.received(chunk, is_last=not event.get("more_body", False)), len(chunk))
            await send(event)

        await record(lambda: exchange.sent(request.headers.raw, body), len(body))
        forwarding = _forward_to_provider(self._unrecorded, request, recorded)
        await _until_client_is_gone(incoming, forwarding, Context())

    def _why_refused(self, incoming: _Incoming) -> str | None:
        if self._token is None:
            return why_refused(self._port, incoming.method, incoming.header)
        if incoming.header("origin") is not None:
            return "a page in a browser may not use this proxy."
        if hmac.compare_digest((incoming.header(TOKEN_HEADER) or "").encode(), self._token.encode()):
            return None
        return f"this proxy asks for its token in the header {TOKEN_HEADER}."

    def _route(self, incoming: _Incoming) -> Route | None:
        chosen, path = _split_chosen(incoming.path)
        first, _, rest = path.partition("/")
        upstream = upstream_for(self._upstreams, first, incoming.header)
        if upstream is None:
            return None
        address = address_of(upstream, first, rest)
        if incoming.query:
            address += f"?{incoming.query}"
        return Route(rest, address, chosen, upstream.tokens)

    async def _forward(self, incoming: _Incoming, route: Route, send: Send) -> None:
        parts = urlsplit(route.url)
        endpoint = recognise(incoming.method, parts.hostname or "", parts.path, parts.port).call
        if endpoint is None:
            request = incoming.request_to(route.url, incoming.body() if incoming.has_body else None)
            await _until_client_is_gone(incoming, _forward_to_provider(self._client, request, send), Context())
            return
        body = b"".join([chunk async for chunk in incoming.body()])
        request = incoming.request_to(route.url, body)
        if own_run := incoming.header(RECORDED_HEADER):  # the program has a recorder of its own
            self._sessions.note_own_run(own_run)
            await _until_client_is_gone(incoming, _forward_to_provider(self._unrecorded, request, send), Context())
            return
        raw_headers = request.headers.raw
        session_request = SessionRequest(route.url, route.chosen, incoming.header, endpoint.api, body, raw_headers)
        if (session_and_context := await self._sessions.of(session_request)) is None:
            # The recording client would write this call, which has no session, to the run of another session.
            await _until_client_is_gone(incoming, _forward_to_provider(self._unrecorded, request, send), Context())
        else:
            forward, run = partial(_forward_to_provider, self._client, request), session_and_context[0].run
            if route.tokens is None:
                forwarding = forward(send)
            else:
                forwarding = self._token_requests.forward(route.tokens, endpoint.api, request, run, send, forward)
            await self._forward_call(incoming, forwarding, session_request, *session_and_context)

    async def _forward_call(
        self,
        incoming: _Incoming,
        forwarding: Forwarding,
        session_request: SessionRequest,
        session: Session,
        context: Context,
    ) -> None:
        """Forward a request to a model in the context of its session."""
        session.requests += 1
        status = 0
        try:
            status = await _until_client_is_gone(incoming, forwarding, context)
        finally:
            session.requests -= 1
            if status not in _SUCCESS:
                session.remember_failure(session_request, context)


async def _no_body() -> AsgiEvent:
    """Return the end of a request without a body."""
    return {"type": "http.request", "more_body": False}


def _split_chosen(path: str) -> tuple[tuple[str, ...], str]:
    """Return the TASK, GROUP and ATTEMPT of a path that begins with `/run`, and the path after them."""
    first, _, rest = path.lstrip("/").partition("/")
    if first != "run" or rest.count("/") < 3:
        return (), path.lstrip("/")
    *words, rest = rest.split("/", 3)
    return tuple(map(unquote, words)), rest


def _leaves_base(path: str) -> bool:
    """Return whether a path has a segment `..`, as it is or escaped. Some servers unescape a path twice."""
    while (decoded := unquote(path)) != path:
        path = decoded
    return ".." in re.split(r"[/\\]", path)


async def _until_client_is_gone(incoming: _Incoming, forwarding: Forwarding, context: Context) -> int:
    """Forward a request, and return the status of the answer.

    If the client closes its connection, the call stops, as it would without a proxy, and the result is 0.
    """
    work = asyncio.create_task(forwarding, context=context)
    disconnect = asyncio.create_task(incoming.wait_for_disconnect())
    try:
        await asyncio.wait((work, disconnect), return_when=asyncio.FIRST_COMPLETED)
    finally:
        disconnect.cancel()
        if not work.done():
            work.cancel()
    with suppress(asyncio.CancelledError):
        return await work
    return 0


async def _forward_to_provider(client: httpx2.AsyncClient, request: httpx2.Request, send: Send) -> int:
    """Send a request, pass the answer to the client chunk by chunk, and return its status."""
    try:
        response = await client.send(request, stream=True, auth=None)
    except httpx2.TransportError as error:
        await _send_error(send, _BAD_GATEWAY, _unreachable(request, error))
        return _BAD_GATEWAY
    try:
        await send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": _headers_for_client(response, request),
            }
        )
        await send_body(response, send)
    finally:
        await response.aclose()
    return response.status_code


def _unreachable(request: httpx2.Request, error: httpx2.TransportError) -> str:
    return f"{request.url.host} cannot be reached: {type(error).__name__}: {error}"


def _headers_for_client(response: httpx2.Response, request: httpx2.Request) -> list[tuple[bytes, bytes]]:
    """Return the headers for the client, in their order.

    A program believes a server of this machine that marks an answer as replayed. The proxy is such a server, so it
    forwards the mark only if the upstream is on this machine too.
    """
    omitted = _HOP_BY_HOP
    if not is_believed(str(request.url)):
        omitted = omitted | {REPLAYED_FROM_HEADER.encode()}
    return [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in omitted]


async def send_body(response: httpx2.Response, send: Send) -> None:
    """Pass the body of a response to the client, each chunk as soon as it is there.

    Chunks that are there at the same moment are passed as one of about `_JOINED_BYTES`. The first chunk of a stream
    waits for no other. The last chunk of a body that is not a stream is held back until the body is on file.

    If the provider closes the connection in mid-stream, all received chunks are passed before the exception is raised.
    """
    streams = is_stream_type(response.headers.get("content-type", ""))
    due: list[bytes] = []
    held = b""
    size, most = 0, 0

    async def pass_on(*, ends: bool = False) -> None:
        nonlocal size
        body, size = b"".join(due), 0
        due.clear()
        if body or ends:
            await send({"type": "http.response.body", "body": body, "more_body": not ends})

    chunks = response.aiter_raw()
    try:
        while True:
            chunk = await do_before_waits(pass_on, anext(chunks))
            if streams:
                due.append(chunk)
            else:
                due.append(held)
                held = chunk
            size += len(chunk)
            if size > most:
                await pass_on()
                most = _JOINED_BYTES
    except StopAsyncIteration:
        due.append(held)
        await pass_on(ends=True)
    except httpx2.TransportError:
        due.append(held)
        await pass_on()
        raise


async def _send_error(send: Send, status: int, message: str) -> None:
    """Answer with an error that the proxy itself reports."""
    await _send_json(send, status, {"error": {"type": "trace_recorder_proxy", "message": message}})


async def _send_json(send: Send, status: int, value: Any) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers.append((b"x-trace-recorder", __version__.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Incoming:
    """A request of a client. `body` must be read before `wait_for_disconnect` can return."""

    def __init__(self, scope: AsgiEvent, receive: Receive) -> None:
        self.method: str = scope["method"]
        # The member `path` is decoded, so it does not show which slashes were escaped.
        self.path: str = scope["raw_path"].decode("latin-1")
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
        """Return the value of a header by its name in lower case."""
        raw_name = name.encode()
        return next((value.decode("latin-1") for key, value in self._headers if key == raw_name), None)

    def request_to(self, url: str, content: bytes | AsyncIterator[bytes] | None) -> httpx2.Request:
        """Return the request for the upstream, with its headers in their order.

        If the body came in chunks, a length that the client stated does not count, and may be wrong (RFC 9112, 6.3).
        """
        omitted = _NOT_SENT
        if self.header("transfer-encoding") is not None:
            omitted = omitted | {b"content-length"}
        headers = [(name, value) for name, value in self._headers if name not in omitted]
        return httpx2.Request(self.method, url, headers=headers, content=content)

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the body. Raises ClientGoneError if the client closes its connection before the end."""
        more = True
        while more:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientGoneError
            more = event.get("more_body", False)
            if event.get("body"):
                yield event["body"]
        self._is_read.set()

    async def wait_for_disconnect(self) -> None:
        """Return when the client has closed its connection."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


_GRACE_SECONDS = 2
"""When the proxy ends, requests that are being answered have this many seconds to end."""


def listening(host: str = HOST, port: int = 0) -> socket.socket:
    """Return a listening socket. Port 0 means a free port. Raises OSError if the port cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's delay only for a socket that states its protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def serving(proxy: Proxy, listener: socket.socket) -> Iterator[None]:
    """Answer requests until the block ends."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # asyncio would warn of each write to a killed program
    config = uvicorn.Config(
        proxy,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="on",
        loop="asyncio",
        ws=partial(UpgradedConnection, proxy.upgraded),  # type: ignore[arg-type]  # any function that makes a protocol
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=3600,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="trace-recorder-proxy")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
