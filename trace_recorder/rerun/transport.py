"""Transports of httpx and httpx2 that answer LLM calls from a recording.

The inner transport sends all other requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from trace_recorder.capture.seam import recognise_request
from trace_recorder.capture.transport import ORIGIN_EXTENSION, send, send_async
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.rerun.answers import CANCELLATION_GRACE_SECONDS, Answer, Answers, Errors, Pace


class SyncReplaying:
    """The replaying transport of a sync client."""

    def __init__(self, inner: Any, answers: Answers) -> None:
        self.inner = inner
        self.answers = answers

    def handle_request(self, request: Any) -> Any:
        """Answer one request."""
        recognition = recognise_request(request)
        endpoint, poll = recognition.call, recognition.poll
        answer = None
        if poll is not None:
            answer = self.answers.polled(poll)
        if endpoint is None and answer is None and self.inner is not None:
            return send(self.inner, request)
        library = _library(self)
        answer = answer or _answer(self.answers, endpoint, request, request.read(), library)
        if answer is None:
            return send(self.inner, request)
        if answer.status is None:
            raise httpx_errors(library, request).ending(answer, self.answers)
        pace = Pace(self.answers.speed)

        def chunks() -> Iterator[bytes]:
            yield from answer.pieces_in_time(pace)
            if answer.is_cut_off:
                raise httpx_errors(library, request).ending(answer, self.answers)

        return _response(library, request, answer, chunks())

    def close(self) -> None:
        """Close the inner transport."""
        if self.inner is not None:
            self.inner.close()


class AsyncReplaying:
    """The replaying transport of an async client."""

    def __init__(self, inner: Any, answers: Answers) -> None:
        self.inner = inner
        self.answers = answers

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request."""
        recognition = recognise_request(request)
        endpoint, poll = recognition.call, recognition.poll
        answer = None
        if poll is not None:
            answer = self.answers.polled(poll)
        if endpoint is None and answer is None and self.inner is not None:
            return await send_async(self.inner, request)
        library = _library(self)
        answer = answer or _answer(self.answers, endpoint, request, await request.aread(), library)
        if answer is None:
            return await send_async(self.inner, request)
        sleep = import_module("anyio").sleep  # works with asyncio and with trio, as httpx does
        await sleep(0)  # other tasks run here, as they do while a task waits for the network
        pace = Pace(self.answers.speed)

        async def end() -> Exception:
            if answer.was_cancelled:
                await sleep(pace.remaining(answer.seconds) + CANCELLATION_GRACE_SECONDS)
            return httpx_errors(library, request).ending(answer, self.answers)

        if answer.status is None:
            raise await end()

        async def chunks() -> AsyncIterator[bytes]:
            for recorded, data in answer.pieces:
                await sleep(pace.seconds(recorded))
                yield data
            if answer.is_cut_off:
                raise await end()

        return _response(library, request, answer, chunks())

    async def aclose(self) -> None:
        """Close the inner transport."""
        if self.inner is not None:
            await self.inner.aclose()


def _answer(answers: Answers, endpoint: Endpoint | None, request: Any, body: bytes, library: Any) -> Answer | None:
    if endpoint is None:
        why = f"{request.method} {request.url} is not an LLM call. An HTTP client of replay() answers only LLM calls."
        raise httpx_errors(library, request).refusal(answers.refused(why))
    try:
        return answers.answer(endpoint, request.headers.raw, body)
    except ReplayMismatchError as mismatch:
        raise httpx_errors(library, request).refusal(mismatch) from None


def httpx_errors(library: Any, request: Any) -> Errors:
    """Return the exceptions of httpx or httpx2 for a request."""
    kinds = (library.RequestError, library.ConnectError, library.ReadError)
    return Errors(library, *kinds, kwargs={"request": request})


def _response(library: Any, request: Any, answer: Answer, chunks: Any) -> Any:
    """Return a response of the library.

    Its headers are the recorded headers. The recorded call is in the response's extensions, where a recording transport
    finds it.
    """
    extensions = {}
    if answer.origin is not None:
        extensions[ORIGIN_EXTENSION] = answer.origin
    stream = stream_class(library.__name__)(chunks)
    return library.Response(
        answer.status, headers=answer.headers, stream=stream, request=request, extensions=extensions
    )


def _library(transport: object) -> Any:
    return import_module(type(transport).library)  # type: ignore[attr-defined]


@cache
def stream_class(library: str) -> type:
    """Return the class of response streams of a library, sync and async.

    A stream is read once. A second iteration continues where the first one stopped, because the openai SDK iterates
    again to read the bytes after `[DONE]`.
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
    """Return the class of replaying transports for a library ("httpx" or "httpx2")."""
    return transport_class("ReplayingTransport", library, AsyncReplaying if asynchronous else SyncReplaying)


def transport_class(name: str, library: str, kind: type) -> type:
    """Return a transport class for a library. Its methods come from the class `kind`."""
    module = import_module(library)
    base = module.AsyncBaseTransport if hasattr(kind, "handle_async_request") else module.BaseTransport
    return type(name, (kind, base), {"library": library})
