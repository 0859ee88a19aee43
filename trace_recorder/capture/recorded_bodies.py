"""The bodies of responses, sync and async, recorded while the caller reads them.

The caller gets the same chunks as from the stream inside, at the same time, and the same exceptions. Each chunk, and
each way in which a body ends, is passed to the call's `Exchange`; what is written, and when, is decided there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Self

from trace_recorder.capture.exchange import Exchange


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
            if self._exchange.response.chunk(chunk):
                self._exchange.response.write_due()
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
    """The chunks of an async response, each recorded. An async generator, as the HTTP library expects to close one."""

    def __init__(self, chunks: Any, exchange: Exchange) -> None:
        self._chunks = chunks
        self._exchange = exchange

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await anext(self._chunks)
            if self._exchange.response.chunk(chunk):
                await self._exchange.write_due_in_event_loop()
        except StopAsyncIteration:
            await self._exchange.ended_in_event_loop()
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
