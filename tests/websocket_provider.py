"""The provider of websockets in all tests: a server of this machine that plays a scripted session, byte for byte.

A script is a function that gets a `Session`. It receives and sends whole messages as it likes. The connection is closed
when the script returns. Each connection takes the next script, and the last script is repeated.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from inspect import signature
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from trace_recorder.values.messages import Payload


class Session:
    """A connection of the server, with the messages that passed, as they were on the wire."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.is_over = threading.Event()
        self.got: list[bytes] = []
        self.sent: list[bytes] = []

    def receive(self) -> Any:
        """Return the next event of the client."""
        message = self.connection.recv()
        data = message.encode() if isinstance(message, str) else message
        self.got.append(data)
        return json.loads(data)

    def send(self, *events: Payload) -> None:
        """Send events as text. A str or bytes is sent as it is."""
        for event in events:
            message = event if isinstance(event, str | bytes) else json.dumps(event)
            self.sent.append(message.encode() if isinstance(message, str) else message)
            self.connection.send(message)

    def send_in_fragments(self, event: Payload) -> None:
        """Send an event as text, in fragments of ten characters."""
        message = json.dumps(event)
        self.sent.append(message.encode())
        self.connection.send(message[at : at + 10] for at in range(0, len(message), 10))

    def wait_until_left(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(ConnectionClosed):
            while True:
                self.receive()

    def reset(self) -> None:
        """Cut the connection: the client gets a TCP reset."""
        linger = struct.pack("ii", 1, 0)
        self.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.socket.close()


Script = Callable[[Session], None]


class WebsocketServer:
    """The server. `refusals` has the statuses with which the first handshakes are refused."""

    url: str
    """The URL without a path, with the scheme of HTTP."""

    def __init__(self, scripts: Sequence[Script], refusals: Sequence[int]) -> None:
        self._scripts = list(scripts)
        self._refusals = list(refusals)
        self.sessions: list[Session] = []
        self.requests: list[Any] = []

    def answer(self, connection: ServerConnection, request: Any) -> Any:
        """Return the refusal of a handshake, or None to accept it."""
        self.requests.append(request)
        if self._refusals:
            return connection.respond(HTTPStatus(self._refusals.pop(0)), "no\n")
        return None

    def play(self, connection: ServerConnection) -> None:
        """Play the next script."""
        session = Session(connection)
        self.sessions.append(session)
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        with suppress(ConnectionClosed):
            script(session)
        session.is_over.set()


@contextmanager
def serving_scripts(*scripts: Script, refusals: Sequence[int] = ()) -> Iterator[WebsocketServer]:
    """Serve scripts until the block ends."""
    server = WebsocketServer(scripts, refusals)
    with serving_websockets(server.play, process_request=server.answer) as server.url:
        yield server


@contextmanager
def serving_websockets(answer: Callable[[ServerConnection], None], **options: Any) -> Iterator[str]:
    """Run a server that gives each websocket to `answer`, in a thread. Yield its address, with the scheme `http`."""
    if "ping_timeout" in signature(serve).parameters:  # since websockets 15: closes after 20 s without a pong
        options["ping_timeout"] = None
    with serve(answer, "127.0.0.1", 0, max_size=None, **options) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()
