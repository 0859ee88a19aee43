"""Answers the websockets of a client from a recording: the package `websockets` talks to a server inside the process.

While a replay runs, `connect` of the sync and of the asyncio client gets one end of a pair of sockets in place of an
address. A thread at the other end is the server, with the protocol of the same package, which does no I/O. So
handshakes, frames, pings, types and exceptions are the library's own. The server answers each `response.create` with
the recorded messages.

Only the Responses API can be replayed. A conversation of Realtime has audio, which is not on file, so it is refused.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from trace_recorder.capture.answer_origins import ORIGIN_HEADER, AnswerOrigins
from trace_recorder.capture.websocket_clients import Fragments, raw_headers
from trace_recorder.capture.websocket_connection import CREATE, event_of
from trace_recorder.capture.websocket_patch import websocket_patch
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.dialect import Dialect, dialect_of
from trace_recorder.dialects.endpoints import Endpoint, recognise_websocket
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.rerun.answers import Answers, Pace, refused_connection
from trace_recorder.signal_handlers import suppress
from trace_recorder.storage.websocket_frames import from_event

IsAnswered = Callable[[object], bool]
_POLICY_VIOLATION = 1008
_NOT_FOUND = 404
_PIECE = 64 * 1024
_OPEN, _CLOSED = 1, 3
"""Values of `state`: messages may be sent, and the connection has ended."""


class WebsocketAnswers:
    """The websockets of clients for which `is_answered` is true, from `install` to `remove`.

    `is_answered` gets the client of an SDK that opens a websocket, or None if no SDK does.
    """

    def __init__(self, answers: Answers, is_answered: IsAnswered) -> None:
        self._answers = answers
        self._is_answered = is_answered

    def install(self) -> None:
        """Answer the connections that are opened from now on."""
        websocket_patch.redirect(self.socket_for)

    def remove(self) -> None:
        """Answer no further connections. Those that are open are answered to their end."""
        websocket_patch.stop_redirecting(self.socket_for)

    def socket_for(self, uri: str, client: object) -> socket.socket | None:
        """Return a socket to a server in this process if the replay answers the client, or None."""
        endpoint = recognise_websocket(uri)
        dialect = None if endpoint is None else dialect_of(endpoint.api)
        if endpoint is None or dialect is None or not self._is_answered(client):
            return None
        if dialect.websockets is None or dialect.websockets.names_responses:  # its prompts are not in its requests
            why = f"a replay cannot answer {urlsplit(uri).path}: the audio of a conversation is not on file"
            raise refused_connection(self._answers.refused(why))
        ours, theirs = socket.socketpair()
        server = _Server(theirs, endpoint, dialect, self._answers)
        threading.Thread(target=server.run, name="trace-recorder-replay", daemon=True).start()
        return ours


class _Server:
    """The server of one websocket, in a thread of its own. It waits for messages and for the times of its answers."""

    def __init__(self, connection: socket.socket, endpoint: Endpoint, dialect: Dialect, answers: Answers) -> None:
        self._socket = connection
        self._recognised = endpoint
        self._dialect = dialect
        self._answers = answers
        self._origins = AnswerOrigins()
        self._headers: list[tuple[bytes, bytes]] = []
        self._messages = Fragments()
        self._asked: deque[bytes] = deque()
        """The requests that have no answer yet."""
        self._answering: Iterator[tuple[float, bytes]] = iter(())

    def run(self) -> None:
        """Answer the messages of the client until one side closes the websocket."""
        from websockets.server import ServerProtocol  # noqa: PLC0415 - an extra, imported by the program

        self._protocol = ServerProtocol(select_subprotocol=_first_subprotocol, max_size=None)
        with self._socket, suppress(OSError):
            while self._protocol.state != _CLOSED:
                self._send()
                due = next(self._answering, None)
                if due is None and self._asked:
                    self._answering = self._answer(self._asked.popleft())
                elif due is None:
                    self._read()
                else:
                    while select.select([self._socket], [], [], max(0.0, due[0] - monotonic_seconds()))[0]:
                        self._read()
                        self._send()
                    if self._protocol.state == _OPEN:  # otherwise the client has begun to close the websocket
                        self._protocol.send_text(due[1])

    def _read(self) -> None:
        """Wait for bytes of the client, and take the events in them."""
        data = self._socket.recv(_PIECE)
        if not data:
            raise ConnectionResetError("the client is gone")
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if hasattr(event, "opcode"):
                message = self._messages.add(event)
                if message is not None and event_of(message).get("type") == CREATE:
                    self._asked.append(message)
            else:
                self._shake_hands(event)

    def _send(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._socket.sendall(data)
            else:
                self._socket.shutdown(socket.SHUT_WR)

    def _shake_hands(self, request: Any) -> None:
        """Accept the websocket. Say which object has the origins of the answers, for a recorder of this process."""
        self._headers = raw_headers(request.headers)
        response = self._protocol.accept(request)
        response.headers[ORIGIN_HEADER] = self._origins.key
        self._protocol.send_response(response)

    def _answer(self, message: bytes) -> Iterator[tuple[float, bytes]]:
        """Yield the messages that answer a request, each with the time when it is due."""
        try:
            answer = self._answers.answer(self._recognised, self._headers, message)
            if answer is None:
                raise self._answers.refused("a replay does not send a call over a websocket")
        except ReplayMismatchError as mismatch:
            lane = {name: value for name, value in event_of(message).items() if name == "stream_id"}
            error = as_dict(self._dialect.not_found(str(mismatch)))
            yield 0.0, json.dumps({"type": "error", "status": _NOT_FOUND, **error, **lane}).encode()
            self._protocol.send_close(_POLICY_VIOLATION, "the request is not in the recording")
            return
        self._origins.newest = answer.origin
        pace = Pace(self._answers.speed)
        for recorded, event in answer.pieces:
            yield monotonic_seconds() + pace.seconds(recorded), from_event(event)
        if answer.is_cut_off:
            self._send()
            raise ConnectionResetError("the recorded answer was cut off")


def _first_subprotocol(_: object, offered: Sequence[Any]) -> Any:
    return offered[0] if offered else None
