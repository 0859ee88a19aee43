"""The seam of aiohttp: each request of a client session, and the body of its response.

`ClientSession._request` calls the middlewares of a session, which send, and follows redirects. `aiohttp_attempts` is
called in its place, for a wrapped session or for the whole process, and calls `send_by_aiohttp` for each attempt. The
class of the response is replaced by a subclass, which records how the response is closed. The response's `content`
becomes a reader that records each piece of the body after aiohttp has decoded the piece. aiohttp 3 is supported.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

from trace_recorder.capture.exchange import Exchange, begin_in_event_loop, sending
from trace_recorder.capture.proxy_header import headers_for_proxy
from trace_recorder.capture.seam import (
    ORIGIN_ATTRIBUTE,
    Binding,
    Headers,
    LibraryRequest,
    Url,
    Wrapper,
    body_in_memory,
    guard,
    recognise_request,
)
from trace_recorder.values.final_status import CANCELLATION_CLASSES
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import Struct

Piece = TypeVar("Piece", bytes, tuple[bytes, bool])


async def aiohttp_attempts(
    original: Any,
    around: Callable[[Any], Any],
    may_be_answered: bool,  # noqa: FBT001 - the first arguments of all seams have no names
    session: Any,
    method: str,
    url: object,
    **keywords: Any,
) -> Any:
    """Send a request with a session, by one call of the function that `around` makes for each attempt.

    From aiohttp 3.12 on, a middleware of ours makes the attempts. Before, all tries of a request are one attempt, with
    the arguments of `_request`.
    """
    if not hasattr(session, "_middlewares"):
        return await around(original)(session, method, url, **keywords)
    middlewares = keywords.get("middlewares")
    if middlewares is None:
        middlewares = session._middlewares
    ours = _AttemptMiddleware(session, around, may_be_answered, keywords.get("auto_decompress"))
    keywords["middlewares"] = (*middlewares, ours)
    return await original(session, method, url, **keywords)


class _AttemptMiddleware(Struct, frozen=True):
    """A middleware of aiohttp below all others. So each try of another middleware is an attempt, and each redirect too.

    `around` makes the function that records or answers an attempt from the function that sends it. If a replay may
    answer the attempt, a body that is made while it is sent is read first.
    """

    session: Any
    around: Callable[[Any], Any]
    may_be_answered: bool
    auto_decompress: bool | None

    async def __call__(self, request: Any, handler: Any) -> Any:
        if self.may_be_answered:
            read = _read_request(request)
            if read.body_passes and recognise_request(read).call is not None:
                await request.update_body(await request.body.as_bytes())
        attempt = self.around(partial(_send_attempt, handler))
        return await attempt(self.session, request, auto_decompress=self.auto_decompress)


async def _send_attempt(handler: Any, _session: Any, request: Any, send_by: Any = None, **_: Any) -> Any:
    """Send a request of aiohttp by the handler below our middleware, or by `send_by`, which a replay passes."""
    if send_by is None:
        return await handler(request)
    return await send_by(handler, request)


async def send_by_aiohttp(original: Any, binding: Binding, session: Any, *arguments: Any, **keywords: Any) -> Any:
    """Send an attempt with a session, and record the attempt if it is a call to a model."""
    request: LibraryRequest | None = None
    with guard.protect("read a request of aiohttp"):
        request = read_aiohttp_request(session, *arguments, **keywords)
    if request is None:
        return await original(session, *arguments, **keywords)
    exchange = await begin_in_event_loop(binding, request, tuple)
    if added := headers_for_proxy(exchange, request.url):
        arguments, keywords = _with_headers(session, arguments, keywords, added)
    with sending(request, exchange), _body_passing(exchange, *arguments):
        try:
            response = await original(session, *arguments, **keywords)
        except Exception as error:
            if exchange is not None and isinstance(getattr(error, "status", None), int):  # raise_for_status=True
                _record_refusal(error, exchange)
            raise
    if exchange is not None:
        decompress = keywords.get("auto_decompress")
        _record(response, exchange, is_decoded=session.auto_decompress if decompress is None else decompress)
    return response


def _with_headers(
    session: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], added: dict[str, str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an attempt with more headers. A request of aiohttp is changed itself."""
    if len(arguments) == 1:
        arguments[0].headers.update(added)
        return arguments, keywords
    headers = session._prepare_headers(keywords.get("headers"))
    headers.update(added)
    return arguments, {**keywords, "headers": headers}


def read_aiohttp_request(session: Any, *arguments: Any, **keywords: Any) -> LibraryRequest:
    """Return the request that a session sends for the arguments of an attempt."""
    if len(arguments) > 1:
        return _read_arguments(session, keywords, *arguments)
    return _read_request(*arguments)


def _read_request(request: Any) -> LibraryRequest:
    body = request.body
    in_memory = body_in_memory(getattr(body, "_value", body))
    passes = bool(body) and not in_memory
    return LibraryRequest(
        request.method, Url(str(request.url)), Headers(_raw(request.headers)), in_memory, body_passes=passes
    )


def _read_arguments(session: Any, keywords: dict[str, Any], method: str, url: object) -> LibraryRequest:
    address = session._build_url(url)
    if keywords.get("params"):
        address = address.update_query(keywords["params"])
    raw = _raw(session._prepare_headers(keywords.get("headers")))
    auth = keywords.get("auth") or session.auth
    if auth is not None:
        raw.append((b"Authorization", auth.encode().encode()))
    data = keywords.get("data")
    if data is None and keywords.get("json") is not None:
        data = (getattr(session, "_json_serialize_bytes", None) or session.json_serialize)(keywords["json"])
    body = body_in_memory(data)
    passes = data is not None and not body
    return LibraryRequest(method.upper(), Url(str(address)), Headers(raw), body, body_passes=passes)


@contextmanager
def _body_passing(exchange: Exchange | None, *arguments: Any) -> Iterator[None]:
    """Let the body of a request of aiohttp pass the exchange, if the body is made while it is sent."""
    if exchange is None or exchange.passing is None or len(arguments) > 1:
        yield
        return
    [request] = arguments
    write_bytes, passing = request.write_bytes, exchange.passing

    async def write_body(writer: Any, *more: Any) -> None:
        write, write_eof = writer.write, writer.write_eof

        async def write_piece(piece: Any, *more: Any, **options: Any) -> None:
            passing.take(piece)
            await write(piece, *more, **options)

        async def write_end(*rest: Any) -> None:
            passing.is_whole = True
            await exchange.request_passed_in_event_loop()
            await write_eof(*rest)

        with exchange.run.guard.protect("record the body of a request"):
            writer.write, writer.write_eof = write_piece, write_end
        await write_bytes(writer, *more)

    request.write_bytes = write_body
    try:
        yield
    finally:
        vars(request).pop("write_bytes", None)


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    pairs = ((name, str(value)) for name, value in headers.items())
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs]


def _record_refusal(error: Any, exchange: Exchange) -> None:
    """Record a response that became an exception before any byte of its body was read."""
    with exchange.run.guard.protect("record a refused call"):
        exchange.answered(error.status, _raw(error.headers or {}), ReplayedFrom.of_error(error))
        exchange.ended("its body was not read", error)


def _record(response: Any, exchange: Exchange, *, is_decoded: bool) -> None:
    """Record the bytes that are read from a response."""
    with exchange.run.guard.protect("wrap a response"):
        origin = getattr(response, ORIGIN_ATTRIBUTE, None)
        exchange.answered(response.status, [*response.raw_headers], origin, is_decoded=is_decoded)
        response.content = RecordedContent(response.content, exchange)
        response.__class__ = _recorded_class(type(response))  # type: ignore[arg-type]  # a class is hashable
        exchange.watch_body(response)
        return
    exchange.closed("it could not be recorded")


@cache
def _recorded_class(kind: Any) -> type:
    """Return a subclass of a response class that records how its responses are closed."""
    return type(kind.__name__, (_AiohttpRecording, kind), {"__module__": kind.__module__})


class _AiohttpRecording:
    """The methods that let a response record how it is closed."""

    content: RecordedContent

    def raise_for_status(self) -> None:
        """Raise an exception if the status is an error. This may close the response."""
        content = self.content
        closings: list[str] = []
        content.refusal = closings
        try:
            super().raise_for_status()  # type: ignore[misc]
        except Exception as error:
            if closings:
                content.refused(error)
            raise
        finally:
            content.refusal = None

    def close(self) -> None:
        """Close the connection, and record what has been received."""
        super().close()  # type: ignore[misc]
        self.content.closed()

    def release(self) -> Any:
        """Return the connection to its pool, and record what has been received."""
        released = super().release()  # type: ignore[misc]
        self.content.closed()
        return released


class RecordedContent(Wrapper):
    """Reads a response's body, and records each piece before the caller gets it."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        super().__init__(inner)
        self._exchange = exchange
        self.refusal: list[str] | None = None
        """The closings of the response while `raise_for_status` runs, or None while it does not."""
        self._must_decode = False
        """Whether bytes of the last read wait to be decoded, which the next read has a thread do."""

    async def read(self, n: int = -1) -> bytes:
        """Read at most `n` bytes, or all bytes if `n` is negative.

        If the bytes are many, a thread records the end of the body, and the caller waits. Without a recorder too, a
        caller that is cancelled while it reads all bytes loses them.
        """
        if n >= 0:
            return await self._recorded(self._inner.read(n))
        pieces: list[bytes] = []
        while piece := await self._received(self._inner.readany()):
            pieces.append(piece)
        if self._inner.at_eof():
            await self._exchange.ended_in_event_loop()
        return b"".join(pieces)

    async def readany(self) -> bytes:
        """Read the bytes that have arrived."""
        return await self._recorded(self._inner.readany())

    async def readexactly(self, n: int) -> bytes:
        """Read exactly `n` bytes."""
        return await self._recorded(self._inner.readexactly(n))

    async def readline(self, **limits: Any) -> bytes:
        """Read a line."""
        return await self._recorded(self._inner.readline(**limits))

    async def readuntil(self, separator: bytes = b"\n", **limits: Any) -> bytes:
        """Read up to a separator."""
        return await self._recorded(self._inner.readuntil(separator, **limits))

    async def readchunk(self) -> tuple[bytes, bool]:
        """Read bytes. Return them, and whether they end a chunk of the chunked encoding."""
        return await self._recorded(self._inner.readchunk())

    def read_nowait(self, n: int = -1) -> bytes:
        """Read at most `n` of the bytes that have arrived."""
        data: bytes = self._inner.read_nowait(n)
        self._keep(data)
        self._decode_rest()
        self._end_at_eof()
        return data

    def __aiter__(self) -> Any:
        return type(self._inner).__aiter__(self)

    def iter_chunked(self, n: int) -> Any:
        """Iterate over pieces of at most `n` bytes."""
        return type(self._inner).iter_chunked(self, n)

    def iter_any(self) -> Any:
        """Iterate over the bytes as they arrive."""
        return type(self._inner).iter_any(self)

    def iter_chunks(self) -> Any:
        """Iterate over the chunks of the chunked encoding."""
        return type(self._inner).iter_chunks(self)

    def closed(self) -> None:
        """Record that the response was closed."""
        self._decode_rest()
        if self.refusal is None:
            self._exchange.closed("the caller closed it")
        else:
            self.refusal.append("closed")

    def refused(self, error: Exception) -> None:
        """Record that the status of the response became an exception, which closed the response."""
        self._exchange.ended("its body was not read", error)

    async def _recorded(self, reading: Coroutine[Any, Any, Piece]) -> Piece:
        """Record the bytes of a read, and the end of the body if they are the last ones.

        Nothing is awaited after the read. Otherwise a caller that is cancelled at that moment would lose the bytes.
        """
        piece = await self._received(reading)
        self._end_at_eof()
        return piece

    async def _received(self, reading: Coroutine[Any, Any, Piece]) -> Piece:
        """Record the bytes of a read.

        A cancelled read does not end the response, because the caller may continue to read. If a read brings many
        compressed bytes, a thread decodes them before the next read.
        """
        if self._must_decode:
            self._must_decode = False
            try:
                await self._exchange.write_due_in_event_loop()
            except BaseException:
                reading.close()  # Python would warn of a coroutine that nobody awaited
                raise
        try:
            piece = await reading
        except BaseException as error:
            if type(error).__name__ in CANCELLATION_CLASSES:  # by name, because asyncio is slow to import
                self._exchange.read_cancelled(error)
            else:
                self._exchange.broken(error)
            raise
        self._exchange.cancelled_read = None
        self._keep(piece[0] if isinstance(piece, tuple) else piece)
        return piece

    def _keep(self, data: bytes) -> None:
        if data and self._exchange.chunk(data):
            encoded = self._exchange.response.encoded
            self._must_decode = encoded is not None and encoded.has_more
            if not self._must_decode:
                self._exchange.write_due()

    def _end_at_eof(self) -> None:
        """Record the end of the body if all bytes have been read."""
        if self._inner.at_eof():
            self._decode_rest()
            self._exchange.ended_without_waiting()

    def _decode_rest(self) -> None:
        """Decode the bytes of the last read that wait, in this thread."""
        if self._must_decode:
            self._must_decode = False
            self._exchange.write_due()
