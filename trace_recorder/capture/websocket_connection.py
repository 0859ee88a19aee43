"""Records one websocket to a model: which message belongs to which response, and to which run.

This module knows no library and does no I/O of its own. A seam or a proxy passes whole messages to it, as bytes:

| moment | what the seam calls |
|---|---|
| the handshake is about to be sent | `begin_websocket`, in the caller's context |
| the server accepted it, or there is no websocket | `opened`, or `refused` |
| a message is about to be sent | `sent`, or `sent_in_event_loop`, in the caller's context |
| a message has come | `received`, before the program gets the message |
| the websocket has ended | `ended` |

No message may be passed before `opened`. A library may receive a message in another thread before its handshake has
returned, so `opened` may be called twice, and only the first call counts. One thread or task at a time may call
`received`. `sent` may be called by several at once. No method raises unless the run is strict. After `refused` or
`ended`, nothing more is recorded.

A response is an `Exchange`, as a call over HTTP is. Its request is on file before the message is sent, and its events
before the program has them: in memory, and in the journal a second or 256 KB later. Its last event is in the journal
before the program has it. All other messages become `websocket_frames` (`websocket_records.py`). Those that wait are
written before a request, so the order of the journal is the order of cause and effect.

A response belongs to the run, the agent and the step in whose context `response.create` is sent. The run of the newest
message that was sent is the run of the websocket. It gets the messages outside of responses, and the responses that the
server begins by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from trace_recorder.capture.answer_origins import AnswerOrigins
from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.exchange import Exchange
from trace_recorder.capture.seam import Binding, guard
from trace_recorder.capture.websocket_records import Ending, Handshake, WebsocketInRun, begin_over_websocket
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.dialect import DIALECTS, Websockets
from trace_recorder.dialects.endpoints import recognise_websocket
from trace_recorder.dialects.json_access import as_dict, json_value
from trace_recorder.locks import new_lock
from trace_recorder.recording.context import context_of
from trace_recorder.recording.run import Run
from trace_recorder.storage.websocket_frames import as_event, without_media
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct, replace

METHOD = "WEBSOCKET"
"""The `method` of a request that is sent over a websocket."""
SWITCHING_PROTOCOLS = 101
CREATE, _CREATED, _ERROR = "response.create", "response.created", "error"
_BESIDE_RESPONSES = ("response.steer.", "response.inject.")
"""The beginnings of the types of events that answer a client's event, and belong to no response."""
_MESSAGE = "record a message of a websocket"


def begin_websocket(
    binding: Binding, url: str, headers: Sequence[tuple[bytes, bytes]], *, seconds_ago: float = 0.0
) -> WebsocketConnection | None:
    """Return the recording of a websocket that is about to be opened, or None if no model is at this address.

    `headers` are those of the handshake. A seam that learns them later may fill the list until it calls `opened` or
    `refused`. `url` has the scheme `ws` or `wss`. Nothing is on file yet. If no run is open here, a later message may
    belong to a run. If the handshake is over already, `seconds_ago` is how long it took.
    """
    endpoint = None
    with guard.protect("find out whether a websocket goes to a model"):
        endpoint = recognise_websocket(url)
    if endpoint is None:
        return None
    if binding.provider:
        endpoint = replace(endpoint, provider=binding.provider)
    return WebsocketConnection(binding, Handshake(endpoint, url, headers, monotonic_seconds() - seconds_ago))


class OpenResponse(Struct, frozen=True, eq=False):
    """An open response, and the run that it belongs to.

    `lane` and `event_id` are the `stream_id` and the `event_id` of the event that asked for it, or began it.
    """

    exchange: Exchange
    here: WebsocketInRun
    lane: str | None
    event_id: str | None


class WebsocketConnection:
    """One websocket. `_lock` is held while the websocket begins in a run or ends, and while a response is added."""

    def __init__(self, binding: Binding, handshake: Handshake) -> None:
        self._binding = binding
        self._handshake = handshake
        self._lock = new_lock()
        websockets = DIALECTS[handshake.endpoint.api].websockets
        if websockets is None:
            raise AssertionError("unreachable: the endpoint was recognised")
        self._websockets: Websockets = websockets
        self._responses: _OpenResponses = _NamedResponses() if websockets.names_responses else _Lanes()
        self._here: WebsocketInRun | None = None
        """The websocket in its run: that of the newest message that was sent, or of the handshake."""
        self._in_runs: dict[Run, WebsocketInRun] = {}
        self._is_answered = False
        self._origins: AnswerOrigins | None = None
        self._ending: Ending | None = None
        self._guard = guard
        """The guard of the run of the websocket."""
        self.run = binding.target.open_run()
        """The run of the handshake, if one is open."""
        self._context: Mapping[str, Payload] = {}
        if self.run is not None:
            self._guard = self.run.guard
            with self._guard.protect("find the agent that opens a websocket"):
                self._context = context_of(self.run)

    def opened(self, status: int, headers: Sequence[tuple[bytes, bytes]] = (), subprotocol: str | None = None) -> None:
        """Record that the websocket is open. `status` and `headers` are those of the server's answer."""
        self._answered(status, headers, subprotocol)

    def refused(
        self, error: BaseException, status: int | None = None, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Record that there is no websocket: the server refused it, or the handshake failed or was cancelled."""
        self._answered(status, headers, None, error)

    def _answered(
        self,
        status: int | None,
        headers: Sequence[tuple[bytes, bytes]],
        subprotocol: str | None,
        error: BaseException | None = None,
    ) -> None:
        with self._guard.protect("record the beginning of a websocket"), self._lock:
            if self._is_answered:
                return
            self._is_answered = True
            self._origins = AnswerOrigins.stated_in(headers)
            shake, run = self._handshake, self.run
            shake.status, shake.response_headers, shake.subprotocol = status, headers, subprotocol
            shake.error, shake.answered_at = error, monotonic_seconds()
            self.run = None  # it may be kept longer than it lasts
            if error is not None:
                self._ending = Ending("there was no websocket", error=error)
            if run is not None and not run.closed:
                self._enter(run, self._context)

    def _enter(self, run: Run, context: Mapping[str, Payload]) -> WebsocketInRun:
        """Return the websocket in a run, which becomes its run. The caller holds the lock."""
        here = self._in_runs.get(run)
        if here is None:
            here = WebsocketInRun(run, self._handshake, context)
            self._in_runs = {other: there for other, there in self._in_runs.items() if not other.closed}
            self._in_runs[run] = here
        self._here, self._guard = here, run.guard
        return here

    def sent(self, message: bytes) -> None:
        """Record a message that is about to be sent. If it asks for a response, it is on file when this returns."""
        self._sent(message, in_event_loop=False)

    async def sent_in_event_loop(self, message: bytes) -> OpenResponse | None:
        """Do the same as `sent` in an event loop. If the message is large, a thread writes it, and the caller waits.

        Return the response that the message asks for, for `not_sent`, or None if it asks for none.
        """
        response = self._sent(message, in_event_loop=True)
        if response is not None and response.exchange.is_left_to_thread:
            await response.exchange.write_request_in_thread()
            self._add(response)
        return response

    def not_sent(self, response: OpenResponse, error: BaseException) -> None:
        """Record that the request of a response was not sent after all, so that no answer is taken for its answer."""
        with self._guard.protect(_MESSAGE):
            if response.exchange.response.done:
                return
            response.here.sent -= 1
            self._remove(response)
            response.exchange.failed(error)

    def _sent(self, message: bytes, *, in_event_loop: bool) -> OpenResponse | None:
        """Record a message. Return the response that it asks for. A thread may have to write its request still."""
        if self._ending is not None:
            return None
        with self._guard.protect(_MESSAGE):
            run, is_inferred = self._run_of_message()
            if run is None:
                return None
            here = self._here
            if here is None or here.run is not run:
                with self._lock:
                    here = self._enter(run, context_of(run))
            here.sent += 1
            event = event_of(message)
            if event.get("type") != CREATE:
                here.add("sent", without_media(message, _type(event)))
                return None
            if not self._websockets.media_are_kept:
                message = without_media(message, CREATE)
            return self._ask(here, event, message, is_inferred=is_inferred, in_event_loop=in_event_loop)
        return None

    def _run_of_message(self) -> tuple[Run | None, bool]:
        """Return the run in whose context a message is sent, and whether that is inferred."""
        target = self._binding.target
        run = target.open_run()
        if run is not None:
            return run, target.follows_context and target.is_inferred(run)
        if self._here is not None and not self._here.run.closed:
            return self._here.run, True
        return None, False

    def _ask(
        self, here: WebsocketInRun, event: dict[str, Payload], body: bytes, *, is_inferred: bool, in_event_loop: bool
    ) -> OpenResponse | None:
        """Begin the response that the client asks for, and return it. A thread may have to write its request still."""
        exchange = self._begin(here, body, context_of(here.run), is_inferred=is_inferred, in_event_loop=in_event_loop)
        if exchange is None:
            return None
        response = OpenResponse(exchange, here, _text(event.get("stream_id")), _text(event.get("event_id")))
        if not exchange.is_left_to_thread:
            self._add(response)
        return response

    def _begin(
        self,
        here: WebsocketInRun,
        body: bytes,
        context: Mapping[str, Payload],
        *,
        is_inferred: bool = False,
        in_event_loop: bool = False,
    ) -> Exchange | None:
        shake = self._handshake
        sent = SentRequest(
            shake.endpoint,
            METHOD,
            shake.url,
            [*shake.headers],
            body,
            run_inferred=is_inferred,
            connection_id=here.connection_id,
        )
        here.write_messages()
        return begin_over_websocket(here.run, sent, context, in_event_loop=in_event_loop)

    def _add(self, response: OpenResponse) -> None:
        """Wait for the events of a response whose request is on file."""
        with self._lock:
            self._responses.ask(response)
            response.here.responses[response.exchange] = None
            ending = self._ending
        if ending is not None:  # it came while a thread wrote the request
            response.here.end_response(response.exchange, ending)

    def received(self, message: bytes) -> None:
        """Record a message that has come."""
        here = self._here
        if here is None or self._ending is not None:
            return
        with self._guard.protect(_MESSAGE):
            event = event_of(message)
            event_type = _type(event)
            response = self._responses.of(event_type, event)
            if response is None and event_type == _CREATED and not here.run.closed:
                response = self._begun_by_server(here, event)
            if response is None:
                here.received += 1
                here.add("received", without_media(message, event_type))
                return
            response.here.received += 1
            exchange = response.exchange
            if not exchange.response.status:
                origin = None if self._origins is None else self._origins.newest
                exchange.answered_over_websocket(SWITCHING_PROTOCOLS, origin)
            if event_type == _ERROR:
                status = event.get("status")
                if type(status) is int and 100 <= status <= 599:
                    exchange.response.status = status
            if exchange.chunk(as_event(without_media(message, event_type))):
                exchange.write_due()
            if event_type == _ERROR or event_type in self._websockets.last_events:
                self._remove(response)
                exchange.ended_without_waiting()

    def _remove(self, response: OpenResponse) -> None:
        """Wait for no more events of a response."""
        with self._lock:
            self._responses.remove(response)
            response.here.responses.pop(response.exchange, None)

    def _begun_by_server(self, here: WebsocketInRun, event: dict[str, Payload]) -> OpenResponse | None:
        """Begin a response that the server makes by itself, after the user's speech or after a change of course."""
        exchange = self._begin(here, b"{}", here.context)
        if exchange is None:
            return None
        response = OpenResponse(exchange, here, _text(event.get("stream_id")), None)
        with self._lock:
            self._responses.begin(response, event)
            here.responses[exchange] = None
        return response

    def ended(
        self,
        ended_by: str,
        code: int | None = None,
        reason: str | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Record the end of the websocket, once, and of the responses that are open.

        `ended_by` says who or what ended it, such as "the server closed it". `code` and `reason` are those of the
        closing handshake, if there was one. `error` is the exception that the program gets, if any.
        """
        with self._lock:
            if self._ending is not None:
                return
            self._ending = ending = Ending(ended_by, code, reason, error)
        for here in [*self._in_runs.values()]:
            with here.run.guard.protect("record the end of a websocket"):
                here.end(ending)


def event_of(message: bytes) -> dict[str, Payload]:
    """Return the JSON object in a message, or an empty one. msgspec reads 200 bytes in half a microsecond."""
    return as_dict(json_value(message.decode("utf-8", "replace")))


def _type(event: Mapping[str, Payload]) -> str:
    event_type = event.get("type")
    return event_type if isinstance(event_type, str) else ""


def _text(value: Payload) -> str | None:
    return value if isinstance(value, str) else None


# ── which response an event belongs to ───────────────────────────────────────────────────────────────────────────────


class _OpenResponses(Protocol):
    """The responses of a websocket that have not ended. The websocket's lock is held during each change."""

    def ask(self, response: OpenResponse) -> None:
        """Add a response that the client asks for."""

    def begin(self, response: OpenResponse, event: dict[str, Payload]) -> None:
        """Add a response that the server begins by an event."""

    def of(self, event_type: str, event: dict[str, Payload]) -> OpenResponse | None:
        """Return the response that an event of the server belongs to, or None."""

    def remove(self, response: OpenResponse) -> None:
        """Remove a response that has ended."""


class _Lanes:
    """The responses of a dialect whose events state their lane, `stream_id`. A lane makes one response at a time.

    Events without a lane are in a lane of their own. If there is none, they belong to the only lane.
    """

    def __init__(self) -> None:
        self._lanes: dict[str | None, deque[OpenResponse]] = {}

    def ask(self, response: OpenResponse) -> None:
        self._lanes.setdefault(response.lane, deque()).append(response)

    def begin(self, response: OpenResponse, _: dict[str, Payload]) -> None:
        self.ask(response)

    def of(self, event_type: str, event: dict[str, Payload]) -> OpenResponse | None:
        if event_type.startswith(_BESIDE_RESPONSES):
            return None
        name = _text(event.get("stream_id"))
        lane = self._lanes.get(name)
        if lane is None and name is None:
            lanes = [*self._lanes.values()]
            if len(lanes) == 1:
                [lane] = lanes
        if not lane:
            return None
        responses = [*lane]
        if event_type == _ERROR:  # of a request that the server did not take up, if there is one
            return next((response for response in responses if not response.exchange.response.chunks), responses[0])
        return responses[0]

    def remove(self, response: OpenResponse) -> None:
        lane = self._lanes[response.lane]
        lane.remove(response)
        if not lane:
            del self._lanes[response.lane]


class _NamedResponses:
    """The responses of a dialect whose events state the id of their response.

    The server begins the responses in the order in which the client asked for them. An error belongs to the request
    that it names, or to the only request that waits if it names none.
    """

    def __init__(self) -> None:
        self._waiting: deque[OpenResponse] = deque()
        self._by_id: dict[str | None, OpenResponse] = {}

    def ask(self, response: OpenResponse) -> None:
        self._waiting.append(response)

    def begin(self, response: OpenResponse, event: dict[str, Payload]) -> None:
        self._by_id[_response_id(event)] = response

    def of(self, event_type: str, event: dict[str, Payload]) -> OpenResponse | None:
        if event_type == _ERROR:
            name, waiting = as_dict(event.get("error")).get("event_id"), [*self._waiting]
            if name is None and len(waiting) == 1:
                return waiting[0]
            return next((response for response in waiting if name is not None and response.event_id == name), None)
        identity = _response_id(event)
        if identity is None:
            return None
        response = self._by_id.get(identity)
        if response is None and event_type == _CREATED and self._waiting:
            self._by_id[identity] = response = self._waiting.popleft()
        return response

    def remove(self, response: OpenResponse) -> None:
        if response in self._waiting:
            self._waiting.remove(response)
        self._by_id = {identity: other for identity, other in self._by_id.items() if other is not response}


def _response_id(event: Mapping[str, Payload]) -> str | None:
    return _text(event.get("response_id")) or _text(as_dict(event.get("response")).get("id"))
