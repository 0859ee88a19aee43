"""The input of an SDK from its HTTP library: status, headers and the chunks of the body, by the number of the exchange.

Every client of the process is watched, outside of the transports that record or replay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from trace_recorder.capture.all_clients import TransportPatch


@dataclass(slots=True)
class Delivery:
    """A response as the SDK got it. `chunks` has no empty chunks."""

    status: int
    headers: dict[str, str]
    chunks: list[bytes] = field(default_factory=list)


Deliveries = dict[int, Delivery]
"""The deliveries by the number that an exchange has in its URL."""


@contextmanager
def watch() -> Iterator[Deliveries]:
    """Watch every HTTP client of the process until the block ends."""
    deliveries: Deliveries = {}

    def wrap(transport: Any, library: str, *, asynchronous: bool) -> Any:
        return _watching_class(library, asynchronous)(transport, deliveries)

    patch = TransportPatch(wrap)
    patch.install()
    try:
        yield deliveries
    finally:
        patch.remove()


class Watching:
    """A transport that notes the responses of an inner transport. `body` is the class of its streams."""

    body: type

    def __init__(self, inner: Any, found: Deliveries) -> None:
        self._inner = inner
        self._found = found

    def _watched(self, request: Any, response: Any) -> Any:
        delivery = Delivery(response.status_code, dict(response.headers))
        self._found[int(request.url.path.split("/")[2])] = delivery
        response.stream = self.body(response.stream, delivery)
        return response

    def handle_request(self, request: Any) -> Any:
        return self._watched(request, self._inner.handle_request(request))

    async def handle_async_request(self, request: Any) -> Any:
        return self._watched(request, await self._inner.handle_async_request(request))


class Body:
    """A response's stream that notes its chunks."""

    def __init__(self, inner: Any, delivery: Delivery) -> None:
        self._inner = inner
        self._delivery = delivery

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._inner:
            self._delivery.chunks += [chunk] if chunk else []
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._delivery.chunks += [chunk] if chunk else []
            yield chunk

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _watching_class(library: str, asynchronous: bool) -> type:
    module = import_module(library)
    stream = module.AsyncByteStream if asynchronous else module.SyncByteStream
    transport = module.AsyncBaseTransport if asynchronous else module.BaseTransport
    return type("Watching", (Watching, transport), {"body": type("Body", (Body, stream), {})})
