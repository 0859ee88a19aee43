"""Callers of a model by each HTTP library other than httpx, and the outcome for such a caller, in every detail.

An environment that tests aiohttp does not test the other libraries again.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tests.isolation.outcomes import in_all

Payload = Any
Heard = Callable[[Payload], None]
ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
TIMEOUT_SECONDS = 60.0
IMPATIENT_SECONDS = 0.3
"""How many seconds a caller waits who is meant to give up."""


@dataclass
class Outcome:
    """A caller's result: each piece with its type, and the exception."""

    got: list[Payload] = field(default_factory=list)
    raised: Payload = None

    def hear(self, piece: Payload) -> None:
        """Add a piece to the outcome."""
        self.got.append((type(piece).__name__, piece))

    def joined(self) -> Outcome:
        """Return the outcome with all bytes as one piece, because the network decides where pieces end."""
        others = [piece for piece in self.got if piece[0] != "bytes"]
        return Outcome([*others, b"".join(piece for kind, piece in self.got if kind == "bytes")], self.raised)


class Library:
    """An HTTP library: it makes clients, and calls a model in each way."""

    name = ""

    def client(self) -> Payload:
        """Return a new client, which the caller closes."""
        raise NotImplementedError

    def close(self, client: Payload) -> None:
        """Close a client."""
        client.close()

    def ask(self, client: Payload, url: str, way: str, hear: Heard) -> None:
        """Call a model in the given way, and return the outcome."""
        raise NotImplementedError

    def post(self, client: Payload, url: str, body: bytes) -> bytes:
        """Post a body, and return the body of the answer."""
        raise NotImplementedError

    def outcome(self, url: str, way: str, bind: Callable[[Payload], object] = lambda _: None) -> Outcome:
        """Return the caller's outcome with a client that was bound."""
        outcome = Outcome()

        def work() -> None:
            client = self.client()
            try:
                bind(client)
                self.ask(client, url, way, outcome.hear)
            except Exception as error:  # noqa: BLE001 - any exception that the caller gets is compared
                outcome.raised = [(kind, re.sub(r"port=\d+", "port", text)) for kind, text, *_ in in_all(error)]
            finally:
                self.close(client)

        work()
        gc.collect()
        return outcome


class Requests(Library):
    """Calls by `requests`, whose client is a session."""

    name = "requests"

    def client(self) -> Payload:
        return import_module("requests").Session()

    def ask(self, client: Payload, url: str, way: str, hear: Heard) -> None:
        response = client.post(url, json=body_of(way), stream=way not in WHOLE, timeout=timeout_of(way))
        hear(response.status_code)
        hear(dict(response.headers).get("Content-Type"))
        hear(isinstance(response.raw, import_module("urllib3").HTTPResponse))
        match way:
            case "lines":
                for line in response.iter_lines(chunk_size=1):
                    hear(line)
            case "pieces":
                for piece in response.iter_content(None):
                    hear(piece)
            case "closed":
                hear(next(response.iter_lines(chunk_size=1)))
                response.close()
            case "left":
                hear(next(response.iter_lines(chunk_size=1)))
            case _:
                hear(response.content)

    def post(self, client: Payload, url: str, body: bytes) -> bytes:
        response = client.post(url, data=body, headers={"content-type": "application/json"}, stream=True)
        return b"".join(response.iter_content(None))


class Urllib3(Library):
    """Calls by urllib3, whose client is a pool manager."""

    name = "urllib3"

    def client(self) -> Payload:
        library = import_module("urllib3")
        return library.PoolManager(retries=False)

    def close(self, client: Payload) -> None:
        client.clear()

    def ask(self, client: Payload, url: str, way: str, hear: Heard) -> None:
        sent = json.dumps(body_of(way)).encode()
        headers = {"content-type": "application/json", "accept-encoding": "gzip"}
        more = {"preload_content": way in WHOLE, "timeout": timeout_of(way)}
        response = client.request("POST", url, body=sent, headers=headers, **more)
        hear(response.status)
        hear(response.headers.get("Content-Type"))
        hear(isinstance(response, import_module("urllib3").HTTPResponse))
        match way:
            case "lines":
                for line in response:
                    hear(line)
            case "pieces":
                for piece in response.stream(7):
                    hear(piece)
            case "closed":
                hear(next(response.stream(4096)))
                response.close()
            case "left":
                hear(next(response.stream(4096)))
            case "read":
                while piece := response.read(7):
                    hear(piece)
            case _:
                hear(response.data)

    def post(self, client: Payload, url: str, body: bytes) -> bytes:
        headers = {"content-type": "application/json"}
        return b"".join(client.request("POST", url, body=body, headers=headers, preload_content=False).stream())


class Aiohttp(Library):
    """Calls by aiohttp, whose client is a session in its own event loop."""

    name = "aiohttp"

    def client(self) -> Payload:
        library = import_module("aiohttp")
        runner = asyncio.Runner()

        async def make() -> Payload:
            return library.ClientSession()

        session = runner.run(make())
        self.runner = runner
        return session

    def close(self, client: Payload) -> None:
        self.runner.run(client.close())
        self.runner.close()

    def ask(self, client: Payload, url: str, way: str, hear: Heard) -> None:
        self.runner.run(self._ask(client, url, way, hear))

    async def _ask(self, client: Payload, url: str, way: str, hear: Heard) -> None:
        timeout = import_module("aiohttp").ClientTimeout(sock_read=timeout_of(way))
        response = await client.post(url, json=body_of(way), timeout=timeout)
        hear(response.status)
        hear(response.headers.get("Content-Type"))
        hear(isinstance(response.content, import_module("aiohttp").StreamReader))
        match way:
            case "lines":
                async for line in response.content:
                    hear(line)
            case "pieces":
                async for piece in response.content.iter_chunked(7):
                    hear(piece)
            case "closed":
                hear(await response.content.readline())
                response.close()
            case "left":
                hear(await response.content.readline())
            case "read":
                while piece := await response.content.read(7):
                    hear(piece)
            case _:
                hear(await response.read())

    def post(self, client: Payload, url: str, body: bytes) -> bytes:
        async def work() -> bytes:
            async with client.post(url, data=body, headers={"content-type": "application/json"}) as response:
                return b"".join([piece async for piece in response.content.iter_any()])

        return self.runner.run(work())


def body_of(way: str) -> Payload:
    """Return the body of a request."""
    return ASK if way in WHOLE else {**ASK, "stream": True}


def timeout_of(way: str) -> float:
    """Return how many seconds a caller waits for the next bytes."""
    return IMPATIENT_SECONDS if way == "impatient" else TIMEOUT_SECONDS


KINDS: tuple[type[Library], ...] = (Aiohttp,) if find_spec("aiohttp") else (Requests, Urllib3)
LIBRARIES: dict[str, type[Library]] = {kind.name: kind for kind in KINDS}
WHOLE = ("whole", "impatient")
"""Ways to ask for a whole answer. An impatient caller gives up soon."""
WAYS = ("whole", "lines", "pieces", "read", "closed", "left")
"""A whole answer; a stream that is read by lines, by pieces, by single reads, closed by the caller, or left."""
