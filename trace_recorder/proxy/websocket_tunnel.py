"""Passes a websocket between a program and a model, and records its messages.

The bytes pass unchanged in both directions, so the handshake's offers, subprotocols, compression, fragments, pings and
closing codes are as without the proxy. What is recorded is read from a copy of the bytes. Bytes that complete a message
pass after the message was recorded. If the messages cannot be read, the bytes pass unrecorded, and the run gets a gap.

uvicorn gives the connection of a request for a websocket to an `UpgradedConnection`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import httpcore2
import httpx2
from websockets.frames import Close

from trace_recorder.capture.websocket_connection import SWITCHING_PROTOCOLS
from trace_recorder.guard import Guard
from trace_recorder.proxy.websocket_messages import MessageReader, NoMessagesError
from trace_recorder.signal_handlers import suppress
from trace_recorder.storage.websocket_frames import Direction

Head = dict[str, Any]
"""The method, the path, the query and the headers of a request, by the names of ASGI."""
Headers = list[tuple[bytes, bytes]]
Answer = Callable[[Head, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

UPGRADE = {"connection": "Upgrade", "upgrade": "websocket"}
"""The headers of one connection that a request for a websocket has."""
_PIECE = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
"""The option of a socket that resets its connection when it is closed."""
_LINE_END = b"\r\n"
_OF_CONNECTION = {b"transfer-encoding", b"connection", b"keep-alive"}
_guard = Guard()
_CLOSED_BY: dict[Direction | None, str] = {"sent": "the client closed it", "received": "the server closed it"}


class UpgradedConnection(asyncio.StreamReaderProtocol):
    """The connection of a client that asks for a websocket. `answer` gets the head of the request, and both streams."""

    def __init__(self, answer: Answer, *, server_state: Any, **_: object) -> None:
        super().__init__(asyncio.StreamReader(limit=_PIECE), self._begin)
        self._answer = answer
        self._connections = server_state.connections
        self._answering: asyncio.Task[None] | None = None

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering = asyncio.current_task()
        self._connections.add(self)
        try:
            head = await reader.readuntil(_LINE_END * 2)
            await self._answer(_parse(head), reader, writer)
            await writer.drain()
        except OSError:
            writer.transport.abort()
        except asyncio.CancelledError:  # `shutdown` did this; the base class cannot end with a cancelled task
            writer.transport.abort()
        finally:
            self._connections.discard(self)
            writer.close()

    def shutdown(self) -> None:
        """End the websocket, because the server ends."""
        if self._answering is not None:
            self._answering.cancel()


def _parse(head: bytes) -> Head:
    """Parse the head of a request that uvicorn has parsed and written again."""
    first, *lines = head.removesuffix(_LINE_END * 2).split(_LINE_END)
    method, target, _ = first.split(b" ", 2)
    path, _, query = target.partition(b"?")
    pairs = (line.split(b": ", 1) for line in lines)
    headers = [(name.lower(), value) for name, value in pairs]
    return {"method": method.decode("latin-1"), "raw_path": path, "query_string": query, "headers": headers}


async def send_event(writer: asyncio.StreamWriter, event: Mapping[str, Any]) -> None:
    """Send an event of ASGI that answers a request with no websocket. The connection ends after it."""
    if event["type"] == "http.response.start":
        writer.write(_head(event["status"], b"", [*event["headers"], (b"connection", b"close")]))
    else:
        writer.write(event["body"])


def _head(status: int, reason: bytes, headers: Headers) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (status, reason), *(b"%b: %b" % header for header in headers)]
    return _LINE_END.join([*lines, b"", b""])


class MessageTaker(Protocol):
    """Takes what passes through a tunnel. No method raises."""

    async def opened(self, status: int, headers: Headers) -> None:
        """Take the head of the server's answer. With another status than 101 there is no websocket."""

    async def message(self, direction: Direction, message: bytes) -> None:
        """Take a message before its last bytes pass."""

    def unreadable(self, why: str) -> None:
        """Take the reason why no further message can be read."""

    def ended(self, close: Close | None, why: str) -> None:
        """Take the end. `close` is the first closing frame, if there was one."""


class Tunnel:
    """One websocket: the client's streams, and what records it, or None."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recording: MessageTaker | None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._recording = recording
        self._readers: dict[Direction, MessageReader] = {}
        self._closed: tuple[Direction, Close] | None = None
        """The first closing frame."""

    async def run(self, client: httpx2.AsyncClient, request: httpx2.Request) -> None:
        """Send the handshake by `client`, pass the answer, and then all bytes until one side ends the connection.

        Raises httpx2.TransportError if the server cannot be reached, and OSError if the client cannot.
        """
        response = await client.send(request, stream=True, auth=None)
        try:
            if response.status_code == SWITCHING_PROTOCOLS:
                await self._pass_websocket(response)
            else:
                await self._pass_head(response)
                with suppress(httpx2.TransportError):  # the client's answer is broken too: its connection ends
                    async for chunk in response.aiter_raw():
                        await self._to_client(chunk)
        finally:
            await response.aclose()

    async def _pass_head(self, response: httpx2.Response) -> None:
        headers, status = response.headers.raw, response.status_code
        if self._recording is not None:
            await self._recording.opened(status, headers)
        if status != SWITCHING_PROTOCOLS:
            headers = [(name, value) for name, value in headers if name.lower() not in _OF_CONNECTION]
            headers.append((b"Connection", b"close"))
        elif self._recording is not None:
            self._begin_reading(self._recording, response.headers.get("sec-websocket-extensions"))
        await self._to_client(_head(status, response.extensions.get("reason_phrase", b""), headers))

    def _begin_reading(self, recording: MessageTaker, extensions: str | None) -> None:
        try:
            self._readers = {
                "sent": MessageReader("sent", extensions),
                "received": MessageReader("received", extensions),
            }
        except NoMessagesError as error:
            recording.unreadable(str(error))

    async def _pass_websocket(self, response: httpx2.Response) -> None:
        """Pass the answer and the websocket, and tell the recording how the websocket ended."""
        why = "the proxy ended it"
        try:
            await self._pass_head(response)
            why = await self._pass_bytes(response.extensions["network_stream"])
        except OSError as error:
            why = f"the connection to the client broke: {error}"
            raise
        finally:
            if self._recording is not None:
                direction, close = self._closed or (None, None)
                self._recording.ended(close, _CLOSED_BY.get(direction, why))

    async def _pass_bytes(self, server: httpcore2.AsyncNetworkStream) -> str:
        """Pass bytes in both directions until one side ends the connection. The end of the server passes as it is.

        Return why that ended.
        """
        directions = [asyncio.create_task(pass_bytes(server)) for pass_bytes in (self._pass_sent, self._pass_received)]
        try:
            ended, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            return min(task.result() for task in ended)
        finally:
            for task in directions:
                task.cancel()
            await asyncio.wait(directions)

    async def _pass_sent(self, server: httpcore2.AsyncNetworkStream) -> str:
        """Pass what the client sends. Return why that ended."""
        try:
            while data := await self._reader.read(_PIECE):
                await self._record("sent", data)
                await server.write(data)
        except ConnectionError as error:
            return f"the connection to the client broke: {error}"
        except httpcore2.NetworkError as error:
            return self._broken(error)
        return "the client ended the connection"

    async def _pass_received(self, server: httpcore2.AsyncNetworkStream) -> str:
        """Pass what the server sends. Return why that ended."""
        try:
            while data := await server.read(_PIECE):
                await self._record("received", data)
                await self._to_client(data)
        except ConnectionError as error:
            return f"the connection to the client broke: {error}"
        except httpcore2.NetworkError as error:
            return self._broken(error)
        return "the server ended the connection"

    def _broken(self, error: Exception) -> str:
        """Reset the connection to the client too, because the one to the server is broken. Return what happened."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()
        return f"the connection to the server broke: {error}"

    async def _record(self, direction: Direction, data: bytes) -> None:
        """Record the messages that the next bytes of a direction complete."""
        reader, recording = self._readers.get(direction), self._recording
        if reader is None or recording is None:
            return
        with _guard.protect("record a websocket"):
            try:
                for message in reader.read(data):
                    await recording.message(direction, message)
            except NoMessagesError as error:
                self._readers = {}
                recording.unreadable(str(error))
        if self._closed is None and reader.close is not None:
            self._closed = direction, reader.close

    async def _to_client(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
