"""Transports that answer LLM calls from a recording, for httpx and httpx2; other traffic goes on to the one inside."""

from __future__ import annotations

import builtins
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, NoReturn, Protocol

from trace_recorder.dialects.endpoints import Endpoint, endpoint_of
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.storage.stream_chunks import TimedBytes

Missing = Literal["error", "live"]
"""What becomes of a request without a recorded answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call is answered with: a response whole or in chunks, and the exception that ends it, if one does.

    `status` is None where no response came. `error` is an exception's class and message. `stopped` says why nothing is
    on file of what came next: whoever reads on is told so.
    """

    status: int | None
    headers: dict[str, str]
    body: bytes = b""
    chunks: tuple[TimedBytes, ...] | None = None
    error: tuple[str, str] | None = None
    stopped: str | None = None


class Answers(Protocol):
    """Who answers: gives the recorded answer to a request. Raises ReplayMismatchError where there is none.

    `missing` is "live" where requests without a recorded answer are sent.
    """

    speed: float | None
    missing: Missing

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """The answer to one request; None where it is to be sent."""


class SyncReplaying:
    """The transport of a sync client."""

    def __init__(self, inner: Any, answers: Answers) -> None:
        self.inner = inner
        self.answers = answers

    def handle_request(self, request: Any) -> Any:
        """Answer one request."""
        endpoint = endpoint_of_request(request)
        if endpoint is None and self.inner is not None:
            return self.inner.handle_request(request)
        library = _library(self)
        answer = _answer(self.answers, endpoint, request, request.read(), library)
        if answer is None:
            return self.inner.handle_request(request)
        _refuse_absent(answer, library, request)
        wait = _Pace(self.answers.speed)

        def chunks() -> Iterator[bytes]:
            for at, data in answer.chunks or ((0.0, answer.body),):
                if seconds := wait.seconds(at):
                    time.sleep(seconds)
                yield data
            _end(answer, library, request)

        return library.Response(answer.status, headers=answer.headers, stream=_stream(library, chunks), request=request)

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
        if endpoint is None and self.inner is not None:
            return await self.inner.handle_async_request(request)
        library = _library(self)
        answer = _answer(self.answers, endpoint, request, await request.aread(), library)
        if answer is None:
            return await self.inner.handle_async_request(request)
        sleep = import_module("anyio").sleep  # what httpx sleeps with: asyncio's or trio's
        await sleep(0)  # others come to run here, as they do beside a network
        _refuse_absent(answer, library, request)
        wait = _Pace(self.answers.speed)

        async def chunks() -> AsyncIterator[bytes]:
            for at, data in answer.chunks or ((0.0, answer.body),):
                await sleep(wait.seconds(at))
                yield data
            _end(answer, library, request)

        return library.Response(answer.status, headers=answer.headers, stream=_stream(library, chunks), request=request)

    async def aclose(self) -> None:
        """Close the transport inside."""
        if self.inner is not None:
            await self.inner.aclose()


class _Pace:
    """How long to wait for a chunk: `speed` times as fast as it came, or not at all."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._began = time.perf_counter()

    def seconds(self, at: float) -> float:
        """For how many seconds to wait for what came at this moment, in seconds since its request."""
        if self._speed is None:
            return 0.0
        return max(0.0, at / self._speed - (time.perf_counter() - self._began))


def endpoint_of_request(request: Any) -> Endpoint | None:
    """Which dialect a request speaks; None where it is no LLM call."""
    return endpoint_of(request.method, request.url.host, request.url.path, request.url.port)


def _answer(answers: Answers, endpoint: Endpoint | None, request: Any, body: bytes, library: Any) -> Answer | None:
    if endpoint is None:
        why = f"{request.method} {request.url} is no LLM call: a client of replay() alone answers nothing else."
        raise as_connection_error(library, ReplayMismatchError(why), request)
    try:
        return answers.answer(endpoint, request.headers.raw, body)
    except ReplayMismatchError as mismatch:
        raise as_connection_error(library, mismatch, request) from None


@cache
def _mismatch_class(connect_error: type[Exception]) -> Callable[..., Exception]:
    members = {"__module__": ReplayMismatchError.__module__}
    return type("ReplayMismatchError", (ReplayMismatchError, connect_error), members)


def as_connection_error(library: Any, mismatch: ReplayMismatchError, request: Any) -> Exception:
    """A mismatch that is a connection error of the HTTP library too, so that each SDK wraps it in its own."""
    return _mismatch_class(library.ConnectError)(str(mismatch), request=request)


def _refuse_absent(answer: Answer, library: Any, request: Any) -> None:
    if answer.status is None:
        _end(answer, library, request)


def _end(answer: Answer, library: Any, request: Any) -> None:
    """End as the recorded exchange did: with its exception, or with nothing."""
    if answer.error is not None:
        _raise(*answer.error, library, request)
    if answer.stopped is not None or answer.status is None:
        why = f"nothing is on file of what came next: {answer.stopped or 'no answer had come'}"
        raise as_connection_error(library, ReplayMismatchError(why), request)


def _raise(name: str, message: str, library: Any, request: Any) -> NoReturn:
    """Raise an exception of the class that was recorded: the HTTP library's, or Python's own."""
    plain = name.rpartition(".")[2]
    kind = getattr(library, plain, None)
    if isinstance(kind, type) and issubclass(kind, library.RequestError):
        raise kind(message, request=request)
    kind = getattr(builtins, plain, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        raise kind(message)
    raise library.ReadError(f"{name}: {message}", request=request)


def _library(transport: object) -> Any:
    """The HTTP library whose transport an object is."""
    return import_module(type(transport).library)  # type: ignore[attr-defined]


def _stream(library: Any, chunks: Callable[[], Any]) -> Any:
    return stream_class(library.__name__)(chunks)


@cache
def stream_class(library: str) -> type:
    """The stream of a response of a library: sync or async, as what it is given."""
    module = import_module(library)

    class Stream(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, chunks: Callable[[], Any]) -> None:
            self._chunks = chunks

        def __iter__(self) -> Iterator[bytes]:
            return iter(self._chunks())

        def __aiter__(self) -> AsyncIterator[bytes]:
            return aiter(self._chunks())

    return Stream


@cache
def replaying_class(library: str, *, asynchronous: bool) -> type:
    """The replaying transport for a library ("httpx" or "httpx2"), a subclass of its own base class."""
    module = import_module(library)
    replaying, base = (
        (AsyncReplaying, module.AsyncBaseTransport) if asynchronous else (SyncReplaying, module.BaseTransport)
    )
    return type("ReplayingTransport", (replaying, base), {"library": library})
