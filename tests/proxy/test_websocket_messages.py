"""`MessageReader` reads what real endpoints of a websocket send, however the bytes are cut."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory, ServerPerMessageDeflateFactory
from websockets.frames import Close
from websockets.protocol import OPEN, Protocol
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from trace_recorder.proxy.websocket_messages import MAX_MESSAGE_BYTES, MessageReader, NoMessagesError
from trace_recorder.storage.websocket_frames import Direction

TEXTS = (b"", b"{}", "é".encode() * 40, b'{"type":"response.create"}' * 400, b"x" * 70_000, b"not UTF-8: \xff")
DIRECTIONS: Sequence[Direction] = ("sent", "received")
COMPRESSED = (
    ServerPerMessageDeflateFactory(),
    ServerPerMessageDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True),
    ServerPerMessageDeflateFactory(server_max_window_bits=9, client_max_window_bits=10),
)


def connected(compression: ServerPerMessageDeflateFactory | None) -> tuple[dict[Direction, Protocol], str | None]:
    """Return both sides of a websocket after its handshake, and the extensions that the server accepted."""
    client = ClientProtocol(parse_uri("ws://h/"), extensions=[ClientPerMessageDeflateFactory()])
    server = ServerProtocol(extensions=[compression] if compression else None)
    client.send_request(client.connect())
    server.receive_data(b"".join(client.data_to_send()))
    [request] = server.events_received()
    response = server.accept(request)
    server.send_response(response)
    client.receive_data(b"".join(server.data_to_send()))
    assert client.state is OPEN
    client.events_received()
    return {"sent": client, "received": server}, response.headers.get("Sec-WebSocket-Extensions")


def written(sender: Protocol) -> bytes:
    """Let a side send all texts, bytes, a text in fragments with a ping between them, and a closing frame."""
    for text in TEXTS:
        sender.send_text(text)
    sender.send_binary(b"\x00\xff" * 500)
    sender.send_text(b"in ", fin=False)
    sender.send_ping(b"are you there?")
    sender.send_continuation("thrée ".encode()[:4], fin=False)
    sender.send_continuation("thrée ".encode()[4:], fin=True)
    sender.send_close(4001, "enough")
    return b"".join(sender.data_to_send())


def in_pieces(data: bytes, most: int, seed: int) -> Iterable[bytes]:
    """Cut data into pieces of at most `most` bytes."""
    cuts, position = random.Random(seed), 0
    while position < len(data):
        end = position + cuts.randint(1, most)
        yield data[position:end]
        position = end


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("compression", [None, *COMPRESSED])
@pytest.mark.parametrize("most", [1, 3, 1000, 1 << 20])
def test_messages_are_read_at_every_cut(
    direction: Direction, compression: ServerPerMessageDeflateFactory | None, most: int
) -> None:
    """Texts, bytes, fragments and the closing frame are read with and without compression, in pieces of any size."""
    sides, extensions = connected(compression)
    assert (compression is None) == (extensions is None)
    reader = MessageReader(direction, extensions)
    messages = [message for piece in in_pieces(written(sides[direction]), most, 7) for message in reader.read(piece)]
    assert messages == [*TEXTS, b"\x00\xff" * 500, "in thrée ".encode()]
    assert reader.close == Close(4001, "enough")


def test_what_is_no_websocket_cannot_be_read() -> None:
    """Bytes of another protocol, a message that is too long, and an unknown extension are errors that say so."""
    with pytest.raises(NoMessagesError, match="ProtocolError"):
        [*MessageReader("received", None).read(b"HTTP/1.1 200 OK\r\n" * 10)]
    with pytest.raises(NoMessagesError, match="PayloadTooBig"):
        [*MessageReader("received", None).read(b"\x81\x7f" + (MAX_MESSAGE_BYTES + 1).to_bytes(8, "big"))]
    for unknown in ("x-other", "permessage-deflate; server_max_window_bits=99", "permessage-deflate, x-other", "=,;"):
        with pytest.raises(NoMessagesError, match="not known"):
            MessageReader("received", unknown)


def test_a_compressed_bomb_is_not_unpacked() -> None:
    """A small message that decompresses to more than the limit is an error, and takes no memory."""
    sides, extensions = connected(COMPRESSED[0])
    sides["received"].send_text(b"a" * (MAX_MESSAGE_BYTES + 1))
    data = b"".join(sides["received"].data_to_send())
    assert len(data) < MAX_MESSAGE_BYTES // 500
    with pytest.raises(NoMessagesError, match="PayloadTooBig"):
        [*MessageReader("received", extensions).read(data)]


def test_pings_leave_nothing_in_memory() -> None:
    """The reader keeps no answers to pings, which are of no use to it."""
    sides, _ = connected(None)
    sides["received"].send_ping(b"p" * 100)
    ping, reader = b"".join(sides["received"].data_to_send()), MessageReader("received", None)
    for _ in range(1000):
        assert [*reader.read(ping)] == []
    assert (reader.protocol.data_to_send(), reader.protocol.events_received()) == ([], [])
