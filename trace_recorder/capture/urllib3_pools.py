"""The seam of urllib3, and so of requests: each request that a connection pool sends, and the body of its response.

`HTTPConnectionPool._make_request` sends one attempt; retries and redirects call it again. This method is replaced for
the whole process when the first pool is bound. At each call, the new method looks up the recorder of its pool, or else
the recorder of the process. The class of the response is replaced by a subclass that records the bytes that are read.
urllib3 2 is supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from trace_recorder.capture.exchange import Exchange, begin_exchange, sending
from trace_recorder.capture.proxy_header import headers_for_proxy
from trace_recorder.capture.seam import (
    ORIGIN_ATTRIBUTE,
    Binding,
    Headers,
    LibraryRequest,
    Url,
    body_in_memory,
    guard,
    recognise_request,
)


def urllib3_attempts(
    make_request: Any,
    around: Callable[[Any], Any],
    may_be_answered: bool,  # noqa: FBT001 - the first arguments of all seams have no names
    pool: Any,
    *arguments: Any,
    **keywords: Any,
) -> Any:
    """Send one attempt: the method that is replaced sends no more.

    If the attempt may be answered, a body that is made while it is sent is read first.
    """
    if may_be_answered:
        request = read_urllib3_request(pool, *arguments, **keywords)
        if request.body_passes and recognise_request(request).call is not None:
            arguments, keywords = with_body(arguments, keywords, _read_body)
    return around(make_request)(pool, *arguments, **keywords)


def send_by_urllib3(make_request: Any, binding: Binding, pool: Any, *arguments: Any, **keywords: Any) -> Any:
    """Send one attempt with a pool, and record the attempt if it is a call to a model."""
    request: LibraryRequest | None = None
    with guard.protect("read a request of urllib3"):
        request = read_urllib3_request(pool, *arguments, **keywords)
    if request is None:
        return make_request(pool, *arguments, **keywords)
    exchange = begin_exchange(binding, request, tuple)
    if added := headers_for_proxy(exchange, request.url):
        keywords["headers"] = {**(keywords.get("headers") or pool.headers), **added}
    if exchange is not None and exchange.passing is not None:
        arguments, keywords = with_body(arguments, keywords, exchange.pass_through)
    with sending(request, exchange):
        response = make_request(pool, *arguments, **keywords)
    if exchange is not None:
        _record(response, exchange)
    return response


def read_urllib3_request(
    pool: Any, _connection: object, method: str, url: str, body: object = None, headers: Any = None, *_: Any, **__: Any
) -> LibraryRequest:
    """Return the request that a pool is asked to send. `url` has a host only if a proxy is used."""
    if "://" not in url:
        host = f"[{pool.host}]" if ":" in pool.host else pool.host
        port = f":{pool.port}" if pool.port else ""
        url = f"{pool.scheme}://{host}{port}{url}"
    if headers is None:
        headers = pool.headers
    in_memory = body_in_memory(body)
    passes = body is not None and not in_memory
    return LibraryRequest(method, Url(url), Headers(_pairs(headers)), in_memory, body_passes=passes)


def with_body(
    arguments: tuple[Any, ...], keywords: dict[str, Any], change: Callable[[Any], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `_make_request` with a changed body, which is the fourth of them."""
    if len(arguments) > _BODY_POSITION:
        changed = change(arguments[_BODY_POSITION])
        return (*arguments[:_BODY_POSITION], changed, *arguments[_BODY_POSITION + 1 :]), keywords
    return arguments, {**keywords, "body": change(keywords.get("body"))}


_BODY_POSITION = 3


def _read_body(body: Any) -> bytes:
    if hasattr(body, "read"):
        body = iter(body.read, body.read(0))
    return b"".join(map(_encoded, body))


def _encoded(piece: Any) -> Any:
    """Return a piece of a body as urllib3 sends it: a text as UTF-8."""
    if isinstance(piece, str):
        return piece.encode()
    return piece


def _pairs(headers: Mapping[Any, Any]) -> list[tuple[bytes, bytes]]:
    return [(_bytes(name), _bytes(value)) for name, value in headers.items()]


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1", "replace")


def _record(response: Any, exchange: Exchange) -> None:
    """Record the bytes that are read from a response. A body that is in memory already is recorded at once."""
    with exchange.run.guard.protect("wrap a response"):
        origin = getattr(response, ORIGIN_ATTRIBUTE, None)
        is_whole = getattr(response, "_fp", None) is None or response.isclosed()
        is_decoded = is_whole and bool(response.decode_content)
        exchange.answered(response.status, _pairs(response.headers), origin, is_decoded=is_decoded)
        if is_whole:
            if exchange.chunk(response.data or b""):
                exchange.write_due()
            exchange.ended()
        else:
            response.__class__ = _recorded_class(type(response))  # type: ignore[arg-type]  # a class is hashable
            response._trace_recorder_exchange = exchange
            exchange.watch_body(response)
        return
    exchange.closed("it could not be recorded")


@cache
def _recorded_class(kind: Any) -> type:
    """Return a subclass of a response class that records the bytes that are read."""
    return type(kind.__name__, (_Urllib3Recording, kind), {"__module__": kind.__module__})


class _Urllib3Recording:
    """The methods that let a response record the bytes that are read.

    urllib3 reads in two methods: `_handle_chunk` for a chunked body over which the caller iterates, and `_raw_read` for
    any other body.
    """

    _trace_recorder_exchange: Exchange
    _trace_recorder_reads = False

    def _raw_read(self, *arguments: Any, **keywords: Any) -> Any:
        exchange = self._trace_recorder_exchange
        try:
            data = super()._raw_read(*arguments, **keywords)  # type: ignore[misc]
        except BaseException as error:
            exchange.broken(error)
            raise
        self._keep(data)
        if self.isclosed():  # type: ignore[attr-defined]
            exchange.ended("the connection ended early" if self.length_remaining else None)  # type: ignore[attr-defined]
        return data

    def _handle_chunk(self, *arguments: Any) -> Any:
        data = super()._handle_chunk(*arguments)  # type: ignore[misc]
        self._keep(data)
        return data

    def _keep(self, data: bytes | None) -> None:
        exchange = self._trace_recorder_exchange
        if data and exchange.chunk(data):
            exchange.write_due()

    def read_chunked(self, *arguments: Any, **keywords: Any) -> Iterator[bytes]:
        """Yield the chunks of a chunked body."""
        exchange = self._trace_recorder_exchange
        chunks = super().read_chunked(*arguments, **keywords)  # type: ignore[misc]
        try:
            while True:
                self._trace_recorder_reads = True  # urllib3 closes a broken response before it raises
                chunk = next(chunks, None)
                self._trace_recorder_reads = False
                if chunk is None:
                    break
                yield chunk
        except BaseException as error:
            self._trace_recorder_reads = False
            exchange.broken(error)
            raise
        finally:
            chunks.close()
        exchange.ended()

    def close(self) -> None:
        """Close the response, and record what has been received."""
        try:
            super().close()  # type: ignore[misc]
        finally:
            if not self._trace_recorder_reads:
                self._trace_recorder_exchange.closed("the caller closed it")
