"""The parts of a response, written to the journal while the rest is still being received.

A stream is cut at the ends of its lines, a large plain body anywhere; each part is one `llm_stream` record. A part that
cannot be written stays in the buffer, and is tried again. The thread that reads the response adds chunks to the buffer
without a lock; parts are taken from its beginning with the lock held.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from trace_recorder.background_work import yield_to_others
from trace_recorder.capture import attempts
from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.decoding import Decoder
from trace_recorder.dialects.background import answers_in_background
from trace_recorder.locks import new_lock
from trace_recorder.recording.run import Run
from trace_recorder.storage import stream_chunks
from trace_recorder.storage.body_encoding import error_text, first_pieces, joined_bytes, packed
from trace_recorder.storage.redaction.body_parts import LARGEST, BodyPart
from trace_recorder.values.jsonable import dump_members
from trace_recorder.values.messages import Payload, without_none

MOST_PARTS = 64
"""Into how many parts, at most, the buffered text of a stream is cut at once."""
LARGE_BODY = 48 * 1024
"""A plain body of more bytes is written in parts, a request of more bytes in a thread: one write would take long."""
SHORT = 8 * 1024
"""What an event loop writes itself has up to this many bytes; more is written in a thread, for which the call waits."""
LONGEST_LINE = 4 * 1024 * 1024
"""A stream is cut at the ends of lines, where no secret is cut in two; a line of more bytes is cut anywhere."""

MOST_KEPT_PARTS = 32
"""So many parts are kept of a plain body that says whether it is final; a longer one is."""

PART = "record a part of a response"
"""What a failure to write a part is reported as."""
UNDECODED = "a part of it could not be decoded"


class ResponseParts:
    """The received bytes of one response, and which of them are on file."""

    _done = _streams = _continues = False
    _status = _buffered = _chunks = _parts = 0
    _decode: Decoder | None = None
    _missing: str | None = None
    """Why a part of the response is missing, if it is."""
    _first: float | None = None
    _last: float | None = None
    cancelled_read: BaseException | None = None
    """The exception that cancelled the last read, without its traceback, which would keep the response alive."""
    _part = BodyPart()
    _framing: str | None = None
    """The framing of a stream whose frames are on file as lines."""

    def __init__(self, run: Run, sent: SentRequest, attempt: tuple[str, int] | None = None) -> None:
        """Begin the exchange of a request; `attempt` has the interaction's id and the attempt's number, if known."""
        self.run = run
        self._sent = sent
        self._began = self._flushed = time.perf_counter()
        self._lock = new_lock()
        self._headers: dict[str, str] = {}
        self._buffer: list[stream_chunks.TimedBytes] = []
        self._written: list[bytes] = []
        self._limits = run.limits
        self._due: float = self._limits.flush_bytes
        self.interaction_id, self._attempt, self._inferred = (
            attempts.identify(run, sent) if attempt is None else (*attempt, False)
        )
        self._about: dict[str, Payload] = {"interaction_id": self.interaction_id, "attempt": self._attempt}

    def is_due(self) -> bool:
        """Whether a part is to be written before the caller gets more: a chunk may contain several."""
        if self._done or not self._buffered:
            return False
        if self._buffered >= self._due:
            return True
        return self._streams and time.perf_counter() - self._flushed >= self._limits.flush_seconds

    def is_short(self) -> bool:
        """Whether what waits to be written is so short that an event loop may wait for it."""
        return self._buffered <= SHORT or self.run.guard.strict  # a strict run raises at once

    def _cause(self, why: str | None, error: BaseException | None) -> tuple[str | None, BaseException | None]:
        """Return why a response ended early, and by which error: by a cancelled read, if no other error is known."""
        if why is None or error is not None or self.cancelled_read is None:
            return why, error
        return error_text(self.cancelled_read), self.cancelled_read

    def _keep(self, now: float, data: bytes) -> None:
        """Add decoded bytes to the buffer, a plain body's in pieces of a part's size, and note when they came."""
        if not data:  # such as a chunk that has only the header of its encoding
            return
        self._first = now if self._first is None else self._first
        self._last = now
        if self._streams or len(data) <= LARGEST:
            self._buffer.append((now, data))
        else:
            self._buffer += [(now, data[at : at + LARGEST]) for at in range(0, len(data), LARGEST)]
        self._buffered += len(data)

    def _take_encoded(self, decode: Decoder, now: float, data: bytes) -> None:
        """Decode a chunk and keep it. After one failure no further chunk can be decoded."""
        if self._missing is not None:
            return
        with self.run.guard.protect(PART):
            try:
                decoded = decode(data)
            except BaseException:
                self._missing = UNDECODED
                raise
            self._keep(now, decoded)

    def write_due(self) -> None:
        """Write all parts that are due. What cannot be written is tried again when more has come."""
        before = math.inf
        while self.is_due() and self._buffered < before:
            before = self._buffered
            with self.run.guard.protect(PART):
                self._flush_part(last=False)
            yield_to_others()

    def flush(self, *, last: bool = False) -> None:
        """Write all received bytes that are not on file yet; of a stream, up to the end of its last whole line."""
        while self._flush_part(last=last):
            yield_to_others()

    def _flush_part(self, *, last: bool) -> bool:
        """Write one part. Return whether more can be written."""
        with self._lock:
            if self._done and not last:
                return False
            self._flushed = time.perf_counter()
            size = self._limits.flush_bytes
            before, is_first_try = self._buffered, self._due <= size
            self._due = max(size, 2 * before)  # what cannot be written is not tried with every chunk
            if self._streams:
                self._flush_stream(max(size, before // MOST_PARTS) if is_first_try else before, last=last)
            else:
                self._flush_body(last=last)
            if self._buffered < before:
                self._due = size
            return self._buffered < before and self._buffered >= (1 if last else size)

    def _flush_body(self, *, last: bool) -> None:
        """Write a part of a plain body."""
        pieces = first_pieces(self._buffer, LARGEST)
        data = joined_bytes(pieces)
        if not data:
            return
        is_last = last and len(data) == self._buffered and len(data) <= LARGEST
        part = self.run.mask_part(self._part, data[:LARGEST], last=is_last)
        yield_to_others()
        about = {"status": self._status, "time_to_first_token_seconds": None, "bytes": part.size, "plain": True}
        about = self._about | about | {"zlib": packed(part.masked, 1)} | without_none(redacted=part.redacted or None)

        def taken() -> None:
            _, self._buffer[: len(pieces)], _ = stream_chunks.split_at(pieces, part.size)
            self._buffered -= part.size
            self._part = part
            self._parts += 1
            if answers_in_background(self._sent.endpoint.api) and len(self._written) < MOST_KEPT_PARTS:
                self._written.append(part.masked)

        self.run.append("llm_stream", about, dump_members({"headers": self._headers}), taken)

    def _flush_stream(self, size: int, *, last: bool) -> None:
        """Write a part of a stream, up to the end of a line; of a very long line, all that can be written."""
        before = self._buffered
        if before > size:
            parts = first_pieces(self._buffer, size)
            data = joined_bytes(parts)
            self._write_lines(parts, data[: data.rfind(b"\n", 0, size) + 1], last=False)
            if self._buffered < before:
                return
        parts = self._buffer[:]  # chunks may be added behind these meanwhile
        data = joined_bytes(parts)
        whole = last or len(data) >= LONGEST_LINE
        self._write_lines(parts, data if whole else data[: data.rfind(b"\n") + 1], last=whole)

    def _write_lines(self, parts: list[stream_chunks.TimedBytes], data: bytes, *, last: bool) -> None:
        """Write `data`, the text of the first chunks of the buffer."""

        def taken(masked: bytes, end: int) -> None:
            _, self._buffer[: len(parts)], self._continues = stream_chunks.split_at(parts, end)
            self._buffered -= end
            self._written.append(masked)

        if data:  # what cannot be written now stays, and is tried again
            self._write_stream(data, taken, last=last)

    def _write_stream(self, data: bytes, taken: Callable[[bytes, int], None], *, last: bool) -> None:
        """Write a part of a stream, up to text that may be part of a secret. Call `taken` with what was written."""
        masked, redacted, end = self.run.mask_stream(data, last=last)
        if not end:
            return
        yield_to_others()
        about = {
            "status": self._status,
            "time_to_first_token_seconds": self._seconds(self._first),
            "bytes": end,
            "zlib": packed(masked, 6),
            **stream_chunks.describe_chunks(stream_chunks.split_at(self._buffer, end)[0], self._began, masked),
        } | without_none(continues=self._continues or None, redacted=redacted or None, framing=self._framing)
        yield_to_others()
        about = self._about | about
        self.run.append("llm_stream", about, dump_members({"headers": self._headers}), partial(taken, masked, end))

    def _seconds(self, at: float | None = -1.0) -> float | None:
        if at is None:
            return None
        return round((time.perf_counter() if at < 0 else at) - self._began, 6)
