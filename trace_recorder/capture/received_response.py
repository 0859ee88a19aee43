"""The bytes of one response: received chunk by chunk. A stream is written to the journal in parts while the rest comes.

A stream is cut at the ends of its lines. Each part is one `llm_stream` record. A part that cannot be written stays in
the buffer, and is tried again. The bytes of a plain body stay in the buffer until its end.

The thread that reads the response adds chunks to the buffer without a lock. Several threads may do so for the messages
of a websocket, because one sends while another one receives. Parts are taken from the beginning of the buffer
while `lock` is held. A thread that needs both locks takes `lock` first, then the run's lock. The exchange holds `lock`
while it writes the end. Three threads take `lock`: the thread that reads the response, the flusher's thread, and
the thread that ends the run. The last of them waits for a second at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from trace_recorder.background_work import yield_to_others
from trace_recorder.capture import stream_flusher
from trace_recorder.capture.decoding import EncodedBody
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.decompression import Decoder
from trace_recorder.facts import LLMStreamFact, WebsocketFramesFact
from trace_recorder.locks import new_lock
from trace_recorder.recording.run import Run
from trace_recorder.storage import stream_chunks
from trace_recorder.storage.stream_chunks import first_pieces, joined_bytes, packed
from trace_recorder.values.messages import Payload

MAX_PARTS = 64
"""`_flush_part` cuts the text of a stream in the buffer into at most this many parts.

The parts of a long text are longer.
"""
LARGE_REQUEST_BYTES = 48 * 1024
"""Beside an event loop, a thread writes a request of more bytes than this."""
DECODED_BYTES = 256 * 1024
"""A compressed body is decoded in pieces of about this many bytes, between which parts are written."""
SHORT_BYTES = 8 * 1024
"""An event loop writes up to this many bytes itself. If there are more, a thread writes them, and the call waits."""
MAX_LINE_BYTES = 4 * 1024 * 1024
"""A line of more bytes than this is cut anywhere.

Otherwise a stream is cut at the ends of lines, to keep secrets whole.
"""
PACKED_LEVEL = 3
"""The compression level of zlib for parts. Level 6 makes recorded streams 6 % smaller, and takes 1.7 times as long."""

PART = "record a part of a response"
"""The action that the guard names if a part cannot be written."""


class ReceivedResponse:
    """The status, the headers and the bytes of a response, and which of the bytes are on file.

    Unless `set_form` is called, the response is a plain body without an encoding. `members` are the members that each
    record of the attempt has. `began` is the time at which the request was sent. If `in_parts` is False, no part of a
    stream is written: the whole response stays in `buffer` until its end. `part` is the kind of fact that a part
    becomes. The messages of a websocket outside of responses become `websocket_frames`, and nothing joins them.
    """

    done = False
    """Whether the end of the response is on file or is being written. Later chunks are not recorded."""
    status = 0
    is_stream = False
    is_live_stream = False
    """Whether the response is a stream, with parts that are written while it comes."""
    chunks = 0
    first: float | None = None
    """When the first chunk came, on the clock `monotonic_seconds`. `last` is the time of the last chunk."""
    last: float | None = None
    _buffered = 0
    _flush_seconds = math.inf
    encoded: EncodedBody | None = None
    """The bytes that must be decoded, or None if the response has no encoding."""
    is_too_large = False
    """Whether the response is longer, or decompresses to more, than may be recorded."""
    _framing: str | None = None
    _continues = False

    def __init__(
        self,
        run: Run,
        members: dict[str, Payload],
        began: float,
        *,
        in_parts: bool = True,
        part: type[LLMStreamFact | WebsocketFramesFact] = LLMStreamFact,
    ) -> None:
        self.run = run
        self._part = part
        self.lock = new_lock()
        self.headers: dict[str, str] = {}
        self.buffer: list[stream_chunks.TimedBytes] = []
        self.written: list[bytes] = []
        """The texts of a stream's parts that are on file, to be joined at its end, even if no texts are written."""
        self._members = members
        self._began = self._flushed = began
        self._in_parts = in_parts
        self._due: float = math.inf
        self._max_bytes = run.limits.body_bytes

    def set_form(self, *, is_stream: bool, decode: Decoder | None, framing: str | None) -> None:
        """Set how the bytes are decoded and cut.

        `framing` is the name of the binary framing if `decode` turns frames into lines, or "websocket".
        """
        self.encoded = None if decode is None else EncodedBody(decode)
        self._framing = framing
        self.is_stream, self.is_live_stream = is_stream, is_stream and self._in_parts
        if self.is_live_stream:
            self._due, self._flush_seconds = self.run.limits.flush_bytes, self.run.limits.flush_seconds

    def chunk(self, data: bytes) -> bool:
        """Take the next bytes, as they came over the wire.

        Return whether a part is due. If so, the caller calls `write_due`. The agent waits while this method runs. For a
        chunk that needs no decoding, the method takes no lock and cannot fail, unless the flusher must watch the stream
        again. A chunk that must be decoded is decoded only in part if it becomes long. `write_due` decodes the rest.
        """
        if self.done or self.run.abandoned:
            return False
        now = monotonic_seconds()
        self.chunks += 1
        if self.encoded is not None:
            self.encoded.add(now, data)
            self._decode(SHORT_BYTES)
            if self.encoded.has_more:
                return True
        elif data:  # as in `_keep`, without a call, because a stream has many chunks
            if self.first is None:
                self.first = now
            self.last = now
            self.buffer.append((now, data))
            size = len(data)
            self._buffered += size  # a call inside this statement would let another thread add at the same time
            if self._buffered > self._max_bytes:
                self._refuse_large_body()
        if self.is_live_stream and self not in stream_flusher.watched:
            with self.run.guard.protect(PART):
                stream_flusher.watch(self)
        return self._buffered > 0 and (self._buffered >= self._due or now - self._flushed >= self._flush_seconds)

    def _keep(self, now: float, data: bytes) -> None:
        """Add decoded bytes to the buffer."""
        if not data:  # a chunk may decode to nothing, such as the header of gzip
            return
        if self.first is None:
            self.first = now
        self.last = now
        self.buffer.append((now, data))
        self._buffered += len(data)
        if self._buffered > self._max_bytes:
            self._refuse_large_body()

    def _decode(self, size: int) -> None:
        """Decode received bytes until the buffer has `size` more bytes, or no bytes are left."""
        encoded, limit = self.encoded, self._buffered + size
        if encoded is None or self.done:
            return
        with self.run.guard.protect(PART):
            while encoded.has_more and self._buffered < limit:
                self._keep(*encoded.next_piece())
            if encoded.is_too_large:
                self.is_too_large = True
                with self.lock:
                    self.buffer, self._buffered = [], 0

    def _refuse_large_body(self) -> None:
        """Forget a plain body that is too large to be recorded. Its end states that it is missing.

        Also forget the messages of a websocket that could not be written, because it may be open for days.
        """
        if not self.is_stream:
            self.is_too_large = True
            self.buffer, self._buffered = [], 0
        elif self._part is WebsocketFramesFact:
            with self.lock:
                self.buffer, self._buffered = [], 0
            why = f"more than {self._max_bytes} bytes of them could not be written"
            self.run.guard.queue_failure("record the messages of a websocket", why)

    def is_short(self) -> bool:
        """Whether the unwritten text is so short that an event loop may write it."""
        if self.run.guard.strict:  # a strict run raises here, not in a thread
            return True
        return self._buffered <= SHORT_BYTES and (self.encoded is None or not self.encoded.has_more)

    def size(self) -> int:
        """Return how many bytes are in memory."""
        return self._buffered + sum(map(len, self.written))

    @property
    def missing(self) -> str | None:
        """Why a part of the response is missing, or None if no part is missing."""
        why = None if self.encoded is None else self.encoded.why_missing()
        if why is None and self.is_too_large:
            why = f"it has more than {self._max_bytes} bytes"
        return why

    def write_due(self) -> None:
        """Decode what was received, and write all parts that are due.

        A part that cannot be written is tried again when more bytes have come.
        """
        self._write_due()
        while self.encoded is not None and self.encoded.has_more and not self.done:
            self._decode(DECODED_BYTES)
            yield_to_others()
            self._write_due()

    def _write_due(self) -> None:
        """Write all decoded parts that are due. One chunk may contain several parts."""
        before = math.inf
        while self.buffer and not self.done and self._buffered < before:
            before = self._buffered
            if before < self._due and monotonic_seconds() - self._flushed < self._flush_seconds:
                return
            with self.run.guard.protect(PART), self.lock:
                self._flush_part(last=False)
            yield_to_others()

    def write_pending(self, *, last: bool = False) -> None:
        """Write the bytes of a stream received so far.

        The beginning of a possible secret is written only if `last` is True.
        """
        if not self.is_live_stream:
            return
        with self.run.guard.protect(PART):
            self.run.unfinished.end_abandoned()
            with self.held() as is_held:
                if is_held and not self.done:
                    try:
                        self.flush(last=last)
                    finally:  # a part that could not be written is tried again, even if no further chunk comes
                        stream_flusher.watch(self)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the lock in the block.

        Yield False if it is not free in time: its holder may wait for an interrupted thread.
        """
        is_held = self.lock.acquire(timeout=self.run.limits.lock_timeout_seconds)
        try:
            yield is_held
        finally:
            if is_held:
                self.lock.release()

    def finish(self) -> bool:
        """Take no more chunks. Return True for the first call, and False if the response had ended before."""
        is_first, self.done = not self.done and not self.run.abandoned, True
        if self.is_live_stream:
            stream_flusher.forget(self)
        return is_first

    def flush(self, *, last: bool = False) -> None:
        """Write all received bytes of a stream that are not on file yet, up to the end of its last whole line.

        If `last` is True, write the rest too. The caller holds `lock`.
        """
        while self._flush_part(last=last):
            yield_to_others()

    def _flush_part(self, *, last: bool) -> bool:
        """Write one part. Return whether more can be written. The caller holds `lock`."""
        if not last and (self.done or (self.encoded is not None and self.encoded.may_be_too_large)):
            return False
        self._flushed = monotonic_seconds()
        size = self.run.limits.flush_bytes
        before, is_first_try = self._buffered, self._due <= size
        self._due = max(size, 2 * before)  # a part that cannot be written is not tried again with every chunk
        self._flush_stream(max(size, before // MAX_PARTS) if is_first_try else before, last=last)
        if self._buffered < before:
            self._due = size
        return self._buffered < before and self._buffered >= (1 if last else size)

    def _flush_stream(self, size: int, *, last: bool) -> None:
        """Write whole lines of a stream as a part. Write as much as possible of a very long line."""
        before = self._buffered
        if before > size:
            parts = first_pieces(self.buffer, size)
            data = joined_bytes(parts)
            self._write_lines(parts, data[: data.rfind(b"\n", 0, size) + 1], last=False)
            if self._buffered < before:
                return
        parts = self.buffer[:]  # meanwhile the reading thread may add chunks after these
        data = joined_bytes(parts)
        is_whole = last or len(data) >= MAX_LINE_BYTES
        self._write_lines(parts, data if is_whole else data[: data.rfind(b"\n") + 1], last=is_whole)

    def _write_lines(self, parts: list[stream_chunks.TimedBytes], data: bytes, *, last: bool) -> None:
        """Write `data`, the text of the first chunks of the buffer.

        Text at the end of `data` that may be part of a secret stays in the buffer.
        """
        if not data:
            return
        masked, redacted, end = self.run.redaction.mask_stream(data, last=last, fact=self._part.kind)
        if not end:  # the text stays in the buffer, and is tried again
            return
        yield_to_others()
        text = packed(masked, PACKED_LEVEL)
        yield_to_others()
        chunks, rest, continues = stream_chunks.split_at(parts, end)
        is_response = self._part is LLMStreamFact
        fact = self._part(
            **self._members,
            **(self._members_of_response() if is_response else {}),
            bytes=end,
            zlib=text,
            continues=self._continues or None,
            redacted=redacted or None,
            **stream_chunks.describe_chunks(chunks, self._began, masked),
        )
        yield_to_others()

        def remove_written() -> None:
            self.buffer[: len(parts)] = rest
            self._buffered -= end
            self._continues = continues
            if is_response:
                self.written.append(self.run.redaction.assembled_text(data[:end], masked))

        self.run.append(fact, remove_written)

    def _members_of_response(self) -> dict[str, Payload]:
        return {
            "status": self.status,
            "time_to_first_token_seconds": self.seconds(self.first),
            "framing": self._framing or None,
            "headers": self.headers,
        }

    def seconds(self, moment: float | None) -> float | None:
        """Return the seconds from the request to a moment on the clock `monotonic_seconds`."""
        return None if moment is None else round(moment - self._began, 6)
