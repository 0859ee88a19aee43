"""The recording transports: one pair for httpx, one for httpx2, made of the same few lines.

A transport hands the request on, and the response with its stream wrapped; types, chunks, timing and exceptions
stay those of the transport inside. Neither library is imported before a client of it is met.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import ref

from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.exchange import Exchange
from trace_recorder.capture.waiting import aside, step_back
from trace_recorder.dialects.endpoints import Endpoint, endpoint_of
from trace_recorder.guard import Guard
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload

guard = Guard()
"""For what goes wrong before it is known to which run a call belongs."""

_request_in_progress: ContextVar[tuple[Run, Any] | None] = ContextVar(
    "trace_recorder_request_in_progress", default=None
)
"""The request that a recording transport is sending: one that others put around ours may lead to another of ours."""


class Target(Protocol):
    """Who is told of calls: a recorder, or whichever one the context names."""

    def open_run(self) -> Run | None:
        """The run that a call made now belongs to; None where it goes unrecorded. Raises only where it is strict."""

    def is_running(self) -> bool:
        """Whether a run is open."""

    def context(self) -> Mapping[str, Payload]:
        """Of which agent and step a call made now is."""


@dataclass(slots=True)
class Binding:
    """What a recording transport is bound to: whom it tells, who serves the calls, and the client that was wrapped."""

    target: Target
    provider: str | None
    client: ref[object] | None = None


def begin(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """Write a request before it is sent; None for other traffic, and where nothing is to be recorded."""
    exchange = _exchange(binding, request, plain_body)
    return exchange if exchange is not None and _written(binding, exchange) else None


async def begin_beside_a_loop(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """Do the same where an event loop waits: it does not wait for a large request."""
    exchange = _exchange(binding, request, plain_body)
    if exchange is None:
        return None
    with exchange.run.guard("record a request"):
        write = exchange.begin_aside(binding.target.context()) if exchange.is_large() else None
    if write is None:
        return exchange if _written(binding, exchange) else None
    try:
        await aside(write)
    except BaseException as error:
        exchange.call_cancelled(error)
        raise
    return exchange


def _written(binding: Binding, exchange: Exchange) -> bool:
    with exchange.run.guard("record a request"):
        exchange.begin(binding.target.context())
        return True
    return False


def _exchange(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """The recording of a request, of which nothing is written yet."""
    endpoint: Endpoint | None = None
    with guard("find out whether a request is an LLM call"):
        endpoint = endpoint_of(request.method, request.url.host, request.url.path, request.url.port)
    run = binding.target.open_run() if endpoint else None
    if run is None or endpoint is None or _request_in_progress.get() == (run, request):
        return None
    with run.guard("record a request"):
        if binding.provider:
            endpoint = replace(endpoint, provider=binding.provider)
        body = _content(request, run, plain_body)
        return Exchange(run, SentRequest(endpoint, request.method, str(request.url), request.headers.raw, body))
    return None


def _content(request: Any, run: Run, plain_body: type[Iterable[bytes]]) -> bytes:
    """The body of a request; of one that is only made while it is sent there is none yet."""
    if isinstance(request.stream, plain_body):
        return b"".join(request.stream)
    with run.guard("record the body of a request"):
        content: bytes = request.content
        return content
    return b""


def record_response(response: Any, exchange: Exchange, body: type) -> None:
    """Have the exchange hear the response; one that a mock transport made whole is there already, decoded."""
    with exchange.run.guard("listen to a response"):
        exchange.answered(response.status_code, response.headers.raw)
        if response.is_stream_consumed:
            exchange.whole(response.content)
        else:
            response.stream = listening = body(response.stream, exchange)
            exchange.watch_body(listening)
        return
    exchange.closed("it could not be listened to")


class SyncChunks:
    """The chunks of a response as they come, with the recording listening in; else it is the iterator inside."""

    def __init__(self, chunks: Any, exchange: Exchange) -> None:
        self._chunks = chunks
        self._exchange = exchange

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        try:
            chunk: bytes = next(self._chunks)
            self._exchange.chunk(chunk)
            self._exchange.catch_up()
        except StopIteration:
            self._exchange.ended()
            raise
        except BaseException as error:
            self._exchange.broken(error)
            raise
        return chunk

    def close(self) -> None:
        """Close the iterator inside, if it is one that can be closed."""
        if hasattr(self._chunks, "close"):
            self._chunks.close()


class AsyncChunks:
    """The same for an async response. To the HTTP library it is a generator, to be closed as the one inside is."""

    def __init__(self, chunks: Any, exchange: Exchange) -> None:
        self._chunks = chunks
        self._exchange = exchange

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await anext(self._chunks)
            self._exchange.chunk(chunk)
            while self._exchange.is_behind():
                await step_back()
                self._exchange.write_on()
        except StopAsyncIteration:
            self._exchange.ended_beside_a_loop()
            raise
        except BaseException as error:
            self._exchange.broken(error)
            raise
        return chunk

    async def asend(self, _: None) -> bytes:
        """Give the next chunk."""
        return await anext(self)

    async def athrow(self, *error: Any) -> Any:
        """Throw into the iterator inside."""
        return await self._chunks.athrow(*error)

    async def aclose(self) -> None:
        """Close the iterator inside, if it is one that can be closed."""
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()


class SyncBody:
    """The stream of a response, with the recording listening in."""

    def __init__(self, stream: Any, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        return SyncChunks(iter(self._stream), self._exchange)

    def close(self) -> None:
        """Close the stream inside, and record what had come."""
        try:
            self._stream.close()
        finally:
            self._exchange.closed("the caller closed it")


class AsyncBody:
    """The same for an async response."""

    def __init__(self, stream: Any, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    def __aiter__(self) -> AsyncIterator[bytes]:
        return AsyncChunks(aiter(self._stream), self._exchange)

    async def aclose(self) -> None:
        """Close the stream inside, and record what had come."""
        try:
            await self._stream.aclose()
        finally:
            self._exchange.closed("the caller closed it")


class RecordingTransport:
    """A transport that records what passes through it to `inner`; whatever else is asked of it, `inner` answers."""

    body: type
    plain_body: type[Iterable[bytes]]

    def __init__(self, inner: Any, binding: Binding) -> None:
        self.inner = inner
        self.binding = binding

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """That of the transport inside, for who asks by `isinstance`; it is one of ours too."""
        return type(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # asked of a copy that is still empty: there is nobody to pass the question on to
            raise AttributeError(name)
        return getattr(self.inner, name)


class SyncRecordingTransport(RecordingTransport):
    """The transport of a sync client."""

    def handle_request(self, request: Any) -> Any:
        """Send one request."""
        exchange = begin(self.binding, request, self.plain_body)
        if exchange is None:
            return self.inner.handle_request(request)
        before = _request_in_progress.get()
        _request_in_progress.set((exchange.run, request))
        try:
            response = self.inner.handle_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            _request_in_progress.set(before)  # no reset: a coroutine may be closed in another context
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
    """The same for an async client."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request."""
        exchange = await begin_beside_a_loop(self.binding, request, self.plain_body)
        if exchange is None:
            return await self.inner.handle_async_request(request)
        before = _request_in_progress.get()
        _request_in_progress.set((exchange.run, request))
        try:
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            _request_in_progress.set(before)  # no reset: a coroutine may be closed in another context
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
    """The recording transport for a library ("httpx" or "httpx2"), a subclass of its own base class."""
    module = import_module(library)
    recording, body = (AsyncRecordingTransport, AsyncBody) if asynchronous else (SyncRecordingTransport, SyncBody)
    transport_base = module.AsyncBaseTransport if asynchronous else module.BaseTransport
    stream_base = module.AsyncByteStream if asynchronous else module.SyncByteStream
    body_class = type(body.__name__, (body, stream_base), {})
    return type(
        "RecordingTransport", (recording, transport_base), {"body": body_class, "plain_body": module.ByteStream}
    )
