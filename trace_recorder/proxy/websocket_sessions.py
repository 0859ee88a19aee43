"""Records the messages of a websocket that passes the proxy, in the run of their session.

A websocket belongs to one session. What names the session of a request over HTTP names it here: a path, a header of the
handshake, or the program that the proxy started. Otherwise the first request for a response tells which conversation it
continues, and a websocket without such requests (Realtime) is a conversation of its own.
"""

from __future__ import annotations

import asyncio
from contextvars import Context

from websockets.frames import Close

from trace_recorder.attach.current import following
from trace_recorder.capture.seam import Binding
from trace_recorder.capture.websocket_connection import (
    SWITCHING_PROTOCOLS,
    WebsocketConnection,
    asks_for_response,
    begin_websocket,
)
from trace_recorder.proxy.sessions import Session, SessionRequest, Sessions
from trace_recorder.storage.websocket_frames import Direction
from trace_recorder.values.structs import replace

Headers = list[tuple[bytes, bytes]]


class WebsocketSession:
    """One websocket, and its session once that is known. `request` is its handshake, without a body."""

    def __init__(self, sessions: Sessions, request: SessionRequest) -> None:
        self._sessions = sessions
        self._request = request
        self._answer: tuple[int, Headers] = 0, []
        self._session: Session | None = None
        self._context = Context()
        self._connection: WebsocketConnection | None = None

    async def opened(self, status: int, headers: Headers) -> None:
        """Take the head of the server's answer. With another status than 101 there is no websocket."""
        self._answer = status, headers
        if self._sessions.are_named(self._request) or not self._request.is_by_messages:
            await self._begin(self._request)

    async def _begin(self, request: SessionRequest) -> None:
        """Begin to record, because the session can be known now."""
        found = await self._sessions.of(request)
        if found is None:
            return
        self._session, self._context = found
        self._session.requests += 1
        url = self._request.url.replace("http", "ws", 1)
        connection = self._context.run(begin_websocket, _BINDING, url, self._request.raw_headers)
        if connection is not None:
            status, headers = self._answer
            if status == SWITCHING_PROTOCOLS:
                self._connection = connection
                connection.opened(status, headers, _subprotocol(headers))
            else:
                connection.refused(ConnectionRefusedError(f"the server answered with status {status}"), status, headers)

    async def message(self, direction: Direction, message: str | bytes) -> None:
        """Take a message before its last bytes pass."""
        data = message.encode() if isinstance(message, str) else message
        if direction == "received":
            if self._connection is not None:
                self._connection.received(data)
        elif asks_for_response(data):
            await self._ask(data)
        elif self._connection is not None:
            self._context.run(self._connection.sent, data)

    async def _ask(self, message: bytes) -> None:
        request = replace(self._request, body=message)
        ...
