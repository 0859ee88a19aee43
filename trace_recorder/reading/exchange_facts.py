"""The facts of one HTTP exchange, which is one attempt of an interaction: the request, the parts of a stream, the end.

An `ExchangeFacts` reads the response from these facts on demand. Any of the facts may be missing, and none is trusted.
A call that the agent recorded by hand has one exchange, and its only fact is the call itself.
"""

from __future__ import annotations

import base64
import zlib

from trace_recorder.background_work import yield_to_others
from trace_recorder.decompression import max_size
from trace_recorder.dialects.dialect import dialect_of, join_stream
from trace_recorder.facts import (
    ABSENT,
    LLMErrorFact,
    LLMInteractionFact,
    LLMRequestFact,
    LLMResponseFact,
    LLMStreamFact,
)
from trace_recorder.reading.record_bodies import media_body, raw_body, read_body
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.stream_chunks import TimedBytes, read_chunks
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import NO_RESPONSE, JoinedStream, LLMResponse, Payload
from trace_recorder.values.structs import Struct, field, replace

Request = LLMRequestFact | LLMInteractionFact
Ending = LLMResponseFact | LLMErrorFact
FAILURES = 400
"""The first HTTP status of failures."""
_NOT_READ = JoinedStream(None, None, 0)


class ExchangeFacts(Struct, gc=False, eq=False):
    """The facts of one exchange. The garbage collector skips these objects, because none is part of a cycle.

    - `number`: the number of the attempt
    - `request`, `time`: the request, or None if its record is missing, and the time of its record
    - `by_hand`: the request, if the agent recorded the call by hand
    - `dialect`: the dialect of the request, or None if the request is missing
    - `asks_for_stream`: whether the request asks for a stream, according to its fact or to its body
    - `parts`: the parts of the stream
    - `ending`: the response or the error, or None while the exchange is in progress
    - `response`: the end, if it is a response and not an error
    - `was_polled`: whether the response is the final answer to a poll
    - `newest`: the end, or else the newest part of the stream
    - `is_damaged`: whether the stream cannot be unpacked. Reading the stream sets it
    """

    number: int
    request: Request | None = None
    time: str = ""
    by_hand: LLMInteractionFact | None = None
    dialect: str | None = None
    asks_for_stream: bool = False
    parts: list[LLMStreamFact] = field(default_factory=list)
    ending: Ending | None = None
    response: LLMResponseFact | None = None
    was_polled: bool = False
    newest: LLMStreamFact | Ending | None = None
    is_damaged: bool = False
    _joined: JoinedStream | None = _NOT_READ

    def add_part(self, part: LLMStreamFact) -> None:
        """Add the next part of the stream."""
        self.parts.append(part)
        self._joined = _NOT_READ
        if self.ending is None:
            self.newest = part

    def end(self, ending: Ending) -> None:
        """Set the end. The end of a stream never replaces the final response to a poll."""
        self._joined = _NOT_READ
        response = ending if isinstance(ending, LLMResponseFact) else None
        is_polled = response is not None and response.polled is True
        if is_polled or not self.was_polled:
            self.ending = self.newest = ending
            self.response, self.was_polled = response, is_polled

    def take_over(self, earlier: ExchangeFacts) -> None:
        """Take the end of an exchange with the same number, and its parts if its request was missing until now."""
        self.ending, self.response, self.was_polled = earlier.ending, earlier.response, earlier.was_polled
        self.newest = earlier.ending
        if earlier.request is None:
            self.parts, self.newest = earlier.parts, earlier.newest

    # ── the stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    def stream_bytes(self) -> bytes | None:
        """Return the unpacked bytes of the stream so far, or None if there is no stream or a part is damaged."""
        parts = self._unpacked()
        if parts is None:
            return None
        return b"".join(parts)

    def raw_chunks(self) -> tuple[TimedBytes, ...] | None:
        """Return the chunks of the stream, each with the seconds since the request.

        Return None if the chunks are missing or damaged.
        """
        parts = self._unpacked()
        if parts is None:
            return None
        try:
            return read_chunks(zip(parts, self.parts, strict=True))
        except ours(ValueError, TypeError, KeyError):
            return None

    def _unpacked(self) -> list[bytes] | None:
        if not self.parts:
            return None
        try:
            return _unpack(self.parts)
        except ours(ValueError, TypeError, zlib.error):
            self.is_damaged = True
            return None

    @property
    def joined(self) -> JoinedStream | None:
        """The stream as the dialect's reader assembles it, or None if there is no stream."""
        if self._joined is _NOT_READ:
            joined, data = None, self.stream_bytes()
            if data is not None:
                joined = join_stream(self.dialect, data)
            if joined is not None:  # the bytes may have, for example, NaN or half of a surrogate pair
                joined = replace(joined, body=to_jsonable(joined.body), error=to_jsonable(joined.error))
            self._joined = joined
        return self._joined

    def stream_error(self) -> Payload:
        """Return the provider's error in the stream, or None. Assemble the stream only if it may have an error."""
        if not self._may_have_error() or self.joined is None:
            return None
        return self.joined.error

    def _may_have_error(self) -> bool:
        """Return whether the stream may have an error. If it has one, the assembled response on file has it too."""
        if self.response is None or not isinstance(self.response.assembled, dict):
            return True
        return self.response.assembled.get("error") is not None

    # ── the response ─────────────────────────────────────────────────────────────────────────────────────────────────

    def raw_response(self) -> Payload:
        """Return the response as JSON or text. Bytes that are neither, such as a sound, are an object (`media_body`).

        For a stream, return the assembled response on file. If that is missing, assemble the stream.
        """
        if self.by_hand is not None:
            return self.by_hand.response
        response = self.response
        if response is not None and response.assembled is not ABSENT:
            return response.assembled
        if self.parts and not self.was_polled and self.joined is not None:
            return self.joined.body
        if response is None:
            return None
        if response.body is not ABSENT:
            return response.body
        media = None
        if not self.was_polled:
            media = media_body(response)
        if media is None:
            return raw_body(response)
        return media

    def read_response(self, made_up_ids: int = 0) -> LLMResponse:
        """Return the response as its dialect's reader reads it.

        `made_up_ids` is how many tool calls in the request have made-up ids. Return NO_RESPONSE if the call failed, or
        if there is no response yet.
        """
        if self.ending is None and self.by_hand is None and not self.parts:
            return NO_RESPONSE
        body, reader = self.raw_response(), dialect_of(self.dialect)
        if isinstance(body, str) and self.response is not None and self.response.body is ABSENT:
            body = self._readable_text(body, self.response)
        has_failed = self.response is not None and self.response.status >= FAILURES
        if body is None or reader is None or has_failed:
            return NO_RESPONSE
        return reader.read_response(body, made_up_ids)

    def _readable_text(self, raw: str, response: LLMResponseFact) -> Payload:
        if response.text is None and response.base64 is None:
            return raw
        return read_body(response)


def _unpack(parts: list[LLMStreamFact]) -> list[bytes]:
    """Unpack the parts of a stream.

    Raises ValueError if the unpacked bytes are more than the limit, or if a part is cut off. Raises TypeError or
    zlib.error if a part is no packed text.
    """
    packed = []
    for part in parts:
        yield_to_others()
        packed.append(base64.b64decode(part.zlib))
    remaining = max_size(sum(map(len, packed)))
    inflated = []
    for data in packed:
        yield_to_others()
        stream = zlib.decompressobj()
        inflated.append(stream.decompress(data, remaining + 1))
        remaining -= len(inflated[-1])
        if remaining < 0 or not stream.eof:
            raise ValueError("a part of a stream is cut off, or too large")
    return inflated
