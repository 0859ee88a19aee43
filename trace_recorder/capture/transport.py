"""The recording transports, sync and async, for httpx and httpx2. Both libraries share the same classes.

A recording transport passes each request to the transport inside it, and wraps the stream of the response
(`recorded_bodies.py`). Types, chunks, timing and exceptions are those of the transport inside. A library is imported
only to wrap a client of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import ref

from trace_recorder.capture import background_responses
from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.event_loops import run_in_thread
from trace_recorder.capture.exchange import Exchange
from trace_recorder.capture.polled_exchange import PolledExchange
from trace_recorder.capture.recorded_bodies import AsyncBody, SyncBody
from trace_recorder.capture.sending import hosts_in_use, send, send_async
from trace_recorder.dialects.background import polled_response
from trace_recorder.dialects.endpoints import Endpoint, endpoint_of
from trace_recorder.guard import Guard
from trace_recorder.recording.context import context_of
from trace_recorder.recording.run import Run

guard = Guard()
"""For failures that happen before the run of a call is known."""

_request_in_progress: ContextVar[tuple[Run, Any] | None] = ContextVar(
    "trace_recorder_request_in_progress", default=None
)
"""The request that a recording transport is sending; another one inside it must not record the request again."""


class Target(Protocol):
    """What calls are recorded to: one recorder, or the recorder that is current where a call is made."""

    def open_run(self) -> Run | None:
        """Return the run of a call made now; None if it is not recorded. Raises only if the recorder is strict."""

    def is_running(self) -> bool:
        """Whether a run is open."""


@dataclass(slots=True)
class Binding:
    """What a recording transport is bound to: its target, the provider if it was stated, and the wrapped client."""

    target: Target
    provider: str | None
    client: ref[object] | None = None


def begin(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """Record a request before it is sent. Return None for other traffic, and if nothing is to be recorded."""
    run, endpoint = _run_and_endpoint(binding, request)
    if run is None or endpoint is None:
        return _poll(binding, request) if endpoint is None else None
    with run.guard.protect("record a request"):
        exchange = _exchange(run, endpoint, binding, request, plain_body)
        exchange.begin(context_of(run))
        return exchange
    return None


async def begin_in_event_loop(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """Do the same for an async client: a large request is written in a thread, so that the event loop can run."""
    run, endpoint = _run_and_endpoint(binding, request)
    if run is None or endpoint is None:
        return _poll(binding, request) if endpoint is None else None
    write: Callable[[], None] | None = None
    with run.guard.protect("record a request"):
        exchange = _exchange(run, endpoint, binding, request, plain_body)
        if not exchange.is_large():
            exchange.begin(context_of(run))
            return exchange
        write = exchange.begin_in_thread(context_of(run))
    if write is None:
        return None
    try:
        await run_in_thread(write, "request", exchange.is_awaited)
    except BaseException as error:
        exchange.call_cancelled(error)
        raise
    return exchange


def _run_and_endpoint(binding: Binding, request: Any) -> tuple[Run | None, Endpoint | None]:
    """Return the run that is to record a request, and the request's endpoint; None where it is not recorded."""
    endpoint: Endpoint | None = None
    with guard.protect("find out whether a request is an LLM call"):
        endpoint = endpoint_of(request.method, request.url.host, request.url.path, request.url.port)
    run = binding.target.open_run() if endpoint else None
    return (run, endpoint) if _request_in_progress.get() != (run, request) else (None, None)


def _poll(binding: Binding, request: Any) -> Exchange | None:
    """Return the exchange of a request that polls a response of a run; None for other traffic."""
    with guard.protect("find out whether a request polls a response"):
        polled = polled_response(request.method, request.url.path)
        found = background_responses.find(*polled, binding.target.open_run) if polled else None
        if found is not None and _request_in_progress.get() != (found[0], request):
            run, call = found
            endpoint = Endpoint(call.api, "", None, streams=False)
            sent = SentRequest(endpoint, request.method, str(request.url), request.headers.raw, b"")
            return PolledExchange(run, sent, call)
    return None


def _exchange(
    run: Run, endpoint: Endpoint, binding: Binding, request: Any, plain_body: type[Iterable[bytes]]
) -> Exchange:
    """Return the exchange of a request, before anything of it is written."""
    if binding.provider:
        endpoint = replace(endpoint, provider=binding.provider)
    body = b"".join(request.stream) if isinstance(request.stream, plain_body) else _content(request, run)
    return Exchange(run, SentRequest(endpoint, request.method, str(request.url), request.headers.raw, body))


def _content(request: Any, run: Run) -> bytes:
    """Return the body of a request that is no plain one; empty if it is only generated while it is sent."""
    with run.guard.protect("record the body of a request"):
        content: bytes = request.content
        return content
    return b""


def record_response(response: Any, exchange: Exchange, body: type) -> None:
    """Wrap the stream of a response for recording. A response that a mock transport made is recorded at once."""
    with exchange.run.guard.protect("wrap a response"):
        exchange.answered(response.status_code, response.headers.raw)
        if response.is_stream_consumed:
            exchange.whole(response.content)
        else:
            response.stream = recorded_body = body(response.stream, exchange)
            exchange.watch_body(recorded_body)
        return
    exchange.closed("it could not be recorded")


class RecordingTransport:
    """A transport that records the LLM calls that it passes to `inner`. All other attributes are those of `inner`."""

    body: type
    plain_body: type[Iterable[bytes]]

    def __init__(self, inner: Any, binding: Binding) -> None:
        self.inner = inner
        self.binding = binding

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the transport inside, so that `isinstance` holds for both classes."""
        return type(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # of a copy that has no attributes yet: looking up `self.inner` would recurse
            raise AttributeError(name)
        return getattr(self.inner, name)


class SyncRecordingTransport(RecordingTransport):
    """The transport of a sync client."""

    def handle_request(self, request: Any) -> Any:
        """Send one request."""
        exchange = begin(self.binding, request, self.plain_body)
        if exchange is None:
            return send(self.inner, request)
        before = _request_in_progress.get()
        _request_in_progress.set((exchange.run, request))
        try:
            hosts_in_use[id(request)] = request.url.raw_host
            response = self.inner.handle_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            _request_in_progress.set(before)  # no reset: a coroutine may be closed in another context
            hosts_in_use.pop(id(request), None)
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
        if exchange is None:
            return await send_async(self.inner, request)
        before = _request_in_progress.get()
        _request_in_progress.set((exchange.run, request))
        try:
            hosts_in_use[id(request)] = request.url.raw_host
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            _request_in_progress.set(before)  # no reset: a coroutine may be closed in another context
            hosts_in_use.pop(id(request), None)
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
