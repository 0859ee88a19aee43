"""Transports that answer LLM calls from a recording, for httpx and httpx2; other traffic goes to the one inside."""

from __future__ import annotations

import errno
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, Protocol

from trace_recorder.capture.transport import ORIGIN_EXTENSION, send, send_async
from trace_recorder.dialects.endpoints import Endpoint, endpoint_of
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.rerun.exceptions import builtin_exception
from trace_recorder.storage.stream_chunks import TimedBytes
from trace_recorder.values.final_status import CANCELLATION_CLASSES
from trace_recorder.values.origins import ReplayedFrom

Missing = Literal["error", "live"]
"""What happens to a request without a recorded answer."""

_NOT_CAUGHT = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
CANCELLATION_GRACE_SECONDS = 1.0
"""How much longer than the recorded call took, a call that was cancelled waits to be cancelled again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call: a response, whole or in chunks, and the exception that ends it, if any.

    `status` is None where no response came. `error` is an exception's class and message. `stopped` says why what came
    next is not on file: reading further raises an error with it. `seconds` is how long the recorded exchange took.
    `origin` is the recorded call that gives the answer.
    """

    status: int | None
    headers: dict[str, str]
    body: bytes = b""
    chunks: tuple[TimedBytes, ...] | None = None
    error: tuple[str, str] | None = None
    stopped: str | None = None
    seconds: float = 0.0
    origin: ReplayedFrom | None = None

    @property
    def extensions(self) -> dict[str, Any]:
        """The extensions of the response: recording finds the origin there, and a caller sees the recorded headers."""
        return {} if self.origin is None else {ORIGIN_EXTENSION: self.origin}

    @property
    def pieces(self) -> tuple[TimedBytes, ...]:
        """The chunks of the body; a plain one is one chunk."""
        return ((0.0, self.body),) if self.chunks is None else self.chunks

    @property
    def is_cut_off(self) -> bool:
        """Whether something else than its end follows the body."""
        return self.error is not None or self.stopped is not None

    @property
    def was_cancelled(self) -> bool:
        """Whether the recorded call was cancelled, by its own task's cancellation."""
        return self.error is not None and self.error[0].rpartition(".")[2] in CANCELLATION_CLASSES


class Answers(Protocol):
    """Gives the recorded answer to a request. Raises ReplayMismatchError if there is none.

    `missing` is "live" where requests without a recorded answer are sent.
    """

    speed: float | None
    missing: Missing

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """The answer to one request; None where it is to be sent."""

    def polled(self, method: str, path: str) -> Answer | None:
        """The final answer to a poll of a recorded response; None for other requests."""

    def refused(self, said: str) -> ReplayMismatchError:
        """Return a mismatch to raise; the replay keeps it."""


class SyncReplaying:
    """The transport of a sync client."""

    def __init__(self, inner: Any, answers: Answers) -> None:
        self.inner = inner
        self.answers = answers

    def handle_request(self, request: Any) -> Any:
        """Answer one request."""
        endpoint = endpoint_of_request(request)
        answer = self.answers.polled(request.method, request.url.path) if endpoint is None else None
        if endpoint is None and answer is None and self.inner is not None:
            return send(self.inner, request)
        library = _library(self)
        answer = answer or _answer(self.answers, endpoint, request, request.read(), library)
        if answer is None:
            return send(self.inner, request)
        if answer.status is None:
            raise _ending(answer, self.answers, library, request)
        wait = Pace(self.answers.speed)

        def chunks() -> Iterator[bytes]:
            for at, data in answer.pieces:
                if seconds := wait.seconds(at):
                    time.sleep(seconds)
                yield data
            if answer.is_cut_off:
                raise _ending(answer, self.answers, library, request)

        return library.Response(
            answer.status,
            headers=answer.headers,
            stream=_stream(library, chunks()),
            request=request,
            extensions=answer.extensions,
        )

    def close(self) -> None:
        """Close the transport inside."""
        if self.inner is not None:
            self.inner.close()


class AsyncReplaying:
    """The same for an async client."""

    def __init__(self, inner: Any, answers: Answers) -> None:
        self.inner = inner
        self.answers = answers

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request."""
        endpoint = endpoint_of_request(request)
        answer = self.answers.polled(request.method, request.url.path) if endpoint is None else None
        if endpoint is None and answer is None and self.inner is not None:
            return await send_async(self.inner, request)
        library = _library(self)
        answer = answer or _answer(self.answers, endpoint, request, await request.aread(), library)
        if answer is None:
            return await send_async(self.inner, request)
        sleep = import_module("anyio").sleep  # what httpx sleeps with: asyncio's or trio's
        await sleep(0)  # other tasks run here, as they do while a network is waited for
        wait = Pace(self.answers.speed)

        async def end() -> Exception:
            if answer.was_cancelled:
                await sleep(wait.remaining(answer.seconds) + CANCELLATION_GRACE_SECONDS)
            return _ending(answer, self.answers, library, request)

        if answer.status is None:
            raise await end()

        async def chunks() -> AsyncIterator[bytes]:
            for at, data in answer.pieces:
                await sleep(wait.seconds(at))
                yield data
            if answer.is_cut_off:
                raise await end()

        return library.Response(
            answer.status,
            headers=answer.headers,
            stream=_stream(library, chunks()),
            request=request,
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close the transport inside."""
        if self.inner is not None:
            await self.inner.aclose()


class Pace:
    """Computes how long to wait for a chunk: `speed` times as fast as it came, or not at all."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._began = time.perf_counter()

    def seconds(self, at: float) -> float:
        """Return how many seconds to wait for what came at this time, in seconds since its request."""
        return 0.0 if self._speed is None else self.remaining(at / self._speed)

    def remaining(self, seconds: float) -> float:
        """Return how much is left of this many seconds since the request."""
        return max(0.0, seconds - (time.perf_counter() - self._began))


def endpoint_of_request(request: Any) -> Endpoint | None:
    """Return the dialect of a request; None if it is no LLM call."""
    return endpoint_of(request.method, request.url.host, request.url.path, request.url.port)


def _answer(answers: Answers, endpoint: Endpoint | None, request: Any, body: bytes, library: Any) -> Answer | None:
    if endpoint is None:
        why = f"{request.method} {request.url} is no LLM call: a client of replay() alone answers nothing else."
        raise as_connection_error(library, answers.refused(why), request)
    try:
        return answers.answer(endpoint, request.headers.raw, body)
    except ReplayMismatchError as mismatch:
        raise as_connection_error(library, mismatch, request) from None


@cache
def _mismatch_class(connect_error: type[Exception]) -> Callable[..., Exception]:
    members = {"__module__": ReplayMismatchError.__module__}
    return type("ReplayMismatchError", (ReplayMismatchError, connect_error), members)


def as_connection_error(library: Any, mismatch: ReplayMismatchError, request: Any) -> Exception:
    """Return a mismatch that is also a connection error of the HTTP library, which each SDK wraps in its own."""
    return _mismatch_class(library.ConnectError)(str(mismatch), request=request)


def refused_connection(mismatch: ReplayMismatchError) -> Exception:
    """Return a mismatch that is also a refused connection, which each HTTP library wraps in its own error."""
    return _mismatch_class(ConnectionRefusedError)(errno.ECONNREFUSED, str(mismatch))


def _ending(answer: Answer, answers: Answers, library: Any, request: Any) -> Exception:
    """Return what ends a call that did not complete: the recorded exception, or a mismatch if none is on file."""
    error = None if answer.error is None else _exception(*answer.error, library, request)
    if error is None:
        why = ": ".join(filter(None, answer.error)) if answer.error else answer.stopped or "no answer had come"
        error = as_connection_error(library, answers.refused(f"nothing is on file of what came next: {why}"), request)
    if answer.origin is not None:
        answer.origin.mark(error)
    return error


def _exception(name: str, message: str, library: Any, request: Any) -> Exception | None:
    """An exception of the recorded class, the HTTP library's or Python's own; None where it ended the task itself."""
    plain = name.rpartition(".")[2]
    kind = getattr(library, plain, None)
    if isinstance(kind, type) and issubclass(kind, library.RequestError):
        error: Exception = kind(message, request=request)
        return error
    if plain in CANCELLATION_CLASSES or plain in _NOT_CAUGHT:
        return None
    return builtin_exception(plain, message) or library.ReadError(f"{name}: {message}", request=request)


def _library(transport: object) -> Any:
    """Return the HTTP library that a transport is of."""
    return import_module(type(transport).library)  # type: ignore[attr-defined]


def _stream(library: Any, chunks: Any) -> Any:
    return stream_class(library.__name__)(chunks)


@cache
def stream_class(library: str) -> type:
    """The stream of a response of a library: sync or async, as what it is given.

    It is read once: a second iteration, as the openai SDK does to read what follows `[DONE]`, continues the first.
    """
    module = import_module(library)

    class Stream(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, chunks: Any) -> None:
            self._chunks = chunks

        def __iter__(self) -> Iterator[bytes]:
            return iter(self._chunks)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return aiter(self._chunks)

    return Stream


@cache
def replaying_class(library: str, *, asynchronous: bool) -> type:
    """The replaying transport for a library ("httpx" or "httpx2"), a subclass of its own base class."""
    return transport_class("ReplayingTransport", library, AsyncReplaying if asynchronous else SyncReplaying)


def transport_class(name: str, library: str, kind: type) -> type:
    """Make a class of transports for a library of a class that handles requests, sync or async."""
    module = import_module(library)
    base = module.AsyncBaseTransport if hasattr(kind, "handle_async_request") else module.BaseTransport
    return type(name, (kind, base), {"library": library})
