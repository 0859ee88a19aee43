"""Reads the messages of a websocket from the bytes that pass in one direction (RFC 6455, and RFC 7692 for deflate).

The bytes themselves pass unchanged, so frames, pings, compression and closing codes are as without the proxy.
"""

from __future__ import annotations

from collections.abc import Iterator

from websockets.exceptions import WebSocketException
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Close, Frame, Opcode
from websockets.headers import parse_extension
from websockets.protocol import OPEN, Protocol, Side

from trace_recorder.capture.websocket_clients import Fragments
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.websocket_frames import Direction

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer message ends the reading of its direction."""
_DEFLATE = "permessage-deflate"
_READERS = {"sent": Side.SERVER, "received": Side.CLIENT}
_SENDERS = {"sent": "client", "received": "server"}
"""Which side reads the messages of a direction, and the beginning of the names of its sender's parameters."""


class NoMessagesError(Exception):
    """The bytes are not those of a websocket, or a message is too long. The exception says which."""


class MessageReader:
    """The messages of one direction.

    `extensions` is the header with the extensions that the server accepted. Raises NoMessagesError if one is not known.
    """

    def __init__(self, direction: Direction, extensions: str | None) -> None:
        self.protocol = Protocol(_READERS[direction], state=OPEN, max_size=MAX_MESSAGE_BYTES)
        self.protocol.extensions = _decoders(direction, extensions or "")
        self._fragments = Fragments()
        self.close: Close | None = None
        """The code and the reason with which this direction was closed, or None."""

    def read(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes, and yield the messages that they complete. Raises NoMessagesError."""
        protocol = self.protocol
        protocol.receive_data(data)
        protocol.data_to_send()  # the answers to pings, which the other side gives itself
        for frame in protocol.events_received():
            if not isinstance(frame, Frame):
                continue
            if frame.opcode is Opcode.CLOSE and frame.data:
                self.close = Close.parse(frame.data)
            message = self._fragments.add(frame)
            if message is not None:
                yield message
        if protocol.parser_exc is not None:
            raise NoMessagesError(f"{type(protocol.parser_exc).__name__}: {protocol.parser_exc}")


def _decoders(direction: Direction, extensions: str) -> list[Extension]:
    """Return the decoder of compressed messages, if the server accepted compression."""
    if not extensions.strip():
        return []
    try:
        [(name, parameters)] = parse_extension(extensions)
        if name != _DEFLATE:
            raise ValueError(name)
        sender, stated = _SENDERS[direction], dict(parameters)
        bits = int(stated.get(f"{sender}_max_window_bits") or 15)
        forgets = f"{sender}_no_context_takeover" in stated
        return [PerMessageDeflate(forgets, True, bits, 15)]  # noqa: FBT003 - nothing is encoded here
    except ours(ValueError, AssertionError, WebSocketException) as error:
        raise NoMessagesError(f"the extension {extensions!r} of the websocket is not known") from error
