"""A local server that answers as a provider did: `/x/<number>/…` gets the response of that exchange.

Each response has the exchange's number as its request id, and is the same each time. Each request is kept under that
number, with headers and body unchanged. `seed` makes the server send bodies in pieces that are cut at random places,
also within code points. `compress` sends bodies as gzip.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from tests.provider import Answer, Request, serving
from tests.wire.corpus import Exchange

REQUEST_ID = "x-request-id"


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server got it: its headers in order, without the host, and the bytes of its body."""

    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass
class ReplayServer:
    """A server with the responses of some exchanges.

    `received` has the received requests by the number of the exchange.
    """

    exchanges: dict[int, Exchange]
    seed: int | None = None
    compress: bool = False
    received: dict[int, list[Received]] = field(default_factory=dict)
    url: str = ""

    def address(self, exchange: Exchange) -> str:
        """Return the URL below which the exchange's own path leads to its response."""
        return f"{self.url}/x/{exchange.number}"

    def answer_to(self, request: Request) -> Answer:
        """Keep a request, and return the response that its exchange had."""
        number = int(request.path.split("/")[2])
        headers = tuple(pair for pair in request.headers.items() if pair[0] != "host")
        self.received.setdefault(number, []).append(Received(headers, request.body))
        exchange = self.exchanges[number]
        own = {"content-type": exchange.media_type, REQUEST_ID: str(number)}
        body = exchange.response_text.encode()
        if self.compress:
            own["content-encoding"] = "gzip"
            body = gzip.compress(body, compresslevel=1, mtime=0)
        if self.seed is None:
            return Answer([body], exchange.status, {**own, "content-length": str(len(body))})
        return Answer(pieces(body, random.Random(f"{self.seed}/{number}")), exchange.status, own)


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """Cut `data` at up to 40 random places, and within up to 8 code points beyond ASCII."""
    inside = [at for at in range(1, len(data)) if data[at] & 0xC0 == 0x80]
    places = {chance.randrange(1, len(data)) for _ in range(chance.randint(1, 40))} if len(data) > 1 else set()
    places.update(chance.sample(inside, min(8, len(inside))))
    bounds = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if start < end]


@contextmanager
def serve(exchanges: Sequence[Exchange], seed: int | None = None, compress: bool = False) -> Iterator[ReplayServer]:
    """Run a server of these exchanges during a block."""
    replaying = ReplayServer({exchange.number: exchange for exchange in exchanges}, seed, compress)
    with serving(replaying.answer_to) as server:
        replaying.url = server.url
        yield replaying
