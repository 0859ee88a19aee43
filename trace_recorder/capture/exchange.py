"""The life of one call with a model, from the request to the last byte of the response, in the order of its moments.

The seams of all HTTP libraries, the proxy and replays pass here, from top to bottom:

| moment | what a seam calls |
|---|---|
| the request is known | `begin_exchange` or `begin_in_event_loop` |
| the request is sent | `sending` |
| its body was made while it was sent | `pass_through`, whose last byte calls `request_passed` |
| the head of the response is there | `answered`, `watch_body` |
| a chunk is there | `chunk`, then `write_due` if `chunk` returns True |
| the response has ended | `ended`, `ended_in_event_loop` or `ended_without_waiting` |
| an error: no response, or a broken one | `failed`, which `sending` calls, or `broken` |
| a cancellation, while a thread writes the request or a read waits | `call_cancelled`, `read_cancelled` |
| the caller leaves the response, or drops it, or the run ends | `closed`, `abandoned_by_caller`, `end_with_run` |

The seams do not know the journal. This module does not know the HTTP libraries. The request is on file before it is
sent. The response is on file before the caller gets its last byte. `received_response.py` keeps the bytes of the
response, and writes a stream in parts. `attempt_records.py` writes the records of the request and of the end of the
response. For a poll, `background_responses.py` writes the records. The run's guard protects every method: no failure
here changes the call.

Where a docstring names no thread, the caller's thread runs the function. A docstring says if a function is called with
the lock. *The lock* is the response's lock, which is held while an end is written. Each record takes the lock of its
run. The garbage collector may call `closed` in a thread that holds any lock. Then the end is recorded later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from types import MappingProxyType
from typing import Any
from weakref import ref

from trace_recorder.background_work import Event
from trace_recorder.capture.attempt_records import AttemptRecords
from trace_recorder.capture.attempts import identify
from trace_recorder.capture.background_responses import PollRecords, poll_records
from trace_recorder.capture.decoding import body_decoder
from trace_recorder.capture.event_loops import run_in_thread, start_or_run
from trace_recorder.capture.passing_bodies import PassingAsyncIterator, PassingBody, PassingFile, PassingIterator
from trace_recorder.capture.received_response import LARGE_REQUEST_BYTES, PART, SHORT_BYTES
from trace_recorder.capture.seam import (
    Binding,
    guard,
    hosts_in_use,
    is_recorded_outside,
    note_unread,
    request_in_progress,
    request_to_send,
)
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.endpoints import (
    UNRECOGNISED,
    Recognition,
    asks_for_stream,
    is_stream_type,
    recognise,
)
from trace_recorder.dialects.stream_framing import FRAMING, MEDIA_TYPE
from trace_recorder.locks import holds_lock
from trace_recorder.recording.context import context_of
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_lines import error_text
from trace_recorder.storage.redaction import headers
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import REPLAYED_FROM_HEADER, ReplayedFrom

LONG_STREAM_BYTES = 32 * 1024
"""The event loop's own thread assembles a stream of fewer bytes, because that delays the loop only briefly."""
ASSEMBLY_TIMEOUT_SECONDS = 10.0
"""An ending run waits at most this long for a background thread that writes a request or the end of a response."""


def begin_exchange(
    binding: Binding, request: Any, plain_body: type[Iterable[bytes]], *, in_event_loop: bool = False
) -> Exchange | None:
    """Take a request that is about to be sent. Return its exchange, or None if the request is not recorded.

    All questions about a request are asked here, before it is on file: whether it is an LLM call or a poll, which run
    records it, whether a seam around this one does so already, which call it belongs to, and which attempt it is.

    The request is on file when this function returns, with two exceptions. If the body is made while it is sent,
    `request_passed` writes the request. If `in_event_loop` is True, and writing takes long, `begin_in_event_loop` lets
    a thread write it. The request of a poll is never on file.
    """
    recognition = UNRECOGNISED
    with guard.protect("find out whether a request is an LLM call"):
        url = request.url
        recognition = recognise(request.method, url.host, url.path, url.port)
    if recognition.call is None:
        return _begin_poll(binding, request, recognition)
    run = binding.target.open_run()
    if run is None or (request_in_progress.get() is not None and is_recorded_outside(run, request)):
        return None
    exchange: Exchange | None = None
    with run.guard.protect("record a request"):
        sent = request_to_send(run, recognition.call, binding, request, plain_body)
        passing = PassingBody(run.limits.body_bytes) if sent.passes else None
        is_body_known = passing is None and not sent.is_encoded
        attempt = identify(run, sent) if is_body_known else None  # otherwise the body, once it is known, tells it
        records = AttemptRecords(run, sent, passing, attempt)
        exchange = Exchange(records)
        exchange.context = context_of(run)
        if passing is not None:
            return exchange
        if in_event_loop and records.takes_long():
            exchange.is_left_to_thread = True
            return exchange
        if attempt is None:
            records.take_body(copy_context())
        records.write_request(exchange.context)
        return exchange
    if exchange is not None:
        exchange.abandon()
    return None


async def begin_in_event_loop(binding: Binding, request: Any, plain_body: type[Iterable[bytes]]) -> Exchange | None:
    """Do the same as `begin_exchange` for an async client.

    A thread writes a request that is large, or must be decoded, so that the event loop can run. The caller waits.
    """
    exchange = begin_exchange(binding, request, plain_body, in_event_loop=True)
    if exchange is not None and exchange.is_left_to_thread:
        await exchange.write_request_in_thread()
    return exchange


def _begin_poll(binding: Binding, request: Any, recognition: Recognition) -> Exchange | None:
    """Return the exchange of a poll, or None. Note a request that may be a call in an unknown dialect."""
    if recognition.poll is not None:
        with guard.protect("find out whether a request polls a response"):
            records = poll_records(recognition.poll, binding.target, request)
            return None if records is None else Exchange(records)
    if recognition.may_be_call:
        with guard.protect("note a request that is not recorded"):
            note_unread(binding, request)
    return None


@contextmanager
def sending(request: Any, exchange: Exchange | None) -> Iterator[None]:
    """Mark a request while it is sent. An exception is recorded by `failed`, and is raised again.

    A request that is not recorded is marked too, because `unseen_clients.py` watches the connections.
    """
    before = request_in_progress.get()
    try:  # around the first mark too, because a signal handler may raise right after any statement
        if exchange is not None:
            request_in_progress.set((exchange.run, request))
        hosts_in_use[id(request)] = request.url.raw_host
        yield
    except BaseException as error:
        if exchange is not None:
            exchange.failed(error)
        raise
    finally:
        request_in_progress.set(before)  # `reset` fails if a coroutine is closed in a context other than its own
        hosts_in_use.pop(id(request), None)


class Exchange:
    """One request and its response: one attempt of a call, or a poll. `records` writes its records."""

    is_left_to_thread = False
    """Whether `begin_exchange` left the request to `write_request_in_thread`."""
    context: Mapping[str, Payload] = MappingProxyType({})
    """The members that name the agent and the step of the request."""
    cancelled_read: BaseException | None = None
    """The exception that cancelled the last read, without its traceback, which would keep the response alive."""
    _watched_body: ref[object] | None = None
    _assembly_done: Event | None = None
    _request_written: Event | None = None
    _cancelled_by: BaseException | None = None
    _ended_at = 0.0
    _is_waited_for = False

    def __init__(self, records: AttemptRecords | PollRecords) -> None:
        """Keep the exchange in its run until its end is on file. Nothing is on file yet."""
        self.run = records.run
        self.response = records.response
        self.chunk = self.response.chunk
        """Takes the next bytes, as they came over the wire, and returns whether a part is due.

        If so, the seam calls `write_due` before the caller gets the bytes. This is `ReceivedResponse.chunk` itself,
        because each call of a function counts. Nothing is on file, no lock is taken, and nothing is raised.
        """
        self._records = records
        self.passing = records.passing
        """Where the body of the request passes, if it is made while it is sent."""
        self.run.unfinished.hold(self)

    def abandon(self) -> None:
        """Record nothing more. The request could not be written, so the response is not recorded either.

        Any thread may call this. It takes the lock.
        """
        with self.response.lock:
            self.response.finish()
        self.run.unfinished.release(self)

    async def write_request_in_thread(self) -> None:
        """Let a thread write the request. The request is on file when this method returns, unless that failed."""
        write = self._request_write()
        try:
            await run_in_thread(write, "request", self.is_waited_for)
        except BaseException as error:
            self.call_cancelled(error)
            raise

    def _request_write(self) -> Callable[[], None]:
        """Return a function that takes the body and writes the request, in any thread. It does not raise.

        A run that ends waits until the request is written.
        """
        self._records.awaits_body = False  # at once, so that only one thread writes the request
        context = copy_context()
        self._request_written = written = Event()

        def write() -> None:
            try:
                with self.run.guard.protect("record a request"):
                    self._records.take_body(context)
                    self._records.write_request(self.context)
                    return
                self.abandon()
            finally:
                with self.response.lock:
                    if self._cancelled_by is not None:
                        self.failed(self._cancelled_by)
                    written.set()  # last, because a run that ends waits for this, and takes no record after that

        return write

    def call_cancelled(self, error: BaseException) -> None:
        """Record that the call was cancelled while a thread was writing its request.

        If the request is not on file yet, the thread records the cancellation after the request. Takes the lock.
        """
        with self.response.lock:
            self._cancelled_by = error
            if self._request_written is None or not self._request_written.is_set():
                return
        self.failed(error)

    def pass_through(self, body: Any) -> Any:
        """Return what a library reads in place of a body that is made while it is sent."""
        if self.passing is None:
            return body
        kind = PassingFile if hasattr(body, "read") else PassingIterator
        return kind(body, self.passing, self.request_passed)

    def pass_through_async(self, body: Any) -> Any:
        """Do the same as `pass_through` for an async library."""
        if self.passing is None:
            return body
        return PassingAsyncIterator(body, self.passing, self.request_passed_in_event_loop)

    def request_passed(self) -> None:
        """Write a request whose body was made while it was sent, unless it is on file already.

        The request is on file when this method returns. The first later moment calls it again, because a library may
        not read a body to its end.
        """
        if self._records.awaits_body:
            self._request_write()()
        elif self.passing is not None and self._request_written is not None:
            self._request_written.wait(ASSEMBLY_TIMEOUT_SECONDS)  # a thread writes it

    async def request_passed_in_event_loop(self) -> None:
        """Do the same as `request_passed` in an event loop. If the request is large, a thread writes it."""
        if self._records.awaits_body:
            write = self._request_write()
            if self.passing is not None and self.passing.size > LARGE_REQUEST_BYTES and not self.run.guard.strict:
                await run_in_thread(write, "request", self.is_waited_for)
            else:
                write()

    def answered(
        self,
        status: int,
        raw: list[tuple[bytes, bytes]],
        origin: ReplayedFrom | None = None,
        *,
        is_decoded: bool = False,
    ) -> None:
        """Take the status and the headers of the response. Nothing new is on file, and no lock is taken.

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

    def answered_over_websocket(self, status: int, origin: ReplayedFrom | None) -> None:
        """Take the first event of a response. `origin` is the recorded call that gave it, if a replay answered."""
        self.response.status = status
        if origin is not None:
            self._records.note_origin(origin)

    def watch_body(self, body: object) -> None:
        """Watch the object through which the caller reads the response.

        If the caller drops that object, the end of the response is recorded.
        """
        self._watched_body = self.run.unfinished.watch(self, body)

    def write_due(self) -> None:
        """Write all parts that are due. They are on file when this method returns. Takes the lock for each part."""
        self.response.write_due()

    async def write_due_in_event_loop(self) -> None:
        """Write all parts that are due. If they are long, a thread writes them, and the caller waits."""
        if self.response.is_short():
            self.response.write_due()
        else:
            await run_in_thread(self.response.write_due, "response", self.is_waited_for)

    def write_pending(self, *, last: bool = False) -> None:
        """Write the bytes received so far. The beginning of a possible secret is written only if `last` is True.

        The thread that ends a run calls this. It waits for the lock for a second at most.
        """
        self.response.write_pending(last=last)

    def ended(
        self, why: str | None = None, error: BaseException | None = None, *, what: str = "record a response"
    ) -> None:
        """Record the end of the response, once. It is on file when this method returns. Takes the lock.

        Any thread may call this. If the response ended early, `why` is the reason. `error` is the exception that ended
        the response, if any.
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

    def ended_without_waiting(self, why: str | None = None, error: BaseException | None = None) -> None:
        """Do the same as `ended` where nothing may be awaited.

        A thread assembles a long stream. The text of the stream is on file before this method returns.
        """
        response = self.response
        is_long = response.is_live_stream and response.size() >= LONG_STREAM_BYTES
        if response.done or self.run.abandoned or not is_long or self.run.guard.strict:
            self.ended(why, error)
            return
        end = self._end_in_thread(why, error)
        self._write_rest()
        start_or_run(end, "response", self.is_waited_for)

    def _end_in_thread(self, why: str | None = None, error: BaseException | None = None) -> Callable[[], None]:
        """Return a function that records the end of the exchange in a thread. A run that ends waits for that thread."""
        self._ended_at = monotonic_seconds()
        self._assembly_done = done = Event()

        def end() -> None:
            try:
                self.ended(why, error)
            finally:
                done.set()

        return end

    def _write_rest(self) -> None:
        with self.run.guard.protect(PART), self.response.lock:
            self.response.flush(last=True)

    def failed(self, error: BaseException) -> None:
        """Record that there is no response: the connection failed, timed out, or was cancelled.

        The error is on file when this method returns. Any thread may call this, with or without the lock.
        """
        self.request_passed()
        with self.run.guard.protect("record a failed call"):
            if self.response.finish():
                self._records.write_error(error)
                self.run.unfinished.release(self)

    def broken(self, error: BaseException) -> None:
        """Record that reading the response raised an error. Its end is on file when this method returns."""
        if self._assembly_done is not None:
            return
        if not isinstance(error, GeneratorExit):
            self.ended(error_text(error), error, what="record a broken response")
        else:
            self.closed("the caller closed it")

    def read_cancelled(self, error: BaseException) -> None:
        """Remember that a read was cancelled. Nothing is on file, because the caller may continue to read.

        The next read sets `cancelled_read` to None. If there is none, the end of the response has this error.
        """
        # `__init__` is not called, because its parameters may differ from `args`
        self.cancelled_read = BaseException.__new__(type(error), *error.args)

    def closed(self, why: str) -> None:
        """Record that the caller closed the response early.

        Any thread may call this, with any lock, because the garbage collector closes generators. If the thread holds a
        lock, the end is recorded after the next record. Otherwise it is on file when this method returns.
        """
        if self.response.done or self._assembly_done is not None:
            return
        if self._watched_body is not None and self._watched_body() is None:
            why = "it was abandoned"  # the caller dropped the body, and a generator closed it
        end = partial(self.ended, why, what="record a response that was closed early")
        if holds_lock():  # the garbage collector closes the response, in the middle of another record
            self.run.unfinished.defer(end)
        else:
            end()

    def abandoned_by_caller(self) -> None:
        """Record the end of a response that the caller dropped. The next thread that records in this run calls this."""
        self.closed("it was abandoned")

    def end_with_run(self) -> None:
        """Record the end of a response that is still being received when the run ends.

        The thread that ends the run calls this, after `wait`. It waits for the lock for a second at most.
        """
        self.request_passed()
        with self.response.held() as is_held:
            if is_held and self.response.status:  # if not held, a thread still assembles the response
                self.ended("the run ended", what="record a response that is still open")

    def wait(self) -> None:
        """Wait for the background threads, with a time limit. The thread that ends the run calls this without the lock.

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
