"""The seam of the package `websockets`: records the connections of its sync and its asyncio client to models.

`handshake` is replaced in both classes of connections, because every way to connect passes it once for each
connection: `connect`, redirects, reconnects, an own subclass. For the address of a model, four functions of the new
connection are then replaced in the objects themselves; all other connections stay as they are:

| function | what passes there |
|---|---|
| `protocol.send_frame` | each frame that is sent, right before its bytes are made, in the order of the wire |
| `recv_messages.put` | each frame that has come, uncompressed, before the program can receive it |
| `recv_messages.close` | the end of the connection, whoever ends it |
| `send` (asyncio only) | a large message, which a thread writes first, so that the event loop can run |

So `recv`, `recv_streaming`, iteration, decoding, timeouts, cancellation, pings and closing codes are the library's own.
`put` gets a message that the program has not asked for yet, and `recv` waits for none of our work, so a cancelled
`recv` loses nothing. The functions are the same from version 13 to 17.

An SDK's client is recognised by the call that opens the connection: a function of `openai` has the client at hand. The
transport of its HTTP client tells who records it, as for its calls over HTTP.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType, ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit

from trace_recorder.capture.proxy_header import headers_for_proxy
from trace_recorder.capture.received_response import LARGE_REQUEST_BYTES
from trace_recorder.capture.replaced_methods import ReplacedMethod
from trace_recorder.capture.seam import Binding, Redirect, Url, guard, opening_websockets
from trace_recorder.capture.transport import RecordingTransport
from trace_recorder.capture.unseen_clients import unseen_clients, unseen_connection
from trace_recorder.capture.websocket_connection import SWITCHING_PROTOCOLS, WebsocketConnection, begin_websocket
from trace_recorder.capture.websocket_records import BROKEN, CLOSED_BY_CLIENT, CLOSED_BY_SERVER
from trace_recorder.dialects.endpoints import recognise_websocket
from trace_recorder.storage.journal_lines import error_text

_FIRST_CONTROL_OPCODE = 8
_CLOSED = 3
"""The value of `protocol.state` after the end of a connection."""
_OF_NETWORK = frozenset({"ssl", "server_hostname", "proxy"})
"""The parameters of `connect` that say how an address is reached."""
_DEFAULT_PORTS = {"ws": 80, "wss": 443}


class Redirecting(Protocol):
    """Who records the whole process, and the functions that may answer a connection."""

    process: Binding | None
    redirects: list[Redirect]


class Handshakes:
    """What is called instead of the functions with which the library connects."""

    def __init__(self, patch: Redirecting) -> None:
        self._patch = patch

    def replaced_methods(self, module: ModuleType) -> list[ReplacedMethod]:
        """Return the methods of a module of the library that must be replaced."""
        if hasattr(module.ClientConnection, "connection_lost"):  # the client of asyncio
            return [
                ReplacedMethod(module.ClientConnection, "handshake", self._shake_hands_async),
                ReplacedMethod(module.connect, "__init__", self._connecting),
            ]
        return [
            ReplacedMethod(module.ClientConnection, "handshake", self._shake_hands),
            ReplacedMethod(module, "connect", self._connecting_sync),
        ]

    def _binding(self) -> Binding | None:
        """Return who records the connection that the caller of the library opens."""
        http_client = getattr(sdk_client(sys._getframe(2)), "_client", None)
        transport = getattr(http_client, "_transport", None)
        if isinstance(transport, RecordingTransport):
            binding: Binding = transport.binding
            return binding
        return self._patch.process

    def _connecting(self, original: Any, connect: Any, uri: str, *arguments: Any, **keywords: Any) -> None:
        """Note that a recorded connection is being opened, because an event loop looks names up in other threads."""
        uri, keywords = self._redirected(uri, keywords)
        original(connect, uri, *arguments, **keywords)
        with guard.protect("note the address of a websocket"):
            if recognise_websocket(uri) is not None and self._binding() is not None:
                opening_websockets.add(connect)

    def _connecting_sync(self, original: Any, uri: str, *arguments: Any, **keywords: Any) -> Any:
        uri, keywords = self._redirected(uri, keywords)
        return original(uri, *arguments, **keywords)

    def _redirected(self, uri: str, keywords: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the address and the options of a connection. If a replay answers it, they have the replay's socket."""
        for redirect in [*self._patch.redirects]:
            answering = redirect(uri, sdk_client(sys._getframe(2)))
            if answering is not None:
                kept = {name: value for name, value in keywords.items() if name not in _OF_NETWORK}
                return uri.replace("wss:", "ws:", 1), {**kept, "sock": answering}
        return uri, keywords

    def _shake_hands(self, original: Any, connection: Any, *arguments: Any, **keywords: Any) -> None:
        recorded = self._begin(connection)
        if recorded is None:
            original(connection, *arguments, **keywords)
            return
        try:
            original(connection, *arguments, **keywords)
        except BaseException as error:
            recorded.refused(error)
            raise
        recorded.opened()

    async def _shake_hands_async(self, original: Any, connection: Any, *arguments: Any, **keywords: Any) -> None:
        recorded = self._begin(connection)
        if recorded is None:
            await original(connection, *arguments, **keywords)
            return
        try:
            await original(connection, *arguments, **keywords)
        except BaseException as error:
            recorded.refused(error)
            raise
        recorded.opened()

    def _begin(self, connection: Any) -> RecordedWebsocket | None:
        """Return the recording of a connection before its handshake, or None if it is not recorded."""
        url, binding = "", None
        with guard.protect("find out whether a websocket goes to a model"):
            url = _url_of(connection.protocol)
            if recognise_websocket(url) is None:
                return None
            binding = self._binding()
            if binding is None:
                parts = urlsplit(url)
                unseen = unseen_connection(parts.hostname, parts.port)
                if unseen is not None:
                    unseen_clients.note(unseen)
        if binding is None:
            return None
        headers: list[tuple[bytes, bytes]] = []
        recording = begin_websocket(binding, url, headers)
        if recording is None:
            return None
        with guard.protect("record a websocket"):
            return RecordedWebsocket(connection, recording, headers)
        return None


class RecordedWebsocket:
    """A connection of `websockets` whose frames pass the recording."""

    def __init__(self, connection: Any, recording: WebsocketConnection, headers: list[tuple[bytes, bytes]]) -> None:
        """Replace the functions of the connection. `headers` is filled with those of the handshake."""
        self._connection = connection
        self._recording = recording
        self._headers = headers
        self._outgoing, self._incoming = Fragments(), Fragments()
        self._is_open = False
        self._written: list[bytes] = []
        """The messages that a thread has written, and that were not sent yet."""
        self._order: Any = None
        protocol, assembler = connection.protocol, connection.recv_messages
        self._replaced = [
            (protocol, "send_frame", partial(self._send_frame, protocol.send_frame)),
            (protocol, "send_request", partial(self._send_request, protocol.send_request)),
            (assembler, "put", partial(self._put, assembler.put)),
            (assembler, "close", partial(self._close, assembler.close)),
        ]
        if hasattr(connection, "loop"):
            self._order = sys.modules["asyncio"].Lock()
            self._replaced.append((connection, "send", self._sending(connection.send, self._order)))
        for owner, name, function in self._replaced:
            vars(owner)[name] = function

    def opened(self) -> None:
        """Record the server's answer. The thread that receives may be the first to call this."""
        if self._is_open:
            return
        status, headers, subprotocol = SWITCHING_PROTOCOLS, [], None
        with guard.protect("read the handshake of a websocket"):
            self._read_headers()
            response, subprotocol = self._connection.response, self._connection.protocol.subprotocol
            status, headers = response.status_code, raw_headers(response.headers)
        self._recording.opened(status, headers, subprotocol)
        self._is_open = True

    def refused(self, error: BaseException) -> None:
        """Record that the handshake failed."""
        with guard.protect("record a refused websocket"):
            self._restore()
            self._read_headers()
            response = self._connection.response
            if response is None:
                self._recording.refused(error)
            else:
                self._recording.refused(error, response.status_code, raw_headers(response.headers))

    def _read_headers(self) -> None:
        request = self._connection.request
        if request is not None and not self._headers:
            self._headers += raw_headers(request.headers)

    def _restore(self) -> None:
        for owner, name, _ in self._replaced:
            vars(owner).pop(name, None)

    def _send_request(self, original: Callable[[Any], None], request: Any) -> None:
        with guard.protect("tell the proxy who records a websocket"):
            for name, value in headers_for_proxy(self._recording, Url(_url_of(self._connection.protocol))).items():
                request.headers[name] = value
        original(request)

    def _send_frame(self, original: Callable[[Any], None], frame: Any) -> None:
        message = self._outgoing.add(frame)
        if message is not None and message in self._written:
            self._written.remove(message)
        elif message is not None:
            self._recording.sent(message)
        original(frame)

    def _put(self, original: Callable[[Any], None], frame: Any) -> None:
        message = self._incoming.add(frame)
        if message is not None:
            self.opened()
            self._recording.received(message)
        original(frame)

    def _close(self, original: Callable[[], None]) -> None:
        with guard.protect("record the end of a websocket"):
            if self._connection.response is not None and self._connection.protocol.handshake_exc is None:
                self.opened()
                self._ended()
        original()

    def _ended(self) -> None:
        connection, protocol = self._connection, self._connection.protocol
        self._restore()
        received, sent, error = protocol.close_rcvd, protocol.close_sent, None
        if protocol.state == _CLOSED:
            error = protocol.close_exc
        if received is not None and (sent is None or protocol.close_rcvd_then_sent):
            self._recording.ended(CLOSED_BY_SERVER, received.code, received.reason, error)
        elif sent is not None:
            self._recording.ended(CLOSED_BY_CLIENT, sent.code, sent.reason, error)
        else:
            cause = getattr(connection, "connection_exc", None) or getattr(connection, "recv_exc", None)
            why = BROKEN if cause is None else f"{BROKEN}: {error_text(cause)}"
            self._recording.ended(why, error=error)

    def _sending(self, original: Any, order: Any) -> Any:
        """Return the method `send` of an asyncio connection. A large message is on file before it is sent.

        A thread writes such a message. Other messages wait for it, so that all are sent in the order of the calls.
        """

        async def send(message: Any, *arguments: Any, **keywords: Any) -> None:
            data, response = _large_text(message), None
            if data is not None:
                async with order:
                    response = await self._recording.sent_in_event_loop(data)
                    self._written.append(data)
            elif order.locked():
                async with order:
                    pass
            try:
                await original(message, *arguments, **keywords)
            except BaseException as error:
                if response is not None and data in self._written:
                    self._recording.not_sent(response, error)
                raise
            finally:
                if data is not None and data in self._written:
                    self._written.remove(data)

        return send


class Fragments:
    """Joins the frames of a message."""

    def __init__(self) -> None:
        self._fragments: list[bytes] = []

    def add(self, frame: Any) -> bytes | None:
        """Return the whole message if this is its last frame."""
        with guard.protect("read a frame of a websocket"):
            if frame.opcode >= _FIRST_CONTROL_OPCODE:
                return None
            data = bytes(frame.data)
            if frame.fin and not self._fragments:
                return data
            self._fragments.append(data)
            if frame.fin:
                message = b"".join(self._fragments)
                self._fragments.clear()
                return message
        return None


def _large_text(message: Any) -> bytes | None:
    """Return a message as bytes if it is so large that a thread must write it."""
    if not isinstance(message, str | bytes | bytearray | memoryview) or len(message) <= LARGE_REQUEST_BYTES:
        return None
    if isinstance(message, str):
        return message.encode("utf-8", "surrogatepass")
    return bytes(message)


def _url_of(protocol: Any) -> str:
    uri = getattr(protocol, "uri", None) or protocol.wsuri
    scheme = "wss" if uri.secure else "ws"
    host = f"[{uri.host}]" if ":" in uri.host else uri.host
    port = "" if uri.port == _DEFAULT_PORTS[scheme] else f":{uri.port}"
    return f"{scheme}://{host}{port}{uri.resource_name}"


def raw_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """Return headers of `websockets` as pairs of bytes."""
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.raw_items()
    ]


def sdk_client(frame: FrameType | None) -> object | None:
    """Return the client of the SDK that opens a connection, or None if no SDK does.

    The nearest function of `openai` has the client as its variable `client`, or it is the method of an object that has
    the client as its private attribute.
    """
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("openai."):
            members = frame.f_locals
            client: object | None = members.get("client")
            if client is not None:
                return client
            for name, value in getattr(members.get("self"), "__dict__", {}).items():
                if name.endswith("__client"):
                    found: object = value
                    return found
        frame = frame.f_back
    return None
