"""The recording transports: one pair for httpx, one for httpx2, made of the same few lines.

A transport hands the request on, and the response with its stream wrapped; types, chunks, timing and exceptions
stay those of the transport inside. Neither library is imported before a client of it is met.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import ref

from trace_recorder.capture.exchange import Exchange, Sent
from trace_recorder.conversation import Payload
from trace_recorder.guard import Guard
from trace_recorder.providers.endpoints import Endpoint, endpoint_of
from trace_recorder.run import Run

guard = Guard()
"""For what goes wrong before it is known to which run a call belongs."""


class Target(Protocol):
    """Who is told of calls: a recorder, or whichever one the context names."""

    def open_run(self) -> Run | None:
        """The run that a call made now belongs to; None where it goes unrecorded."""

    def is_running(self) -> bool:
        """Whether a run is open."""

    def context(self) -> dict[str, Payload]:
        """Of which agent and step a call made now is."""


@dataclass(slots=True)
class Binding:
    """What a recording transport is bound to: whom it tells, who serves the calls, and the client that was wrapped."""

    target: Target
    provider: str | None
    client: ref[object] | None = None


def begin(binding: Binding, request: Any) -> Exchange | None:
    """Write a request before it is sent; None for other traffic, and where nothing is to be recorded."""
    endpoint: Endpoint | None = None
    run: Run | None = None
    with guard("find the run of a call"):
        endpoint = endpoint_of(request.method, request.url.host, request.url.path, request.url.port)
        run = binding.target.open_run() if endpoint else None
    if run is None or endpoint is None:
        return None
    with run.guard("record a request"):
        endpoint = replace(endpoint, provider=binding.provider or endpoint.provider)
        exchange = Exchange(run, Sent(endpoint, request.method, str(request.url), request.headers.raw, request.content))
        exchange.begin(binding.target.context())
        return exchange
    return None


def listen(response: Any, exchange: Exchange, body: type) -> None:
    """Have the exchange hear the response; one that a mock transport made whole is there already, decoded."""
    exchange.answered(response.status_code, response.headers.raw)
    if response.is_stream_consumed:
        exchange.whole(response.content)
    else:
        response.stream = body(response.stream, exchange)


class SyncBody:
    """The stream of a response, chunk by chunk as it comes, with the recording listening in."""

    def __init__(self, stream: Any, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._stream:
                self._exchange.chunk(chunk)
                yield chunk
        except BaseException as error:
            self._exchange.broken(error)
            raise
        self._exchange.ended()

    def close(self) -> None:
        """Close the stream inside, and record what had come."""
        try:
            self._stream.close()
        finally:
            self._exchange.closed("the caller closed it")

    def __del__(self) -> None:
        self._exchange.closed("it was abandoned")


class AsyncBody:
    """The same for an async response."""

    def __init__(self, stream: Any, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._exchange.chunk(chunk)
                yield chunk
        except BaseException as error:
            self._exchange.broken(error)
            raise
        self._exchange.ended()

    async def aclose(self) -> None:
        """Close the stream inside, and record what had come."""
        try:
            await self._stream.aclose()
        finally:
            self._exchange.closed("the caller closed it")

    def __del__(self) -> None:
        self._exchange.closed("it was abandoned")


class Recording:
    """A transport that records what passes through it to `inner`; whatever else is asked of it, `inner` answers."""

    body: type

    def __init__(self, inner: Any, binding: Binding) -> None:
        self.inner = inner
        self.binding = binding

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # asked of a copy that is still empty: there is nobody to pass the question on to
            raise AttributeError(name)
        return getattr(self.inner, name)


class SyncRecording(Recording):
    """The transport of a sync client."""

    def handle_request(self, request: Any) -> Any:
        """Send one request."""
        exchange = begin(self.binding, request)
        if exchange is None:
            return self.inner.handle_request(request)
        try:
            response = self.inner.handle_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        listen(response, exchange, self.body)
        return response

    def close(self) -> None:
        """Close the transport inside."""
        self.inner.close()

    def __enter__(self) -> Self:
        self.inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.inner.__exit__(kind, error, traceback)


class AsyncRecording(Recording):
    """The same for an async client."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request."""
        exchange = begin(self.binding, request)
        if exchange is None:
            return await self.inner.handle_async_request(request)
        try:
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        listen(response, exchange, self.body)
        return response

    async def aclose(self) -> None:
        """Close the transport inside."""
        await self.inner.aclose()

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.inner.__aexit__(kind, error, traceback)


@cache
def recording_class(library: str, *, asynchronous: bool) -> type:
    """The recording transport for a library ("httpx" or "httpx2"), a subclass of its own base class."""
    module = import_module(library)
    recording, body = (AsyncRecording, AsyncBody) if asynchronous else (SyncRecording, SyncBody)
    transport_base = module.AsyncBaseTransport if asynchronous else module.BaseTransport
    stream_base = module.AsyncByteStream if asynchronous else module.SyncByteStream
    body_class = type(body.__name__, (body, stream_base), {})
    return type("RecordingTransport", (recording, transport_base), {"body": body_class})
