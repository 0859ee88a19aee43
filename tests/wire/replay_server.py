"""A local server that answers as a provider once did: `/x/<number>/…` gets the response of that exchange.

It speaks HTTP/1.1 with keep-alive, answers alike each time (no date), with the exchange's number for a request id, and
keeps each request, headers and body as they came, under that number. A `seed` makes it write bodies in pieces cut
at random places, within code points too; `compress` sends them as gzip. What a client makes of it is not its business.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from itertools import pairwise

from tests.local_server import LocalServer, running
from tests.wire.corpus import Exchange

REQUEST_ID = "x-request-id"


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came: its headers in their order, but for the host, and the bytes of its body."""

    headers: tuple[tuple[str, str], ...]
    body: bytes


class ReplayServer(LocalServer):
    """Serve `exchanges` on a free port of this machine; `received` has the requests that came, by number."""

    def __init__(self, exchanges: Sequence[Exchange], seed: int | None = None, compress: bool = False) -> None:
        super().__init__(_Handler)
        self.exchanges = {exchange.number: exchange for exchange in exchanges}
        self.seed = seed
        self.compress = compress
        self.received: dict[int, list[Received]] = {}

    def address(self, exchange: Exchange) -> str:
        """The address under which the exchange's own path, appended, leads to its response."""
        return f"{self.url}/x/{exchange.number}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: ReplayServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        number = int(self.path.split("/")[2])
        headers = tuple((name.lower(), value) for name, value in self.headers.items() if name.lower() != "host")
        self.server.received.setdefault(number, []).append(Received(headers, body))
        exchange = self.server.exchanges[number]
        data = exchange.response_text.encode()
        self.send_response_only(exchange.status)
        self.send_header("content-type", exchange.media_type)
        self.send_header(REQUEST_ID, str(number))
        if self.server.compress:
            data = gzip.compress(data, compresslevel=1, mtime=0)
            self.send_header("content-encoding", "gzip")
        if self.server.seed is None:
            self._send_whole(data)
        else:
            self._send_pieces(pieces(data, random.Random(f"{self.server.seed}/{number}")))

    def _send_whole(self, data: bytes) -> None:
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_pieces(self, parts: list[bytes]) -> None:
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """Cut `data` at up to 40 random places, and within up to 8 code points where it has any beyond ASCII."""
    inside = [at for at in range(1, len(data)) if data[at] & 0xC0 == 0x80]
    places = {chance.randrange(1, len(data)) for _ in range(chance.randint(1, 40))} if len(data) > 1 else set()
    places.update(chance.sample(inside, min(8, len(inside))))
    bounds = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if start < end]


@contextmanager
def serve(exchanges: Sequence[Exchange], seed: int | None = None, compress: bool = False) -> Iterator[ReplayServer]:
    """Run a server in threads of its own for as long as the block lasts."""
    server = ReplayServer(exchanges, seed, compress)
    with running(server):
        yield server
