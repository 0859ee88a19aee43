"""The recording of one HTTP exchange with a model, from the request to the last byte of the response.

The transports call it and do not know the journal; this module does not know httpx. The request is on file before it
is sent, the response before the caller has its last byte. The run's guard protects every method: no failure here
changes the call.

`_lock` (of `ResponseParts`) is held while a part or the end is written; the run's lock is taken below it. Three threads
use it: the one that reads the response, the flusher, and the one that ends the run, which waits for a second at most.
`chunk` takes it only to decode, or when a part is due. The garbage collector may call `closed` in a thread that holds
any lock: then the end is recorded later.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from weakref import ref

from trace_recorder.background_work import Event
from trace_recorder.capture import attempts, background_responses, stream_flusher, usage_advice
from trace_recorder.capture.background_responses import BackgroundCall
from trace_recorder.capture.decoding import decoder_of
from trace_recorder.capture.event_loops import run_in_thread, start_or_run
from trace_recorder.capture.response_parts import LARGE_BODY, PART, SHORT, ResponseParts
from trace_recorder.dialects.background import answers_in_background
from trace_recorder.dialects.dialect import join_stream, why_incomplete
from trace_recorder.dialects.endpoints import asks_for_stream, is_stream_type
from trace_recorder.dialects.event_stream import FRAMING, MEDIA_TYPE
from trace_recorder.guard import try_call
from trace_recorder.locks import holds_lock
from trace_recorder.storage.body_encoding import body_member, error_text, joined_bytes, text_member
from trace_recorder.storage.redaction import headers
from trace_recorder.storage.redaction.urls import clean_url
from trace_recorder.values.json_text import NotJsonError
from trace_recorder.values.jsonable import describe_error, dump_members, members_to_json, to_json
from trace_recorder.values.messages import JoinedStream, Payload, without_none
from trace_recorder.values.origins import REPLAYED_FROM_HEADER, ReplayedFrom

REDIRECTS = (307, 308)
"""The redirects after which the client sends the same request again."""
LONG_STREAM = 32 * 1024
"""A stream of fewer bytes is assembled in the event loop's own thread, which it delays only briefly."""
ASSEMBLY_TIMEOUT_SECONDS = 10.0
"""How long an ending run waits for a request or a stream that a background thread writes."""


class Exchange(ResponseParts):
    """The recording of one exchange. Call `answered` or `failed`; then `chunk`s; then `ended` or `closed`."""

    _watched_body: ref[object] | None = None
    _assembly_done: Event | None = None
    _request_written: Event | None = None
    _cancelled_by: BaseException | None = None
    _ended_at = -1.0
    _polled_id = ""
    """The id of its response, if that was polled before its stream had ended."""
    _is_awaited = False

    def begin(self, context: Mapping[str, Payload]) -> None:
        """Write the request. `context` has the members that name its agent and step."""
        sent = self._sent
        self.run.unfinished.hold(self)
        self.run.learn(*headers.secrets(sent.headers, sent.url))
        about = self._about | without_none(
            api=sent.endpoint.api,
            provider=sent.endpoint.provider,
            model=sent.endpoint.model,
            method=sent.method,
            stream=sent.endpoint.streams or None,
            inferred=self._inferred or None,
            **context,
        )
        said = dump_members({"url": clean_url(sent.url), "headers": headers.kept(sent.headers)})
        try:
            self.run.append_body("llm_request", about, said, sent.body)
        except NotJsonError:
            self.run.append("llm_request", about, f"{said},{text_member(sent.body, self.run.mask_bytes)}")

    def is_large(self) -> bool:
        """Whether writing the request would delay an event loop. Never in a strict run, where it must raise at once."""
        body = self._sent.body
        return len(body) > LARGE_BODY and not self.run.guard.strict and self.run.new_bytes(body) > LARGE_BODY

    def begin_in_thread(self, context: Mapping[str, Payload]) -> Callable[[], None]:
        """Return a function that writes the request, to be called in another thread. A run that ends waits for it."""
        self._request_written = written = Event()
        self.run.unfinished.hold(self)

        def write() -> None:
            try:
                with self.run.guard.protect("record a request"):
                    self.begin(context)
                    return
                with self._lock:
                    self._finish()  # the request could not be written, so the response is not recorded either
                self.run.unfinished.release(self)
            finally:
                with self._lock:
                    written.set()
                if self._cancelled_by is not None:
                    self.failed(self._cancelled_by)

        return write

    def call_cancelled(self, error: BaseException) -> None:
        """Record that the call was cancelled while its request was being written."""
        with self._lock:
            self._cancelled_by = error
            if self._request_written is None or not self._request_written.is_set():
                return
        self.failed(error)

    def answered(self, status: int, raw: list[tuple[bytes, bytes]], *, is_decoded: bool = False) -> None:
        """Take the status and the headers of the response. If `is_decoded`, the library undoes its compression."""
        with self.run.guard.protect("record a response's headers"):
            self._status = status
            self._headers = headers.kept(raw)
            if REPLAYED_FROM_HEADER in self._headers:
                self.note_origin(ReplayedFrom.of_server(self._sent.url, self._headers.pop(REPLAYED_FROM_HEADER)))
            if status >= 400:
                self._remember_failure()
            elif status in REDIRECTS:
                attempts.remember_redirect(self.run, self.interaction_id, self._attempt, self._sent, raw)
            stated = is_stream_type(self._headers.get("content-type", ""))
            asked = stated is None and status < 400 and asks_for_stream(self._sent.endpoint, self._sent.body)
            self._streams = asked if stated is None else stated
            self._due = self._limits.flush_bytes if self._streams else LARGE_BODY
            if self._streams and answers_in_background(self._sent.endpoint.api):
                background_responses.streams.add(self)
            encoding = "" if is_decoded else self._headers.get("content-encoding", "")
            media = self._headers.get("content-type", "")
            self._decode = decoder_of(encoding, media)
            self._framing = FRAMING if self._decode is not None and media.startswith(MEDIA_TYPE) else None

    def note_origin(self, origin: ReplayedFrom | None) -> None:
        """Name the recorded call that gave the answer in the records that follow."""
        if origin is not None:
            self._about = {**self._about, "replayed_from": origin.to_document()}

    def watch_body(self, body: object) -> None:
        """Watch the object through which the caller reads the response: if it is dropped, the response ends."""
        self._watched_body = self.run.unfinished.watch(self, body)

    def abandoned_by_caller(self) -> None:
        """Record the end of a response that the caller dropped."""
        self.closed("it was abandoned")

    def _remember_failure(self) -> None:
        attempts.remember_failure(self.run, self.interaction_id, self._attempt, self._sent)

    def failed(self, error: BaseException) -> None:
        """Record that there is no response: the connection failed, timed out, or was cancelled."""
        with self.run.guard.protect("record a failed call"):
            if self._finish():
                self._remember_failure()
                self.note_origin(ReplayedFrom.of_error(error))
                about = self._about | {"duration_seconds": self._seconds()}
                self.run.append("llm_error", about, members_to_json(describe_error(error)))
                self.run.unfinished.release(self)

    def chunk(self, data: bytes) -> None:
        """Take the next bytes of the response, as they came over the wire.

        The caller waits for each chunk. Unless it has to be decoded, or to be watched, nothing here can fail or lock.
        If a part is due then, the caller has it written (`write_due`).
        """
        if self._done or self.run.abandoned:
            return
        now = time.perf_counter()
        self._chunks += 1
        if self._decode is None:
            self._keep(now, data)
        else:
            self._take_encoded(self._decode, now, data)
        if self._streams and not stream_flusher.is_watched(self):
            with self.run.guard.protect(PART):
                stream_flusher.watch(self)

    def whole(self, content: bytes) -> None:
        """Record a response that is complete and decoded already."""
        self._decode = None
        self.chunk(content)
        if self._streams or self._buffered >= self._due:
            self.write_due()
        self.ended()

    def write_pending(self, *, last: bool = False) -> None:
        """Write what has been received; with `last`, also text that may be the beginning of a secret."""
        with self.run.guard.protect(PART), self._held() as is_held:
            self.run.unfinished.end_abandoned()
            if is_held and not self._done:
                self.flush(last=last)
                stream_flusher.watch(self)

    def end_with_run(self) -> None:
        """Record the end of a response that is still being received when the run ends."""
        with self._held() as is_held:
            if is_held and self._status:  # a thread that assembles it holds the lock, and has been waited for
                self.ended("the run ended", what="record a response that goes on")

    @contextmanager
    def _held(self) -> Iterator[bool]:
        """Take the lock, with a time limit: its holder may be waiting for what a signal handler has interrupted."""
        held = self._lock.acquire(timeout=self._limits.lock_timeout_seconds)
        try:
            yield held
        finally:
            if held:
                self._lock.release()

    async def write_due_in_event_loop(self) -> None:
        """Write all parts that are due, in a thread if they are long, and wait for it."""
        if self.is_short():
            self.write_due()
        else:
            await run_in_thread(self.write_due, "response", self.is_awaited)

    async def ended_in_event_loop(self) -> None:
        """Do the same as `ended` in an event loop: in a thread if the response is long.

        A long stream is assembled after this has returned; its text is on file before.
        """
        size = self._buffered + sum(map(len, self._written))
        if self._done or self.run.abandoned or size <= SHORT or self.run.guard.strict:
            self.ended()
            return
        self._ended_at = time.perf_counter()
        self._assembly_done = done = Event()
        end = partial(self._end_in_thread, done)
        if self._streams and size >= LONG_STREAM:
            await run_in_thread(self._write_rest, "response", self.is_awaited, end)
        else:
            await run_in_thread(end, "response", self.is_awaited)

    def ended_without_waiting(self) -> None:
        """Do the same where nothing may be awaited: a thread assembles a long stream. Its text is on file before."""
        size = self._buffered + sum(map(len, self._written))
        if self._done or self.run.abandoned or not self._streams or size < LONG_STREAM or self.run.guard.strict:
            self.ended()
            return
        self._ended_at = time.perf_counter()
        self._assembly_done = done = Event()
        self._write_rest()
        start_or_run(partial(self._end_in_thread, done), "response", self.is_awaited)

    def _write_rest(self) -> None:
        with self.run.guard.protect(PART):
            self.flush(last=True)

    def _end_in_thread(self, done: Event) -> None:
        try:
            self.ended()
        finally:
            done.set()

    def wait(self) -> None:
        """Wait for background threads, with a time limit: a signal handler may have interrupted what they wait for.

        They do not yield to others from now on.
        """
        self._is_awaited = True
        for one in (self._request_written, self._assembly_done):
            if one is not None:
                one.wait(ASSEMBLY_TIMEOUT_SECONDS)

    def is_awaited(self) -> bool:
        """Whether the run that ends waits for background threads."""
        return self._is_awaited

    def closed(self, why: str) -> None:
        """Record that the caller closed the response early."""
        if self._done or self._assembly_done is not None:
            return
        if self._watched_body is not None and self._watched_body() is None:  # closed by a generator, not by the caller
            why = "it was abandoned"
        end = partial(self.ended, why, what="record a response that was closed early")
        if holds_lock():  # the garbage collector closes it, in the middle of something else
            self.run.unfinished.defer(end)
        else:
            end()

    def broken(self, error: BaseException) -> None:
        """Record that reading the response raised an error."""
        if self._assembly_done is not None:
            return
        if not isinstance(error, GeneratorExit):
            self.ended(error_text(error), error, what="record a broken response")
        else:
            self.closed("the caller closed it")

    def ended(
        self, why: str | None = None, error: BaseException | None = None, *, what: str = "record a response"
    ) -> None:
        """Record that the response was received to its end, or `why` it ended earlier, and by which `error`, if any."""
        if self._done or self.run.abandoned or sys.is_finalizing():  # asked before the lock: see `Run.append`
            return
        why, error = self._cause(why, error)
        with self.run.guard.protect(what), self._lock:
            if self._finish():
                try_call(self._write_ending, self._write_bare_ending, why, error)
                self._buffer, self._written = [], []  # a caller may keep the response, or it may be in a cycle
                self.run.unfinished.release(self)  # last: a run that ends meanwhile waits for it

    def _write_ending(self, why: str | None, error: BaseException | None) -> None:
        if self._streams:
            about, said = self._stream_members(why)
        else:
            about, said = self._members_in_parts(why) if self._parts else self._plain_members(why)
        more: dict[str, Payload] = {"headers": self._headers}
        if error is not None and about["complete"] is False:
            self._remember_failure()
            more["error"] = describe_error(error)
        if (ended_by := about.pop("ended_by", None)) is not None:
            more["ended_by"] = ended_by  # an exception's message, which may hold a secret
        about = self._about | {"status": self._status, "duration_seconds": self._seconds(self._ended_at), **about}
        self.run.append("llm_response", about, ",".join(filter(None, (dump_members(more), said))))
        if answers_in_background(self._sent.endpoint.api):
            with self.run.guard.protect("find out whether a response is final"):
                identity = background_responses.response_id(said or b"".join(self._written).decode("utf-8", "replace"))
                if identity is not None and identity != self._polled_id:
                    background_responses.remember(self._background_call(identity))
            background_responses.streams.discard(self)

    def polled_early(self, api: str, response_id: str) -> BackgroundCall | None:
        """Return what a poll is to know of this call, if it polls the response before the call's stream has ended."""
        if api != self._sent.endpoint.api or not self._streams:
            return None
        received = b"".join((*self._written, joined_bytes(self._buffer[:])))
        if f'"{response_id}"'.encode() not in received:
            return None
        self._polled_id = response_id
        background_responses.remember(call := self._background_call(response_id))
        return call

    def _background_call(self, response_id: str) -> BackgroundCall:
        run = ref(self.run)
        return BackgroundCall(
            self._sent.endpoint.api, response_id, run, self.interaction_id, self._attempt, self._began
        )

    def _write_bare_ending(self, failure: Exception) -> None:
        """Write the end alone if the response cannot be written."""
        ended = {"headers": {}, "complete": False, "ended_by": "it could not be recorded", "text": ""}
        about = {**self._about, "status": self._status, "duration_seconds": self._seconds(), **ended}
        try_call(lambda: self.run.append("llm_response", about), lambda _: None)
        raise failure

    def _stream_members(self, why: str | None) -> tuple[dict[str, Payload], str]:
        self.flush(last=True)
        joined = self._joined()
        why = self._why_incomplete(joined, why)
        complete = why is None
        about = {"complete": complete, "stream": True, "chunks": self._chunks} | without_none(
            ended_by=why,
            events=joined.events if joined else None,
            last_event=joined.ended if joined else None,
            time_to_first_token_seconds=self._seconds(self._first),
            time_to_last_token_seconds=self._seconds(self._last),
        )
        if complete and joined is not None and self._status < 300:
            usage_advice.look(self._sent.endpoint.api, self._sent.body, joined.body)
        return about, f'"assembled":{to_json(joined.body if joined else None)}'

    def _why_incomplete(self, joined: JoinedStream | None, why: str | None) -> str | None:
        """Return why a stream is incomplete. After the protocol's own end, nothing is missing of what was decoded."""
        if joined is not None and joined.ended and self._missing is None:
            return None
        known = why_incomplete(joined) if self._status < 300 else None
        if joined is not None and joined.error is not None:  # at which an SDK closes the stream
            return known or why
        return why or self._missing or known

    def _joined(self) -> JoinedStream | None:
        with self.run.guard.protect("put a stream together"):
            return join_stream(self._sent.endpoint.api, b"".join(self._written))
        return None

    def _plain_members(self, why: str | None) -> tuple[dict[str, Payload], str]:
        why = why or self._missing
        body = body_member(joined_bytes(self._buffer), self.run.mask_bytes)
        return {"complete": why is None, "ended_by": why}, body

    def _members_in_parts(self, why: str | None) -> tuple[dict[str, Payload], str]:
        self.flush(last=True)
        why = why or self._missing
        return {"complete": why is None, "parts": self._parts, **without_none(ended_by=why)}, ""

    def _finish(self) -> bool:
        """Mark the exchange as ended. Return whether it had not ended before."""
        first, self._done = not self._done and not self.run.abandoned, True
        self._watched_body = None
        if self._streams:
            stream_flusher.forget(self)
        return first
