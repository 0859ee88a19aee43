"""One HTTP exchange with a model, from the request to the last byte, as the journal gets to know it.

The transports call it and know nothing of the journal; it knows nothing of httpx. The request is on file before it
is sent, the response before the caller has its last byte. Every method is guarded by the run's guard: whatever
happens here, the call goes on as it would without us.
"""

from __future__ import annotations

import base64
import itertools
import json
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import urljoin
from weakref import ref

from trace_recorder.background_work import breathe, work_aside
from trace_recorder.capture import headers
from trace_recorder.capture import stream_flusher as pulse
from trace_recorder.capture import usage_warning as usage_notice
from trace_recorder.capture.decoding import Decoder, decoder_of
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.dialects.readers import join_stream, why_incomplete
from trace_recorder.guard import attempt, is_recording
from trace_recorder.recording.run import Run
from trace_recorder.storage import stream_chunks
from trace_recorder.storage.redaction.redactor import clean_url, url_secrets
from trace_recorder.values.json_text import NotJsonError, one_line, parse
from trace_recorder.values.jsonable import facts, members, message_of, named_error, to_json
from trace_recorder.values.messages import JoinedStream, Payload, known

__records__ = True  # `guard.is_recording` looks for this name
from trace_recorder.derive.live_document.writer import When
from trace_recorder.storage.redaction.body_parts import LARGEST, BodyPart

STREAM_TYPES = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/stream+json")
REDIRECTS = (307, 308)
"""The two that have a request sent again as it was."""
FLUSH_BYTES = 32 * 1024
FLUSH_SECONDS = 1.0
PATIENCE = 1.0
"""For how many seconds an ending run waits for a stream that is being recorded at that moment."""
LONG_STREAM = 32 * 1024
"""Putting a stream of fewer bytes together takes no longer than an event loop may wait."""
ASIDE_SECONDS = 10.0
"""For how many seconds an ending run waits for a stream that is put together aside."""
MOST_PARTS = 64
"""Of so many parts is made, at most, what is there at once."""
LARGE_BODY = 48 * 1024
"""A plain body of more bytes is written in parts while it comes, a request aside: it would hold an event loop."""
LONGEST_LINE = 4 * 1024 * 1024
"""A stream is cut at the ends of lines, where no secret is cut in two; a line that is longer than this, anywhere."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it is about to be sent."""

    endpoint: Endpoint
    method: str
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Failed:
    """The last exchange in this context, which failed or was sent elsewhere: an equal request is its next attempt."""

    run: Run
    interaction_id: str
    attempt: int
    sent: Sent
    redirected: bool = False
    claims: Iterator[int] = field(default_factory=itertools.count)
    """Contexts are copied: of all that see this failure, the first that asks the same is the next attempt."""


_failed: ContextVar[_Failed | None] = ContextVar("trace_recorder_failed_attempt", default=None)


class Exchange:
    """The recording of one exchange. Call `answered` or `failed`; then `chunk`s; then `ended` or `closed`."""

    def __init__(self, run: Run, sent: Sent) -> None:
        self.run = run
        self._sent = sent
        self._began = time.perf_counter()
        self._lock = threading.RLock()
        self._done = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._decode: Decoder | None = None
        self._streams = False
        self._buffer: list[stream_chunks.Piece] = []
        self._continues = False
        self._written: list[bytes] = []
        self._buffered = 0
        self._due = FLUSH_BYTES
        self._flushed = self._began
        self._chunks = 0
        self._part = BodyPart()
        self._parts = 0
        self._lost = False
        self._guarded = run.guard("record a part of a response")
        self._hearer: ref[object] | None = None
        self._aside: threading.Event | None = None
        self._request_aside: threading.Event | None = None
        self._given_up: BaseException | None = None
        self._ended_at = -1.0
        self._first: float | None = None
        self._last: float | None = None
        self.interaction_id, self._attempt, self._inferred = self._identity()

    def _identity(self) -> tuple[str, int, bool]:
        """A new interaction; or another attempt of the one that failed last here, if that sent the same."""
        last = _failed.get()
        if last is not None:
            _failed.set(None)
            if last.run is self.run and _is_same(last.sent, self._sent) and next(last.claims) == 0:
                stated = dict(self._sent.headers).get(b"x-stainless-retry-count", b"0") != b"0"
                return last.interaction_id, last.attempt + 1, not (stated or last.redirected)
        return self.run.next_id(), 0, False

    def begin(self, context: Mapping[str, Payload]) -> None:
        """Write the request; `context` says of which agent and step it is."""
        sent = self._sent
        self.run.hold(self)
        self.run.learn([*headers.secrets(sent.headers), *url_secrets(sent.url)], headers.cookies(sent.headers))
        about = self._about() | known(
            api=sent.endpoint.api,
            provider=sent.endpoint.provider,
            model=sent.endpoint.model,
            method=sent.method,
            stream=sent.endpoint.streams or None,
            inferred=self._inferred or None,
            **context,
        )
        said = facts({"url": clean_url(sent.url), "headers": headers.kept(sent.headers)})
        try:
            self.run.append_body("llm_request", about, said, sent.body)
        except NotJsonError:
            self.run.append("llm_request", about, f"{said},{_as_text(self.run.mask_bytes(sent.body))}")

    def is_large(self) -> bool:
        """Whether writing the request would hold an event loop for long. What is refused loudly is not put off."""
        body = self._sent.body
        return len(body) > LARGE_BODY and not self.run.guard.strict and self.run.new_bytes(body) > LARGE_BODY

    def begin_aside(self, context: Mapping[str, Payload]) -> Callable[[], None]:
        """What writes the request, for another thread: whoever ends the run meanwhile waits for it."""
        self._request_aside = written = threading.Event()
        self.run.hold(self)

        def write() -> None:
            try:
                with self.run.guard("record a request"):
                    self.begin(context)
                    return
                with self._lock:
                    self._finish()  # as nothing was written of it, nothing will be
                self.run.let_go(self)
            finally:
                with self._lock:
                    written.set()
                if self._given_up is not None:
                    self.failed(self._given_up)

        return write

    def given_up(self, error: BaseException) -> None:
        """Hear that the call was cancelled while its request was being written."""
        with self._lock:
            self._given_up = error
            if self._request_aside is None or not self._request_aside.is_set():
                return
        self.failed(error)

    def _about(self) -> dict[str, Payload]:
        return {"interaction_id": self.interaction_id, "attempt": self._attempt}

    def answered(self, status: int, raw: list[tuple[bytes, bytes]]) -> None:
        """Hear the status and the headers of the response."""
        with self.run.guard("record a response's headers"):
            self._status = status
            self._headers = headers.kept(raw)
            if status >= 400:
                self._remember_failure()
            elif status in REDIRECTS:
                self._remember_redirect(dict(raw))
            media = self._headers.get("content-type", "").split(";")[0].strip().lower()
            self._streams = media in STREAM_TYPES or (status < 400 and media != "application/json" and self._asked())
            self._decode = decoder_of(self._headers.get("content-encoding", ""))

    def heard_by(self, hearer: object) -> None:
        """Hear who tells of the response from now on: an object that the caller may drop."""
        self._hearer = self.run.watch(self, hearer)

    def left(self) -> None:
        """Hear that it was dropped."""
        self.closed("it was abandoned")

    def _asked(self) -> bool:
        """Whether a stream was asked for."""
        return self._sent.endpoint.streams or b'"stream":true' in self._sent.body.replace(b" ", b"")

    def _remember_failure(self) -> None:
        _failed.set(_Failed(self.run, self.interaction_id, self._attempt, self._sent))

    def _remember_redirect(self, raw: Mapping[bytes, bytes]) -> None:
        elsewhere = next((value for name, value in raw.items() if name.lower() == b"location"), b"")
        sent = replace(self._sent, url=urljoin(self._sent.url, elsewhere.decode("latin-1")))
        _failed.set(_Failed(self.run, self.interaction_id, self._attempt, sent, redirected=True))

    def failed(self, error: BaseException) -> None:
        """Hear that there is no response: the connection failed, timed out, or was cancelled."""
        with self.run.guard("record a failed call"):
            if self._finish():
                self._remember_failure()
                about = self._about() | {"duration_seconds": self._seconds()}
                self.run.append("llm_error", about, members(named_error(error)))
                self.run.let_go(self)

    def chunk(self, data: bytes) -> None:
        """Take the next bytes of the response, as they came over the wire.

        The caller waits for each: but for an encoding, there is nothing here that could fail, nor a lock.
        """
        if self._done or self.run.abandoned:
            return
        self._last = now = time.perf_counter()
        if self._first is None:
            self._first = now
        self._chunks += 1
        if self._decode is None:
            self._keep(now, data)
        else:
            self._take_encoded(now, data)
        if self._is_due(now):
            self.write_on()
        elif self._streams and not pulse.is_watched(self):
            with self._guarded:
                pulse.watch(self)

    def _is_due(self, now: float) -> bool:
        if self._streams:
            return self._buffered >= self._due or now - self._flushed >= FLUSH_SECONDS
        return self._buffered >= (self._due if self._parts else LARGE_BODY)

    def _keep(self, now: float, data: bytes) -> None:
        """Keep what came, to be written; a plain body's in pieces of a part's size."""
        if self._streams or len(data) <= LARGEST:
            self._buffer.append((now, data))
        else:
            self._buffer += [(now, data[at : at + LARGEST]) for at in range(0, len(data), LARGEST)]
        self._buffered += len(data)

    def _take_encoded(self, now: float, data: bytes) -> None:
        """Undo the encoding; where that fails once, what follows cannot be understood either."""
        with self._guarded, self._lock:
            if self._lost or self._decode is None:
                return
            self._lost = True
            decoded = self._decode(data)
            self._lost = False
            self._keep(now, decoded)

    def write_on(self) -> None:
        """Write a part of what has come."""
        with self._guarded:
            self._flush_part(last=False)

    def is_behind(self) -> bool:
        """Whether more can be written than one part: a chunk, above all an encoded one, may hold several."""
        return not self._done and self._buffered >= self._due and (self._streams or self._parts > 0)

    def catch_up(self) -> None:
        """Write what waits, where no event loop does."""
        while self.is_behind():
            self.write_on()

    def whole(self, content: bytes) -> None:
        """Take a response that is there already, its encoding undone."""
        self._decode = None
        self.chunk(content)
        self.catch_up()
        self.ended()

    def beat(self, *, last: bool = False) -> None:
        """Write what has waited for a second; for the `last` time, also what may still become a secret."""
        with self.run.guard("record a part of a response"), self._held() as is_held:
            self.run.settle_left()
            if is_held and not self._done:
                self.flush(last=last)
                pulse.watch(self)

    def cut_off(self) -> None:
        """Hear that the run ends while the response goes on: what has come of it is all that is recorded."""
        with self._held() as is_held:
            if is_held and self._status and self._aside is None:
                self._end("record a response that goes on", "the run ended", None)

    @contextmanager
    def _held(self) -> Iterator[bool]:
        """Hold the lock if it can be had: whoever holds it may wait for what a signal's handler has interrupted."""
        held = self._lock.acquire(timeout=PATIENCE)
        try:
            yield held
        finally:
            if held:
                self._lock.release()

    def flush(self, *, last: bool = False) -> None:
        """Write what has come and is not on file yet: of a stream up to the end of its last whole line."""
        while self._flush_part(last=last):
            breathe()

    def _flush_part(self, *, last: bool) -> bool:
        """Write one part; whether more can be written."""
        with self._lock:
            if self._done and not last:
                return False
            self._flushed = time.perf_counter()
            before, is_first_try = self._buffered, self._due <= FLUSH_BYTES
            self._due = max(FLUSH_BYTES, 2 * before)  # what cannot be written is not tried with every chunk
            if self._streams:
                self._flush_stream(max(FLUSH_BYTES, before // MOST_PARTS) if is_first_try else before, last=last)
            else:
                self._flush_body(last=last)
            if self._buffered < before:
                self._due = FLUSH_BYTES
            return self._buffered < before and self._buffered >= (1 if last else FLUSH_BYTES)

    def _flush_body(self, *, last: bool) -> None:
        """Write a part of a plain body."""
        pieces = _beginning(self._buffer, LARGEST)
        data = _joined(pieces)
        if not data:
            return
        is_last = last and len(data) == self._buffered and len(data) <= LARGEST
        part = self.run.mask_part(self._part, data[:LARGEST], last=is_last)
        about = {"status": self._status, "time_to_first_token_seconds": None, "bytes": part.size, "plain": True}
        about = self._about() | about | {"zlib": _packed(part.masked, 1)} | known(redacted=part.redacted or None)

        def taken() -> None:
            _, self._buffer[: len(pieces)], _ = stream_chunks.split(pieces, part.size)
            self._buffered -= part.size
            self._part = part
            self._parts += 1

        self.run.append("llm_stream", about, facts({"headers": self._headers}), taken)

    def _flush_stream(self, size: int, *, last: bool) -> None:
        """Write a part of a stream, up to the end of a line; of a long line, or one that waits, all that can be."""
        before = self._buffered
        if before > size:
            parts = _beginning(self._buffer, size)
            data = _joined(parts)
            self._write_lines(parts, data[: data.rfind(b"\n", 0, size) + 1], last=False)
            if self._buffered < before:
                return
        parts = self._buffer[:]  # chunks may be added behind these meanwhile
        data = _joined(parts)
        whole = last or len(data) >= LONGEST_LINE
        self._write_lines(parts, data if whole else data[: data.rfind(b"\n") + 1], last=whole)

    def _write_lines(self, parts: list[stream_chunks.Piece], data: bytes, *, last: bool) -> None:
        """Write what stands in the first pieces."""

        def taken(masked: bytes, end: int) -> None:
            _, self._buffer[: len(parts)], self._continues = stream_chunks.split(parts, end)
            self._buffered -= end
            self._written.append(masked)

        if data:  # what cannot be written now stays, and is tried again
            self._write_stream(data, taken, last=last)

    def _write_stream(self, data: bytes, taken: Callable[[bytes, int], None], *, last: bool) -> None:
        """Write a part of a stream as far as its text is finished, and say what is on file, and of how many bytes."""
        masked, redacted, end = self.run.mask_stream(data, last=last)
        if not end:
            return
        about = {
            "status": self._status,
            "time_to_first_token_seconds": self._seconds(self._first),
            "bytes": end,
            "zlib": _packed(masked, 6),
            **stream_chunks.described(stream_chunks.split(self._buffer, end)[0], self._began, masked),
        } | known(continues=self._continues or None, redacted=redacted or None)
        about = self._about() | about
        self.run.append("llm_stream", about, facts({"headers": self._headers}), partial(taken, masked, end))

    def ended(self) -> None:
        """Hear that the response came whole."""
        self._end("record a response", None, None)

    def ended_beside_a_loop(self) -> None:
        """Hear the same where an event loop waits: a long stream is put together, and written, by another thread.

        What came of it is on file before this returns.
        """
        if self._done or not self._streams or self._buffered + sum(map(len, self._written)) < LONG_STREAM:
            self.ended()
            return
        with self.run.guard("record a part of a response"):
            self.flush(last=True)
        self._ended_at = time.perf_counter()
        self._aside = aside = threading.Event()
        try:
            threading.Thread(target=self._end_aside, args=(aside,), name="trace_recorder response", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._aside = None
            self.ended()

    def _end_aside(self, aside: threading.Event) -> None:
        try:
            work_aside(self.ended)
        finally:
            aside.set()

    def wait(self) -> None:
        """Wait for what is written aside; a run that a signal's handler ends may hold what that waits for."""
        for one in (self._request_aside, self._aside):
            if one is not None:
                one.wait(ASIDE_SECONDS)

    def closed(self, why: str) -> None:
        """Hear that the caller let go of the response before its end."""
        if self._done or self._aside is not None:  # as it mostly is: looking through the stack takes long
            return
        if self._hearer is not None and self._hearer() is None:  # a generator closes it, but nobody asked for that
            why = "it was abandoned"
        end = partial(self._end, "record a response that was let go of", why, None)
        if is_recording():  # the garbage collector lets go of it, in a thread that may hold locks
            self.run.later(end)
        else:
            end()

    def broken(self, error: BaseException) -> None:
        """Hear that the response broke off."""
        if self._aside is not None:
            return
        if not isinstance(error, GeneratorExit):
            self._end("record a broken response", _in_words(error), error)
        else:
            self.closed("the caller closed it")

    def _end(self, what: str, why: str | None, error: BaseException | None) -> None:
        if self._done or self.run.abandoned or sys.is_finalizing():  # asked before the lock: see `Run.append`
            return
        with self.run.guard(what), self._lock:
            if self._finish():
                attempt(lambda: self._write_ending(why, error), self._write_bare_ending)
                self._buffer, self._written = [], []  # a caller may keep the response, or it be in a cycle of its own
                self.run.let_go(self)  # last: a run that ends meanwhile waits for it

    def _write_ending(self, why: str | None, error: BaseException | None) -> None:
        if self._streams:
            about, said = self._stream_members(why)
        else:
            about, said = self._members_in_parts(why) if self._parts else self._plain_members(why)
        broken = error is not None and about["complete"] is False
        if broken:
            self._remember_failure()
        about = self._about() | {"status": self._status, "duration_seconds": self._seconds(self._ended_at), **about}
        more = known(
            headers=self._headers,
            error=named_error(error) if error and broken else None,
            ended_by=about.pop("ended_by", None),  # an exception's message, which may hold a secret
        )
        when: When | None = "soon" if self._parts else None  # there is much to read for the document
        self.run.append("llm_response", about, ",".join(filter(None, (facts(more), said))), when=when)

    def _write_bare_ending(self, failure: Exception) -> None:
        """Say at least that it has ended, where what came cannot be written."""
        ended = {"headers": {}, "complete": False, "ended_by": "it could not be recorded", "text": ""}
        about = {**self._about(), "status": self._status, "duration_seconds": self._seconds(), **ended}
        attempt(lambda: self.run.append("llm_response", about), lambda _: None)
        raise failure

    def _stream_members(self, why: str | None) -> tuple[dict[str, Payload], str]:
        self.flush(last=True)
        joined = self._joined()
        why = why or self._missing() or (why_incomplete(joined) if self._status < 300 else None)
        complete = why is None or (joined is not None and joined.ended and not self._lost)
        about = {"complete": complete, "stream": True, "chunks": self._chunks} | known(
            ended_by=None if complete else why,
            events=joined.events if joined else None,
            last_event=joined.ended if joined else None,
            time_to_first_token_seconds=self._seconds(self._first),
            time_to_last_token_seconds=self._seconds(self._last),
        )
        if complete and joined is not None and self._status < 300:
            usage_notice.look(self._sent.endpoint.api, self._sent.body, joined.body)
        return about, f'"assembled":{to_json(joined.body if joined else None)}'

    def _joined(self) -> JoinedStream | None:
        with self.run.guard("put a stream together"):
            return join_stream(self._sent.endpoint.api, b"".join(self._written))
        return None

    def _missing(self) -> str | None:
        return "a part of it could not be decoded" if self._lost else None

    def _plain_members(self, why: str | None) -> tuple[dict[str, Payload], str]:
        why = why or self._missing()
        return {"complete": why is None, **known(ended_by=why)}, _as_body(self.run.mask_bytes(_joined(self._buffer)))

    def _members_in_parts(self, why: str | None) -> tuple[dict[str, Payload], str]:
        self.flush(last=True)
        why = why or self._missing()
        return {"complete": why is None, "parts": self._parts, **known(ended_by=why)}, ""

    def _finish(self) -> bool:
        """Whether this is the first end that is heard of."""
        first, self._done = not self._done and not self.run.abandoned, True
        self._hearer = None
        pulse.forget(self)
        return first

    def _seconds(self, at: float | None = -1.0) -> float | None:
        if at is None:
            return None
        return round((time.perf_counter() if at < 0 else at) - self._began, 6)


def _is_same(one: Sent, other: Sent) -> bool:
    return one.url == other.url and one.body == other.body


def _joined(pieces: list[stream_chunks.Piece]) -> bytes:
    return b"".join([data for _, data in pieces])


def _beginning(pieces: list[stream_chunks.Piece], size: int) -> list[stream_chunks.Piece]:
    """The first pieces that make so many bytes, or all."""
    found = 0
    for number, (_, data) in enumerate(pieces[:], 1):
        found += len(data)
        if found >= size:
            return pieces[:number]
    return pieces[:]


def _packed(data: bytes, level: int) -> str:
    """A part's text as it is on file. What can be packed beyond measure is not: a reader would take it for a bomb."""
    packed = zlib.compress(data, level)
    return base64.b64encode(packed if len(data) < 32 * len(packed) else zlib.compress(data, 0)).decode()


def _in_words(error: BaseException) -> str:
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _as_body(data: bytes) -> str:
    """A plain response as a member of a record: its JSON as it came, else its text, else its bytes."""
    try:
        text = data.decode()
        parse(text)
    except (UnicodeDecodeError, NotJsonError):
        return _as_text(data)
    return f'"body":{one_line(text)}'


def _as_text(data: bytes) -> str:
    try:
        return f'"text":{json.dumps(data.decode(), ensure_ascii=False)}'
    except UnicodeDecodeError:
        return f'"base64":"{base64.b64encode(data).decode()}"'
