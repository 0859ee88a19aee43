"""The seam of aiohttp: each request of a client session, and the body of its response.

`ClientSession._request` sends a request, and follows redirects. `send` is called in its place, for a wrapped session or
for the whole process. The class of the response is replaced by a subclass, which records how the response is closed.
The response's `content` becomes a reader that records each piece of the body after aiohttp has decoded the piece.
aiohttp 3 is supported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import cache
from typing import Any, TypeVar

from trace_recorder.capture.exchange import Exchange
from trace_recorder.capture.seam import (
    ORIGIN_ATTRIBUTE,
    Binding,
    Headers,
    LibraryRequest,
    Url,
    begin_in_event_loop,
    body_in_memory,
    guard,
    sending,
)
from trace_recorder.values.final_status import CANCELLATION_CLASSES
from trace_recorder.values.origins import ReplayedFrom

Piece = TypeVar("Piece", bytes, tuple[bytes, bool])


async def send(original: Any, binding: Binding, session: Any, method: str, url: object, **keywords: Any) -> Any:
    """Send a request with a session, and record the request if it is a call to a model."""
    request: LibraryRequest | None = None
    with guard.protect("read a request of aiohttp"):
        request = read_request(session, method, url, keywords)
    if request is None:
        return await original(session, method, url, **keywords)
    exchange = await begin_in_event_loop(binding, request, tuple)
    with sending(request, exchange):
        try:
            response = await original(session, method, url, **keywords)
        except Exception as error:
            if exchange is not None and isinstance(getattr(error, "status", None), int):  # raise_for_status=True
                _record_refusal(error, exchange)
            raise
    if exchange is not None:
        decompress = keywords.get("auto_decompress")
        _record(response, exchange, is_decoded=session.auto_decompress if decompress is None else decompress)
    return response


def read_request(session: Any, method: str, url: object, keywords: dict[str, Any]) -> LibraryRequest:
    """Return the request that a session sends for these arguments."""
    address = session._build_url(url)
    if keywords.get("params"):
        address = address.update_query(keywords["params"])
    raw = _raw(session._prepare_headers(keywords.get("headers")))
    auth = keywords.get("auth") or session.auth
    if auth is not None:
        raw.append((b"Authorization", auth.encode().encode()))
    return LibraryRequest(method.upper(), Url(str(address)), Headers(raw), _body(session, keywords))


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    pairs = ((name, str(value)) for name, value in headers.items())
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs]


def _body(session: Any, keywords: dict[str, Any]) -> tuple[bytes, ...]:
    """Return the body of a request, or an empty tuple if the body is only generated while it is sent."""
    data = keywords.get("data")
    if data is None and keywords.get("json") is not None:
        data = (getattr(session, "_json_serialize_bytes", None) or session.json_serialize)(keywords["json"])
    return body_in_memory(data)


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

    def close(self) -> None:
        """Close the connection, and record what has been received."""
        super().close()  # type: ignore[misc]
        self.content.closed()

    def release(self) -> Any:
        """Return the connection to its pool, and record what has been received."""
        released = super().release()  # type: ignore[misc]
        self.content.closed()
        return released


class RecordedContent:
    """Reads a response's body, and records each piece before the caller gets it."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the reader inside, so that `isinstance` is true for both classes."""
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # a copy has no attributes at first, and looking up `_inner` would recurse
            raise AttributeError(name)
        return getattr(self._inner, name)

    async def read(self, n: int = -1) -> bytes:
        """Read at most `n` bytes, or all bytes if `n` is negative."""
        if n >= 0:
            return await self._recorded(self._inner.read(n))
        pieces: list[bytes] = []
        while piece := await self.readany():
            pieces.append(piece)
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
        self._exchange.closed("the caller closed it")

    async def _recorded(self, reading: Awaitable[Piece]) -> Piece:
        """Record the bytes of a read.

        A cancelled read does not end the response, because the caller may continue to read. Nothing is awaited after
        the read. Otherwise a caller that is cancelled at that moment would lose the bytes.
        """
        try:
            piece = await reading
        except BaseException as error:
            if type(error).__name__ in CANCELLATION_CLASSES:  # by name, because asyncio is slow to import
                # A copy without the traceback. `__init__` is not called, because its parameters may differ from `args`.
                self._exchange.cancelled_read = BaseException.__new__(type(error), *error.args)
            else:
                self._exchange.broken(error)
            raise
        self._exchange.cancelled_read = None
        self._keep(piece[0] if isinstance(piece, tuple) else piece)
        return piece

    def _keep(self, data: bytes) -> None:
        if data and self._exchange.response.chunk(data):
            self._exchange.response.write_due()
        if self._inner.at_eof():
            self._exchange.ended_without_waiting()
