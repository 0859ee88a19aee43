"""The recording transports, sync and async, for httpx and httpx2. Both libraries share the same classes.

A recording transport passes each request to the transport inside it, and wraps the stream of the response. The caller
gets the same types, chunks and exceptions as from the transport inside, at the same time. Each chunk, and the end of
the body, is passed to the call's `Exchange`, which decides what to write and when. A library is imported only when one
of its clients is wrapped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from trace_recorder.capture.exchange import Exchange, begin_exchange, begin_in_event_loop, sending
from trace_recorder.capture.proxy_header import headers_for_proxy, proxy_address
from trace_recorder.capture.seam import Binding


class SyncChunks:
    """The chunks of a sync response, each recorded before the caller gets it."""

    def __init__(self, chunks: Any, exchange: Exchange) -> None:
        self._chunks = chunks
        self._exchange = exchange

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        try:
            chunk: bytes = next(self._chunks)
            if self._exchange.chunk(chunk):
                self._exchange.write_due()
        except StopIteration:
            self._exchange.ended()
            raise
        except BaseException as error:
            self._exchange.broken(error)
            raise
        return chunk

    def close(self) -> None:
        """Close the iterator inside, if it can be closed."""
        if hasattr(self._chunks, "close"):
            self._chunks.close()


class AsyncChunks:
    """The chunks of an async response, each recorded before the caller gets it.

    The HTTP library closes this object like an async generator.
    """

    def __init__(self, chunks: Any, exchange: Exchange) -> None:
        self._chunks = chunks
        self._exchange = exchange

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await anext(self._chunks)
            if self._exchange.chunk(chunk):
                await self._exchange.write_due_in_event_loop()
        except StopAsyncIteration:
            await self._exchange.ended_in_event_loop()
            raise
        except BaseException as error:
            self._exchange.broken(error)
            raise
        return chunk

    async def asend(self, _: None) -> bytes:
        """Return the next chunk."""
        return await anext(self)

    async def athrow(self, *error: Any) -> Any:
        """Throw an exception into the iterator inside."""
        return await self._chunks.athrow(*error)

    async def aclose(self) -> None:
        """Close the iterator inside, if it can be closed."""
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()


class SyncBody:
    """The body of a sync response, recorded while it is read."""

    def __init__(self, stream: Any, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        return SyncChunks(iter(self._stream), self._exchange)

    def close(self) -> None:
        """Close the stream inside, and record what has been received."""
        try:
            self._stream.close()
        finally:
            self._exchange.closed("the caller closed it")


class AsyncBody:
    """The body of an async response, recorded while it is read."""

    def __init__(self, stream: Any, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    def __aiter__(self) -> AsyncIterator[bytes]:
        return AsyncChunks(aiter(self._stream), self._exchange)

    async def aclose(self) -> None:
        """Close the stream inside, and record what has been received."""
        try:
            await self._stream.aclose()
        finally:
            self._exchange.closed("the caller closed it")


ORIGIN_EXTENSION = "trace_recorder_origin"
"""The extension of a response of httpx by which a replay marks the response.

The value names the recorded call that gave the answer.
"""


def send(transport: Any, request: Any) -> Any:
    """Send a request that is not recorded here. Return when the response has begun."""
    with sending(request, None):
        return transport.handle_request(request)


async def send_async(transport: Any, request: Any) -> Any:
    """Do the same as `send` by an async transport."""
    with sending(request, None):
        return await transport.handle_async_request(request)


@contextmanager
def _stream_passing(request: Any, passing_stream: Any) -> Iterator[None]:
    """Let a request send `passing_stream` in place of its own stream, which it has again afterwards."""
    stream = request.stream
    try:
        request.stream = passing_stream
        yield
    finally:
        request.stream = stream


_NOTHING_PASSES: AbstractContextManager[None] = nullcontext()


def record_response(response: Any, exchange: Exchange, body: type) -> None:
    """Wrap the stream of a response for recording. A response that a mock transport made is recorded at once."""
    with exchange.run.guard.protect("wrap a response"):
        origin, is_whole = response.extensions.get(ORIGIN_EXTENSION), response.is_stream_consumed
        exchange.answered(response.status_code, response.headers.raw, origin, is_decoded=is_whole)
        if is_whole:
            if exchange.chunk(response.content):
                exchange.write_due()
            exchange.ended()
        else:
            response.stream = recorded_body = body(response.stream, exchange)
            exchange.watch_body(recorded_body)
        return
    exchange.closed("it could not be recorded")


class RecordingTransport:
    """A transport that records the LLM calls that pass it.

    All other attributes are those of `inner`, the transport inside.
    """

    body: type
    plain_body: type[Iterable[bytes]]
    """The library's class of bodies that are in memory."""

    def __init__(self, inner: Any, binding: Binding) -> None:
        self.inner = inner
        self.binding = binding

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the transport inside, so that `isinstance` is true for both classes."""
        return type(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # a copy has no attributes at first, and looking up `self.inner` would recurse
            raise AttributeError(name)
        return getattr(self.inner, name)


class SyncRecordingTransport(RecordingTransport):
    """The transport of a sync client."""

    def handle_request(self, request: Any) -> Any:
        """Send one request."""
        exchange = begin_exchange(self.binding, request, self.plain_body)
        passing = _NOTHING_PASSES
        if exchange is not None and exchange.passing is not None:
            passing = _stream_passing(request, exchange.pass_through(request.stream))
        with sending(request, exchange), passing:
            if proxy_address is not None:  # tested here, because each call of a function counts
                request.headers.update(headers_for_proxy(exchange, request.url))
            response = self.inner.handle_request(request)
        if exchange is not None:
            record_response(response, exchange, self.body)
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


class AsyncRecordingTransport(RecordingTransport):
    """The transport of an async client."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request."""
        exchange = await begin_in_event_loop(self.binding, request, self.plain_body)
        passing = _NOTHING_PASSES
        if exchange is not None and exchange.passing is not None:
            passing = _stream_passing(request, exchange.pass_through_async(request.stream))
        with sending(request, exchange), passing:
            if proxy_address is not None:  # tested here, because each call of a function counts
                request.headers.update(headers_for_proxy(exchange, request.url))
            response = await self.inner.handle_async_request(request)
        if exchange is not None:
            record_response(response, exchange, self.body)
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
    """Return the recording transport for a library, "httpx" or "httpx2": a subclass of the library's base class."""
    module = import_module(library)
    recording, body = (AsyncRecordingTransport, AsyncBody) if asynchronous else (SyncRecordingTransport, SyncBody)
    transport_base = module.AsyncBaseTransport if asynchronous else module.BaseTransport
    stream_base = module.AsyncByteStream if asynchronous else module.SyncByteStream
    body_class = type(body.__name__, (body, stream_base), {})
    return type(
        "RecordingTransport", (recording, transport_base), {"body": body_class, "plain_body": module.ByteStream}
    )
