"""Streams: the pieces of an answer as they arrive, and at the end the same response that `chat` returns.

The response is not assembled from the pieces. The text of the stream is kept, and the dialect's reader reads the
response from it, as from a recorded stream. An error before the first event is retried. A later error is raised,
because the caller already has pieces.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from trace_recorder.clients.retries import Retrier
from trace_recorder.clients.wire_formats.wire_format import Finished, JsonObject, StreamEvent, ToolCallDelta, WireFormat
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.errors import StreamNotFinishedError
from trace_recorder.values.messages import LLMResponse, Payload


@dataclass(frozen=True, slots=True)
class StreamSource:
    """The functions that open and read a stream.

    `open` sends the request, `plain` converts an event to JSON, and `read` reads a whole body.
    """

    wire_format: WireFormat
    retrying: Retrier
    open: Callable[[int], Any]
    plain: Callable[[Any], JsonObject]
    read: Callable[[Payload], LLMResponse]


class StreamState:
    """The part of a stream that was received so far."""

    def __init__(self, source: StreamSource) -> None:
        self._source = source
        self._text: list[str] = []
        self._calls = 0
        self._response: LLMResponse | None = None

    @property
    def response(self) -> LLMResponse:
        """The whole response. Raises StreamNotFinishedError if the stream has not been read to its end."""
        if self._response is None:
            raise StreamNotFinishedError("The response is available when the stream has been read to its end.")
        return self._response

    def _take(self, event: Any) -> Iterator[StreamEvent]:
        body = self._source.plain(event)
        self._text.append(self._source.wire_format.frame % json.dumps(body))
        for delta in self._source.wire_format.deltas(body, self._calls):
            if isinstance(delta, ToolCallDelta) and delta.name:
                self._calls += 1
            yield delta

    def _finish(self) -> Finished:
        joined = join_stream(self._source.wire_format.api, "".join(self._text).encode())
        if joined is None:
            self._response = self._source.read({})
            return Finished(self._response, complete=False)
        self._response = self._source.read(joined.body)
        return Finished(self._response, joined.ended is not False)


class ResponseStream(StreamState):
    """The events of one answer, which can be iterated over once.

    The last event is `Finished`. A `with` block closes the stream.
    """

    def __init__(self, source: StreamSource) -> None:
        super().__init__(source)
        self._opened: Any = None
        self._events = self._run()

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events

    def __next__(self) -> StreamEvent:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            self._opened.close()

    def _run(self) -> Iterator[StreamEvent]:
        events, event = self._source.retrying.call(self._begin)
        while event is not None:
            yield from self._take(event)
            event = next(events, None)
        yield self._finish()

    def _begin(self, attempt: int) -> tuple[Iterator[Any], Any]:
        self._opened = self._source.open(attempt)
        events = iter(self._opened)
        return events, next(events, None)


class AsyncResponseStream(StreamState):
    """The events of one answer for async code: `async for event in client.astream(…)`."""

    def __init__(self, source: StreamSource) -> None:
        super().__init__(source)
        self._opened: Any = None
        self._events = self._run()

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._events

    async def __anext__(self) -> StreamEvent:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            close: Callable[[], Awaitable[None]] = getattr(self._opened, "aclose", None) or self._opened.close
            await close()

    async def _run(self) -> AsyncIterator[StreamEvent]:
        events, event = await self._source.retrying.acall(self._begin)
        while event is not None:
            for delta in self._take(event):
                yield delta
            event = await anext(events, None)
        yield self._finish()

    async def _begin(self, attempt: int) -> tuple[AsyncIterator[Any], Any]:
        self._opened = await self._source.open(attempt)
        events = aiter(self._opened)
        return events, await anext(events, None)
