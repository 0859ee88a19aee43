"""The records of one websocket in one run: its beginning, its responses, the messages outside of them, and its end.

A websocket may begin before a run, and may be used by several runs, so each run that uses it gets these records. The
messages wait in a `ReceivedResponse`, as the chunks of a stream do, and become `websocket_frames` by the same rules.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from trace_recorder.capture.attempt_records import AttemptRecords
from trace_recorder.capture.attempts import SentRequest, identify
from trace_recorder.capture.exchange import Exchange
from trace_recorder.capture.received_response import ReceivedResponse
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.facts import WebsocketEndFact, WebsocketFramesFact, WebsocketStartFact
from trace_recorder.recording.context import merge_facts
from trace_recorder.recording.run import Run
from trace_recorder.storage.journal_lines import error_text
from trace_recorder.storage.redaction import headers
from trace_recorder.storage.redaction.urls import clean_url
from trace_recorder.storage.websocket_frames import FRAMING, Direction, marked
from trace_recorder.values.jsonable import describe_error
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import Struct

CLOSED_BY_SERVER, CLOSED_BY_CLIENT = "the server closed it", "the client closed it"
BROKEN, RUN_ENDED = "the connection broke", "the run ended"


class Handshake(Struct):
    """The opening handshake of a websocket. `began` and `answered_at` are times on the clock `monotonic_seconds`."""

    endpoint: Endpoint
    url: str
    headers: Sequence[tuple[bytes, bytes]]
    began: float
    answered_at: float | None = None
    status: int | None = None
    response_headers: Sequence[tuple[bytes, bytes]] = ()
    subprotocol: str | None = None
    error: BaseException | None = None


class Ending(Struct, frozen=True):
    """The end of a websocket. `code` and `reason` are those of the closing handshake, if there was one."""

    ended_by: str
    code: int | None = None
    reason: str | None = None
    error: BaseException | None = None


def begin_over_websocket(
    run: Run, sent: SentRequest, context: Mapping[str, Payload], *, in_event_loop: bool
) -> Exchange | None:
    """Return the exchange of a response that comes over a websocket, or None if its request cannot be recorded.

    `context` names the agent and the step. The request is on file when this function returns. If `in_event_loop` is
    True, and writing takes long, the caller awaits `write_request_in_thread`, as `is_left_to_thread` then says.
    """
    exchange: Exchange | None = None
    with run.guard.protect("record a request"):
        records = AttemptRecords(run, sent, attempt=identify(run, sent))
        exchange = Exchange(records)
        exchange.context = context
        exchange.response.set_form(is_stream=True, decode=None, framing=FRAMING)
        if in_event_loop and records.takes_long():
            exchange.is_left_to_thread = True
        else:
            records.write_request(context)
        return exchange
    if exchange is not None:
        exchange.abandon()
    return None


class WebsocketInRun:
    """One websocket in one run. `context` has the members that name the agent and the step in which it was first used.

    The run's guard protects every method. The run keeps the object until the end of the websocket is on file.
    """

    def __init__(self, run: Run, handshake: Handshake, context: Mapping[str, Payload]) -> None:
        """Write the beginning of the websocket, or its refusal."""
        self.run = run
        self.context = context
        self.connection_id = run.next_id("websocket")
        self.sent = self.received = 0
        self.responses: dict[Exchange, None] = {}
        """The responses that have not ended, in the order in which they began."""
        self._began = handshake.began
        of = {"connection_id": self.connection_id}
        self._frames = ReceivedResponse(run, of, handshake.began, part=WebsocketFramesFact)
        self._frames.set_form(is_stream=True, decode=None, framing=FRAMING)
        with run.guard.protect("record the beginning of a websocket"):
            self._write_start(handshake)
        if handshake.error is None:
            run.unfinished.hold(self)

    def _write_start(self, handshake: Handshake) -> None:
        run, endpoint, error = self.run, handshake.endpoint, handshake.error
        run.learn(*headers.secrets(handshake.headers, handshake.url))
        given = without_none(provider=endpoint.provider, model=endpoint.model, subprotocol=handshake.subprotocol)
        names = run.named(**given)
        answer = None if handshake.status is None else headers.kept(handshake.response_headers)
        seconds = None if handshake.answered_at is None else round(handshake.answered_at - handshake.began, 6)
        fact = WebsocketStartFact(
            connection_id=self.connection_id,
            api=endpoint.api,
            status=handshake.status,
            duration_seconds=seconds,
            url=clean_url(handshake.url),
            headers=headers.kept(handshake.headers),
            response_headers=answer,
            error=None if error is None else describe_error(error),
            **merge_facts(names, self.context),
        )
        run.append(fact)

    @property
    def closed(self) -> bool:
        """Whether nothing more is recorded here."""
        return self._frames.done or self.run.closed

    def add(self, direction: Direction, message: bytes) -> None:
        """Take a message that belongs to no response. All messages are on file at 256 KB, or a second later.

        The program waits while this method runs. If no part is due, nothing here takes a lock.
        """
        if self._frames.chunk(marked(direction, message)):
            self._frames.write_due()

    def write_messages(self) -> None:
        """Write the messages that wait. Call this before the request of a response is written."""
        with self.run.guard.protect("record the messages of a websocket"), self._frames.lock:
            self._frames.flush(last=True)

    def end(self, ending: Ending) -> None:
        """Record the end of the websocket and of its open responses, once. Any thread may call this."""
        if self._frames.done or self.run.abandoned or sys.is_finalizing():
            return
        for exchange in [*self.responses]:
            self.end_response(exchange, ending)
        self._write_end(ending)

    def end_response(self, exchange: Exchange, ending: Ending) -> None:
        """Record that the websocket ended before the response did."""
        if exchange.response.chunks == 0:
            exchange.failed(ending.error or ConnectionError(ending.ended_by))
        elif ending.error is None:
            exchange.ended_without_waiting(ending.ended_by)
        else:
            exchange.ended_without_waiting(error_text(ending.error), ending.error)

    def _write_end(self, ending: Ending) -> None:
        """Write the messages that wait, and the end. Any thread may call this, and waits for a second at most."""
        if self._frames.finish():
            with self.run.guard.protect("record the messages of a websocket"), self._frames.held() as is_held:
                if is_held:
                    self._frames.flush(last=True)
            fact = WebsocketEndFact(
                connection_id=self.connection_id,
                duration_seconds=round(monotonic_seconds() - self._began, 6),
                code=ending.code,
                sent=self.sent,
                received=self.received,
                ended_by=ending.ended_by,
                reason=ending.reason or None,
            )
            with self.run.guard.protect("record the end of a websocket"):
                self.run.append(fact)
            self.run.unfinished.release(self)

    # what a run asks of its unfinished work

    def write_pending(self, *, last: bool = False) -> None:
        """Write the messages that wait. The thread that ends the process calls this."""
        self._frames.write_pending(last=last)

    def wait(self) -> None:
        """Wait for nothing: the threads that write responses belong to their exchanges."""

    def abandoned_by_caller(self) -> None:
        """Do nothing: no object of the program is watched. A library keeps a websocket until it is closed."""

    def end_with_run(self) -> None:
        """Record the end of the open responses, and that the websocket is not recorded any further in this run."""
        for exchange in [*self.responses]:
            exchange.wait()
            exchange.end_with_run()
        self._write_end(Ending(RUN_ENDED))
