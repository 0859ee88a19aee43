"""Records the messages of a websocket that passes the proxy, in the run of its session.

A websocket belongs to one session. It is found as the session of a request over HTTP is: by a path, by a header of the
handshake, or by the program that the proxy started. Otherwise the first request for a response shows which conversation
it continues. A websocket whose requests have no prompts (Realtime) is then a conversation of its own.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from dataclasses import replace
from functools import partial

from websockets.frames import Close

from trace_recorder.attach.current import following
from trace_recorder.capture.seam import Binding
from trace_recorder.capture.websocket_connection import SWITCHING_PROTOCOLS, WebsocketConnection, begin_websocket
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.dialect import Websockets
from trace_recorder.proxy.sessions import Session, SessionRequest, Sessions
from trace_recorder.storage.websocket_frames import Direction

_BINDING = Binding(following, None)
_ASKS = b'"response.create"'
"""A message with this text may ask for a response. Another message with it is recorded in the same run."""


class WebsocketSession:
    """One websocket, and its session once that is known. `request` is its handshake, without a body."""

    def __init__(self, sessions: Sessions, request: SessionRequest, websockets: Websockets) -> None:
        self._sessions = sessions
        self._request = request
        self._has_prompts = not websockets.names_responses
        self._began = monotonic_seconds()
        self._answer: tuple[int, list[tuple[bytes, bytes]]] = 0, []
        self._handshake_seconds = 0.0
        self._session: Session | None = None
        self._context = Context()
        self._connection: WebsocketConnection | None = None

    async def opened(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Take the head of the server's answer. With another status than 101 there is no websocket."""
        self._answer, self._handshake_seconds = (status, headers), monotonic_seconds() - self._began
        if self._sessions.names_session_of(self._request) or not self._has_prompts:
            await self._begin(self._request)

    async def message(self, direction: Direction, message: bytes) -> None:
        """Take a message before its last bytes pass."""
        if direction == "sent" and _ASKS in message:
            await self._ask(message)
        elif self._connection is not None:
            take = self._connection.sent if direction == "sent" else self._connection.received
            self._context.run(take, message)

    async def _ask(self, message: bytes) -> None:
        """Take a message that may ask for a response."""
        request = replace(self._request, body=message)
        if self._session is None:
            await self._begin(request)
        else:
            self._context = self._sessions.use(self._session, request)
        if self._connection is not None:
            await asyncio.create_task(self._connection.sent_in_event_loop(message), context=self._context)

    async def _begin(self, request: SessionRequest) -> None:
        """Find the session, and begin to record in its run."""
        session_and_context = await self._sessions.of(request)
        if session_and_context is None:
            return
        self._session, self._context = session_and_context
        self._session.requests += 1
        url, (status, headers) = self._request.url.replace("http", "ws", 1), self._answer
        begin = partial(begin_websocket, seconds_ago=self._handshake_seconds)
        connection = self._context.run(begin, _BINDING, url, self._request.raw_headers)
        if connection is not None and status == SWITCHING_PROTOCOLS:
            subprotocol = {name.lower(): value for name, value in headers}.get(b"sec-websocket-protocol")
            connection.opened(status, headers, None if subprotocol is None else subprotocol.decode("latin-1"))
            self._connection = connection
        elif connection is not None:
            connection.refused(ConnectionError(f"the server answered with status {status}"), status, headers)
            self.ended(None, "")

    def unreadable(self, why: str) -> None:
        """Take the reason why no further message can be read."""
        if self._session is not None and self._session.run is not None:
            self._session.run.guard.queue_failure("record the messages of a websocket", why)

    def ended(self, close: Close | None, why: str) -> None:
        """Take the end. `close` is the first closing frame, if there was one."""
        session, self._session = self._session, None
        if session is not None:
            session.requests -= 1
        if self._connection is not None:
            code, reason = (None, None) if close is None else (close.code, close.reason)
            self._connection.ended(why, code, reason)
