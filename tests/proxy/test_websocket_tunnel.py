"""A websocket through the proxy: every byte in both directions, the handshake and each kind of end as without it."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection

from tests.proxy.running import RunningProxy, proxying
from tests.websocket_provider import serving_websockets
from trace_recorder.proxy.websocket_tunnel import UPGRADE, Tunnel

HEAD_END = b"\r\n\r\n"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
SECONDS = 60.0
"""No socket of these tests waits longer, unless something hangs."""
ACCEPTED = (
    b"HTTP/1.1 101 Of Course\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nX-Own: a  b\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSet-Cookie: one=1\r\nSet-Cookie: two=2\r\n\r\n"
)


@contextmanager
def listening(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """Run a server that gives each connection to `answer`, with the head of its request. Yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(SECONDS)
                answer(connection, read_head(connection))

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(SECONDS)


def read_head(connection: socket.socket) -> bytes:
    """Read bytes up to the end of a head."""
    data = b""
    while HEAD_END not in data:
        data += connection.recv(1)
    return data


def read_all(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes, or up to the end of the connection."""
    data = bytearray()
    while len(data) < size and (piece := connection.recv(65536)):
        data += piece
    return bytes(data)


def opened(proxy: RunningProxy, path: str = "/own/v1/realtime?model=m") -> socket.socket:
    """Send the handshake to the proxy."""
    host, _, port = proxy.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), SECONDS)
    head = [
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nX-First: 1\r\nConnection: keep-alive, Upgrade\r\n",
        f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n",
        "Sec-WebSocket-Protocol: realtime, other\r\n",
        "Sec-WebSocket-Extensions: x-own; a=1\r\nAuthorization: Bearer k\r\n\r\n",
    ]
    connection.sendall("".join(head).encode())
    return connection


def send_in_pieces(connection: socket.socket, data: bytes, seed: int) -> None:
    """Send data in pieces of any size."""
    cuts, position = random.Random(seed), 0
    while position < len(data):
        end = position + cuts.choice((1, 2, 100, 5000, 70_000))
        connection.sendall(data[position:end])
        position = end


def test_every_byte_passes(tmp_path: Path) -> None:
    """Both heads and all bytes arrive as they were sent, whether or not they are frames, at the same time."""
    heads: list[bytes] = []
    sent, received = random.Random(1).randbytes(600_000), random.Random(2).randbytes(700_000)
    arrived: list[bytes] = []

    def answer(connection: socket.socket, head: bytes) -> None:
        heads.append(head)
        connection.sendall(ACCEPTED)
        sender = threading.Thread(target=send_in_pieces, args=(connection, received, 3))
        sender.start()
        arrived.append(read_all(connection, len(sent)))
        sender.join(SECONDS)

    with listening(answer) as url, proxying(tmp_path, {"own": url}) as proxy, closing(opened(proxy)) as client:
        assert read_head(client) == ACCEPTED
        sender = threading.Thread(target=send_in_pieces, args=(client, sent, 4))
        sender.start()
        assert read_all(client, len(received)) == received
        sender.join(SECONDS)
        assert client.recv(1) == b""  # the server has closed the connection

    assert arrived == [sent]
    first, *lines = heads[0].decode().removesuffix("\r\n\r\n").split("\r\n")
    assert first == "GET /v1/realtime?model=m HTTP/1.1"
    assert {line.partition(":")[0].lower(): line.partition(": ")[2] for line in lines} == {
        "host": url.removeprefix("http://"),
        "x-first": "1",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": KEY,
        "sec-websocket-protocol": "realtime, other",
        "sec-websocket-extensions": "x-own; a=1",
        "authorization": "Bearer k",
    }


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 4\r\n\r\nhttp", b"http"),
        (b"HTTP/1.1 401 No\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", b"{}"),
        (b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
    ],
)
def test_a_refused_handshake_passes(tmp_path: Path, answer: bytes, body: bytes) -> None:
    """The client gets the status, the headers and the body with which the server refuses a websocket."""
    heads: list[bytes] = []

    def refuse(connection: socket.socket, head: bytes) -> None:
        heads.append(head)
        connection.sendall(answer)

    with listening(refuse) as url, proxying(tmp_path, {"own": url}) as proxy, closing(opened(proxy)) as client:
        head, rest = read_head(client), read_all(client, 1000)
    assert head.split(b"\r\n")[0] == answer.split(b"\r\n")[0]
    assert rest == body
    for line in answer.partition(HEAD_END)[0].split(b"\r\n")[1:]:
        assert (line in head) is not line.startswith(b"Transfer-Encoding")
    assert len(heads) == 1


def test_a_refusal_that_breaks_is_broken(tmp_path: Path) -> None:
    """If the server breaks off its refusal, the client gets what came, and nothing that the server did not send."""

    def refuse(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad\r\nContent-Length: 1000\r\n\r\n{")

    with listening(refuse) as url, proxying(tmp_path, {"own": url}) as proxy, closing(opened(proxy)) as client:
        head, rest = read_head(client), read_all(client, 1000)

    assert (head.split(b"\r\n")[0], rest) == (b"HTTP/1.1 400 Bad", b"{")


class _Recording:
    """What records a websocket whose client goes while the server's answer is recorded."""

    def __init__(self, client: socket.socket, writer: asyncio.StreamWriter) -> None:
        self.ends: list[str] = []
        self._client = client
        self._writer = writer

    async def opened(self, *_: object) -> None:
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._client.close()
        while not self._writer.transport.is_closing():
            await asyncio.sleep(0.001)

    async def message(self, *_: object) -> None:
        raise AssertionError("no message was sent")

    def unreadable(self, why: str) -> None:
        raise AssertionError(why)

    def ended(self, _: object, why: str) -> None:
        self.ends.append(why)


def test_a_websocket_whose_client_goes_before_the_answer_ends(tmp_path: Path) -> None:
    """The recording is told of the end. Otherwise the session of the websocket would never be idle."""

    async def run(url: str) -> list[str]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            recording = _Recording(listener.accept()[0], writer)
        async with httpx2.AsyncClient() as client:
            with pytest.raises(ConnectionError):
                await Tunnel(reader, writer, recording).run(client, client.build_request("GET", url, headers=UPGRADE))
        return recording.ends

    with listening(lambda connection, _: connection.sendall(ACCEPTED)) as url:
        [why] = asyncio.run(run(f"{url}/v1/realtime"))
    assert why.startswith("the connection to the client broke")


def test_what_the_proxy_refuses(tmp_path: Path) -> None:
    """An unknown upstream, a page of another origin and a server that is not there get an error, not a websocket."""
    with proxying(tmp_path, {"own": "http://127.0.0.1:1"}) as proxy:
        address = proxy.url.replace("http:", "ws:")
        for path, origin, status in (
            ("/other/x", None, 404),
            ("/own/x", "http://a.example", 403),
            ("/own/x", None, 502),
        ):
            with pytest.raises(InvalidStatus) as refused, connect(address + path, origin=origin):  # type: ignore[arg-type]
                pass
            assert refused.value.response.status_code == status
            assert b"trace_recorder_proxy" in bytes(refused.value.response.body or b"")


def through(proxy: RunningProxy) -> ClientConnection:
    """Connect to the websocket server through the proxy."""
    address = proxy.url.replace("http:", "ws:") + "/own/v1/other"
    return connect(address, subprotocols=["realtime"], max_size=None, open_timeout=SECONDS)  # type: ignore[list-item]


def test_what_a_client_sees(tmp_path: Path) -> None:
    """Subprotocol, compression, fragments, pings, a large message, and the server's closing code are as without it."""
    fragments: list[list[object]] = []

    def answer(websocket: ServerConnection) -> None:
        fragments.append([*websocket.recv_streaming()])
        websocket.send(websocket.recv())
        websocket.close(4321, "that is all")

    with (
        serving_websockets(answer, subprotocols=["realtime"]) as url,
        proxying(tmp_path, {"own": url}) as proxy,
        through(proxy) as client,
    ):
        assert client.subprotocol == "realtime"
        assert [type(each).__name__ for each in client.protocol.extensions] == ["PerMessageDeflate"]
        client.send(iter(["one ", "two ", "thrée"]))
        assert client.ping(b"still there?").wait(SECONDS)
        client.send("x" * 3_000_000)
        assert client.recv(SECONDS) == "x" * 3_000_000
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(SECONDS)
    assert fragments == [["one ", "two ", "thrée", ""]]
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4321, "that is all")


def test_the_server_sees_how_the_client_ends(tmp_path: Path) -> None:
    """The client's closing code arrives, and so does the end of a client that just goes."""
    ends: list[object] = []

    def answer(websocket: ServerConnection) -> None:
        with pytest.raises(ConnectionClosed) as closed:
            websocket.recv(SECONDS)
        ends.append(closed.value.rcvd and (closed.value.rcvd.code, closed.value.rcvd.reason))

    with serving_websockets(answer, subprotocols=["realtime"]) as url, proxying(tmp_path, {"own": url}) as proxy:
        with through(proxy) as client:
            client.close(4000, "enough")
        with through(proxy) as client:
            client.socket.shutdown(socket.SHUT_RDWR)
    assert ends == [(4000, "enough"), None]


@pytest.mark.parametrize("resets", [True, False])
def test_a_connection_that_the_server_breaks_breaks(tmp_path: Path, *, resets: bool) -> None:
    """A client gets what came before, and then a reset or the end, as the server sent it."""

    def answer(connection: socket.socket, _: bytes) -> None:
        connection.sendall(ACCEPTED + b"\x81\x02ab")
        assert connection.recv(1) == b"!"
        if resets:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with listening(answer) as url, proxying(tmp_path, {"own": url}) as proxy, closing(opened(proxy)) as client:
        assert read_head(client) == ACCEPTED
        assert read_all(client, 4) == b"\x81\x02ab"
        client.sendall(b"!")
        if resets:
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        else:
            assert client.recv(1) == b""


def test_the_proxy_ends_with_websockets_open(tmp_path: Path) -> None:
    """Open websockets end when the proxy does."""

    def answer(websocket: ServerConnection) -> None:
        with pytest.raises(ConnectionClosed):
            websocket.recv(SECONDS)

    with serving_websockets(answer, subprotocols=["realtime"]) as url, ExitStack() as connections:
        with proxying(tmp_path, {"own": url}) as proxy:
            clients = [connections.enter_context(through(proxy)) for _ in range(20)]
        for client in clients:
            with pytest.raises(ConnectionClosed):
                client.recv(SECONDS)
