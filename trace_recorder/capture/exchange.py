"""The life of one HTTP exchange with a model, from the request to the last byte of the response.

The seams call `Exchange` and do not know the journal. This module does not know the HTTP libraries. The request is on
file before it is sent. The response is on file before the caller gets its last byte. `received_response.py` keeps the
bytes of the response, and writes a stream in parts. `attempt_records.py` writes the records of the request and of the
end of the response. For a poll, `background_responses.py` writes the records. The run's guard protects every method: no
failure here changes the call.

The response's lock is held while the end is written. The garbage collector may call `closed` in a thread that holds any
lock. Then the end is recorded later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from types import MappingProxyType
from typing import Any
from weakref import ref

from trace_recorder.background_work import Event
from trace_recorder.capture.attempt_records import AttemptRecords
from trace_recorder.capture.background_responses import PollRecords
from trace_recorder.capture.decoding import body_decoder
from trace_recorder.capture.event_loops import run_in_thread, start_or_run
from trace_recorder.capture.passing_bodies import PassingAsyncIterator, PassingFile, PassingIterator
from trace_recorder.capture.received_response import LARGE_REQUEST_BYTES, PART, SHORT_BYTES
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.endpoints import asks_for_stream, is_stream_type
from trace_recorder.dialects.stream_framing import FRAMING, MEDIA_TYPE
from trace_recorder.locks import holds_lock
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_lines import error_text
from trace_recorder.storage.redaction import headers
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import REPLAYED_FROM_HEADER, ReplayedFrom

LONG_STREAM_BYTES = 32 * 1024
"""The event loop's own thread assembles a stream of fewer bytes, because that delays the loop only briefly."""
ASSEMBLY_TIMEOUT_SECONDS = 10.0
"""An ending run waits at most this long for a background thread that writes a request or the end of a response."""


def is_large(run: Run, body: bytes) -> bool:
    """Whether a thread must write a request, because writing the request would delay an event loop.

    The result is always False in a strict run, because such a run must raise at once.
    """
    return len(body) > LARGE_REQUEST_BYTES and not run.guard.strict and run.new_bytes(body) > LARGE_REQUEST_BYTES


class Exchange:
    """One request and its response: one attempt of a call, or a poll. `records` writes its records.

    A seam calls `answered` or `failed`. Then the seam gives each chunk to `response.chunk`. If `response.chunk` returns
    True, the seam calls `response.write_due` before the caller gets the chunk. Finally the seam calls `ended`, `closed`
    or `broken`.
    """

    cancelled_read: BaseException | None = None
    """The exception that cancelled the last read.

    Its traceback is removed, because a traceback would keep the response alive.
    """
    context: Mapping[str, Payload] = MappingProxyType({})
    """The members that name the agent and the step of a request whose body passes."""
    _watched_body: ref[object] | None = None
    _assembly_done: Event | None = None
    _request_written: Event | None = None
    _cancelled_by: BaseException | None = None
    _ended_at = 0.0
    _is_waited_for = False

    def __init__(self, records: AttemptRecords | PollRecords) -> None:
        self.run = records.run
        self.response = records.response
        self._records = records
        self.passing = records.passing
        """Where the body of the request passes, if it is made while it is sent."""
        self.run.unfinished.hold(self)

    def abandon(self) -> None:
        """Record nothing more. The request could not be written, so the response is not recorded either."""
        with self.response.lock:
            self.response.finish()
        self.run.unfinished.release(self)

    def request_in_thread(self, write_request: Callable[[], None]) -> Callable[[], None]:
        """Return a function that writes the request in another thread.

        A run that ends waits until the request is written.
        """
        self._request_written = written = Event()

        def write() -> None:
            try:
                with self.run.guard.protect("record a request"):
                    write_request()
                    return
                self.abandon()
            finally:
                with self.response.lock:
                    if self._cancelled_by is not None:
                        self.failed(self._cancelled_by)
                    written.set()  # last, because a run that ends waits for this, and takes no record after that

        return write

    def pass_through(self, body: Any) -> Any:
        """Return what a library reads in place of a body that is made while it is sent."""
        kind = PassingFile if hasattr(body, "read") else PassingIterator
        return self._through(kind, body, self.request_passed)

    def pass_through_async(self, body: Any) -> Any:
        """Do the same as `pass_through` for an async library."""
        return self._through(PassingAsyncIterator, body, self.request_passed_in_event_loop)

    def _through(self, kind: type[PassingIterator], body: Any, on_end: Callable[[], Any]) -> Any:
        passing = self.passing
        return body if passing is None else kind(body, passing, on_end)

    def request_passed(self) -> None:
        """Write a request whose body was made while it was sent, unless it is on file already."""
        if self._records.awaits_body:
            self._passed()()
        elif self.passing is not None and self._request_written is not None:
            self._request_written.wait(ASSEMBLY_TIMEOUT_SECONDS)  # a thread writes it

    async def request_passed_in_event_loop(self) -> None:
        """Do the same as `request_passed` in an event loop. If the request is large, a thread writes it."""
        if self._records.awaits_body:
            write = self._passed()
            if self.passing is not None and self.passing.size > LARGE_REQUEST_BYTES and not self.run.guard.strict:
                await run_in_thread(write, "request", self.is_waited_for)
            else:
                write()

    def _passed(self) -> Callable[[], None]:
        """Return a function that takes the body that has passed, and writes the request."""
        self._records.awaits_body = False
        context = copy_context()

        def write() -> None:
            self._records.take_body(context)
            self._records.write_request(self.context)

        return self.request_in_thread(write)

    def call_cancelled(self, error: BaseException) -> None:
        """Record that the call was cancelled while its request was being written."""
        with self.response.lock:
            self._cancelled_by = error
            if self._request_written is None or not self._request_written.is_set():
                return
        self.failed(error)

    def answered(
        self,
        status: int,
        raw: list[tuple[bytes, bytes]],
        origin: ReplayedFrom | None = None,
        *,
        is_decoded: bool = False,
    ) -> None:
        """Take the status and the headers of the response.

        `origin` is the recorded call that gave the response, if a replay answered. If `is_decoded` is True, the library
        decodes the body before it is recorded.
        """
        if self.passing is not None:
            self.request_passed()
        response, records = self.response, self._records
        with self.run.guard.protect("record a response's headers"):
            response.status = status
            response.headers = kept = headers.kept(raw)
            if REPLAYED_FROM_HEADER in kept:
                server = ReplayedFrom.of_server(records.sent.url, kept.pop(REPLAYED_FROM_HEADER))
                origin = origin or server
            if origin is not None:
                records.note_origin(origin)
            media = kept.get("content-type", "")
            is_stream = is_stream_type(media)
            if is_stream is None:
                is_stream = status < 400 and asks_for_stream(records.sent.endpoint, records.sent.body)
            encoding = "" if is_decoded else kept.get("content-encoding", "")
            has_frames = media.startswith(MEDIA_TYPE)
            decode = body_decoder(encoding, media) if encoding or has_frames else None
            if is_stream or decode is not None:
                framing = FRAMING if decode is not None and has_frames else None
                response.set_form(is_stream=is_stream, decode=decode, framing=framing)
            if is_stream or status >= 300:
                records.note_answer(status, raw)

    def watch_body(self, body: object) -> None:
        """Watch the object through which the caller reads the response.

        If the caller drops that object, the end of the response is recorded.
        """
        self._watched_body = self.run.unfinished.watch(self, body)

    def abandoned_by_caller(self) -> None:
        """Record the end of a response that the caller dropped."""
        self.closed("it was abandoned")

    def failed(self, error: BaseException) -> None:
        """Record that there is no response: the connection failed, timed out, or was cancelled."""
        self.request_passed()
        with self.run.guard.protect("record a failed call"):
            if self.response.finish():
                self._records.write_error(error)
                self.run.unfinished.release(self)

    def whole(self, content: bytes) -> None:
        """Record a response that is complete."""
        if self.response.chunk(content):
            self.response.write_due()
        self.ended()

    def write_pending(self, *, last: bool = False) -> None:
        """Write the bytes received so far. The beginning of a possible secret is written only if `last` is True."""
        self.response.write_pending(last=last)

    def end_with_run(self) -> None:
        """Record the end of a response that is still being received when the run ends."""
        self.request_passed()
        with self.response.held() as is_held:
            if is_held and self.response.status:  # if not held, a thread still assembles the response
                self.ended("the run ended", what="record a response that is still open")

    async def write_due_in_event_loop(self) -> None:
        """Write all parts that are due. If they are long, a thread writes them, and the caller waits."""
        if self.response.is_short():
            self.response.write_due()
        else:
            await run_in_thread(self.response.write_due, "response", self.is_waited_for)

    async def ended_in_event_loop(self) -> None:
        """Do the same as `ended` in an event loop. If the response is long, a thread does the work.

        A long stream is assembled after this method has returned. Its text is on file before this method returns.
        """
        size = self.response.size()
        if self.response.done or self.run.abandoned or size <= SHORT_BYTES or self.run.guard.strict:
            self.ended()
            return
        end = self._end_in_thread()
        if self.response.is_live_stream and size >= LONG_STREAM_BYTES:
            await run_in_thread(self._write_rest, "response", self.is_waited_for, end)
        else:
            await run_in_thread(end, "response", self.is_waited_for)

    def ended_without_waiting(self) -> None:
        """Do the same as `ended` where nothing may be awaited.

        A thread assembles a long stream. The text of the stream is on file before this method returns.
        """
        response = self.response
        is_long = response.is_live_stream and response.size() >= LONG_STREAM_BYTES
        if response.done or self.run.abandoned or not is_long or self.run.guard.strict:
            self.ended()
            return
        end = self._end_in_thread()
        self._write_rest()
        start_or_run(end, "response", self.is_waited_for)

    def _end_in_thread(self) -> Callable[[], None]:
        """Return a function that records the end of the exchange in a thread. A run that ends waits for that thread."""
        self._ended_at = monotonic_seconds()
        self._assembly_done = done = Event()

        def end() -> None:
            try:
                self.ended()
            finally:
                done.set()

        return end

    def _write_rest(self) -> None:
        with self.run.guard.protect(PART), self.response.lock:
            self.response.flush(last=True)

    def wait(self) -> None:
        """Wait for background threads, with a time limit.

        The limit is needed because these threads may wait for a thread that a signal handler has interrupted. From now
        on they do not yield to other threads.
        """
        self._is_waited_for = True
        for event in (self._request_written, self._assembly_done):
            if event is not None:
                event.wait(ASSEMBLY_TIMEOUT_SECONDS)

    def is_waited_for(self) -> bool:
        """Whether a run that ends is waiting for the background threads of this exchange."""
        return self._is_waited_for

    def closed(self, why: str) -> None:
        """Record that the caller closed the response early."""
        if self.response.done or self._assembly_done is not None:
            return
        if self._watched_body is not None and self._watched_body() is None:
            why = "it was abandoned"  # the caller dropped the body, and a generator closed it
        end = partial(self.ended, why, what="record a response that was closed early")
        if holds_lock():  # the garbage collector closes the response, in the middle of another record
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
        """Record the end of the response.

        If the response ended early, `why` is the reason. `error` is the exception that ended the response, if any.
        """
        response = self.response
        if response.done or self.run.abandoned or sys.is_finalizing():  # checked before the lock, as in `Run.append`
            return
        if why is not None and error is None and self.cancelled_read is not None:
            error = self.cancelled_read
            why = error_text(error)
        with self.run.guard.protect(what), response.lock:
            self._watched_body = None
            if response.finish():
                try:
                    self._records.write_response(self._ended_at or monotonic_seconds(), why, error)
                except ours(Exception) as failure:
                    self._records.write_bare_response(failure)
                finally:
                    # to free memory, because a caller or a reference cycle may keep `response` alive
                    response.buffer, response.written = [], []
                    self.run.unfinished.release(self)  # last, because a run that ends waits for this
