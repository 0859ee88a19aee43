"""Reads the websockets of a run, and derives the prompts of the calls on them.

- On a realtime connection, the prompt of a call is derived from the messages before it (`realtime.py`).
- A request of the Responses API with `generate: false` only prepares the server (a warm-up). It is no call. A later
  request that names its response has its messages, and its instructions and tools if it states none itself.
- `response.steer` changes the course of a response that is being made. The server continues by itself, with a response
  whose request is empty: its prompt is the input of the steering. If the response had to wait for results of tools, the
  client's next request has the input in front of its own.

A message in `websocket_frames` that cannot be read changes nothing else.

Source: OpenAI's guide "WebSocket mode" (Responses), and the types of the SDK (`response.steer`, `response.create`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import chain

from trace_recorder.dialects.call_ids import count_made_up
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.dialects.json_access import as_dict, as_text, json_value
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import LLMRequestFact, WebsocketEndFact, WebsocketFramesFact, WebsocketStartFact
from trace_recorder.reading.call_facts import CallFact, CallFacts
from trace_recorder.reading.realtime import RealtimeConversation, RealtimePrompts
from trace_recorder.reading.requests import RequestReader
from trace_recorder.reading.table_prompts import IncrementalReading, newest_results
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import Record
from trace_recorder.storage.stream_chunks import unpacked
from trace_recorder.storage.websocket_frames import Direction, marked, read_marked
from trace_recorder.values.json_text import MAX_DEPTH, NotJsonError, check_depth, replace_lone_surrogates
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.llm_interaction import LLMInteraction, Websocket, stated_error
from trace_recorder.values.message_table import MessageTable, SharedSequence
from trace_recorder.values.messages import Message, Payload, RequestReading
from trace_recorder.values.structs import Struct, field, replace

Event = dict[str, Payload]
WebsocketFact = WebsocketStartFact | WebsocketFramesFact | WebsocketEndFact


def is_warm_up(request: LLMRequestFact) -> bool:
    """Return whether a request only prepares the server for a later one."""
    body = as_dict(request.body)
    is_prewarmed = as_dict(body.get("prompt_cache_options")).get("prewarm") is True
    return request.connection_id is not None and (body.get("generate") is False or is_prewarmed)


class _OpenWebsocket(Struct, eq=False):
    """One websocket. `remaining` is the beginning of a message whose end is in the next part.

    `early` has the messages that came before the API was known, because the record of the beginning is missing.
    """

    value: Websocket
    conversation: RealtimeConversation | None = None
    remaining: bytes = b""
    is_known: bool = False
    early: list[tuple[Direction, Event]] = field(default_factory=list)


class _Steering(Struct, eq=False):
    """An input with which the client steers a response. The server gives it an id when it accepts it."""

    input: Payload
    identity: str | None = None


class RunWebsockets:
    """The websockets of a run. Call the methods in the order of the records."""

    def __init__(self, items: ItemTable, table: MessageTable, requests: RequestReader) -> None:
        self.changed: list[str] = []
        """The calls whose answers were found to be interrupted since this list was last empty."""
        self._interrupted: dict[str, int] = {}
        """How many milliseconds of an answer the user heard, by the interrupted call."""
        self._items = items
        self._table = table
        self._requests = requests
        self._prompts: dict[str, RealtimePrompts] = {}
        self._connections: dict[str, _OpenWebsocket] = {}
        self._warm_ups: dict[str, CallFacts] = {}
        self._prepared: dict[str, IncrementalReading] = {}
        """The prompts of warm-ups, by the ids of their responses."""
        self._steering: dict[str, list[_Steering]] = {}
        """What waits for the continuation of a response, by the id of the response."""
        self._successors: set[str] = set()
        """The calls that the server began by itself, and whose prompts are not read yet."""

    def values(self) -> tuple[Websocket, ...]:
        """Return the websockets, in the order in which they were opened."""
        return tuple(connection.value for connection in self._connections.values())

    # ── the facts of websockets ──────────────────────────────────────────────────────────────────────────────────────

    def read(self, record: Record, fact: WebsocketFact) -> None:
        """Read the beginning of a websocket, its end, or messages that belong to no response.

        Raises TrajectoryFormatError if messages cannot be unpacked.
        """
        if isinstance(fact, WebsocketFramesFact):
            self._read_frames(fact)
        elif isinstance(fact, WebsocketStartFact):
            connection = self._connection(fact.connection_id, fact.api)
            connection.value = replace(
                connection.value,
                api=fact.api,
                provider=fact.provider,
                model=fact.model,
                url=fact.url,
                timestamp=record.time,
                status=fact.status,
                error=stated_error(fact.error),
            )
        else:
            connection = self._connection(fact.connection_id, None)
            connection.value = replace(
                connection.value,
                duration_seconds=fact.duration_seconds,
                code=fact.code,
                reason=fact.reason,
                ended_by=fact.ended_by,
                sent=fact.sent,
                received=fact.received,
            )

    def _read_frames(self, fact: WebsocketFramesFact) -> None:
        connection = self._connection(fact.connection_id, None)
        try:
            text = unpacked(fact.zlib)
        except ours(ValueError, TypeError, zlib.error) as error:
            connection.remaining = b""
            raise TrajectoryFormatError("the messages of a websocket cannot be unpacked") from error
        if fact.continues:
            text = connection.remaining + text
        end = text.rfind(b"\n") + 1
        incomplete = b""
        for direction, message in read_marked(text[:end]):
            event = _json_of(message)
            incomplete = b""
            if isinstance(event, dict):
                self._read_event(connection, direction, event)
            elif event is None:
                incomplete = marked(direction, message)
        connection.remaining = incomplete + text[end:]

    def _connection(self, identity: str, api: str | None) -> _OpenWebsocket:
        connection = self._connections.get(identity)
        if connection is None:
            connection = self._connections[identity] = _OpenWebsocket(Websocket(identity))
        if api is not None and not connection.is_known:
            connection.is_known = True
            dialect = dialect_of(api)
            if dialect is not None and dialect.websockets is not None and dialect.websockets.names_responses:
                prompts = self._prompts.get(dialect.name)
                if prompts is None:
                    prompts = RealtimePrompts(dialect, self._table)
                    self._prompts[dialect.name] = prompts
                connection.conversation = RealtimeConversation(prompts, self._note_interruption)
            for direction, event in connection.early:
                self._read_event(connection, direction, event)
            connection.early.clear()
        return connection

    def _read_event(self, connection: _OpenWebsocket, direction: Direction, event: Event) -> None:
        conversation = connection.conversation
        if not connection.is_known:
            connection.early.append((direction, event))
        elif conversation is None:
            self._read_steering(direction, event)
        elif direction == "sent":
            conversation.sent(event)
        else:
            conversation.received(event)

    def _read_steering(self, direction: Direction, event: Event) -> None:
        """Read an event that steers a response. What the server refuses is in no prompt."""
        kind, steer = event.get("type"), as_dict(event.get("steer"))
        if direction == "sent" and kind == "response.steer":
            waiting = self._steering.setdefault(as_text(event.get("previous_response_id")) or "", [])
            waiting.append(_Steering(event.get("input")))
        waiting = self._steering.get(as_text(steer.get("previous_response_id")) or "", [])
        identity = as_text(steer.get("id"))
        if direction == "received" and kind == "response.steer.accepted":
            first = next((steering for steering in waiting if steering.identity is None), None)
            if first is not None:
                first.identity = identity
        elif direction == "received" and kind == "response.steer.failed":
            refused = next((steering for steering in waiting if steering.identity == identity), None)
            if refused is not None:
                waiting.remove(refused)

    # ── requests and responses ───────────────────────────────────────────────────────────────────────────────────────

    def read_warm_up(self, record: Record, fact: CallFact) -> bool:
        """Read a fact of a warm-up. Return False, and read nothing, if the fact is of a call."""
        if isinstance(fact, LLMRequestFact) and is_warm_up(fact):
            warm_up = CallFacts(fact.interaction_id, self._items, record.seq, record.time)
            self._warm_ups[fact.interaction_id] = warm_up
            warm_up.add(record, fact)
            reading = self.read_request(warm_up, fact)
            if reading is None:
                reading = self._continued(_whole_request(warm_up), None, ())
            warm_up.incremental = reading
            connection = self._connection(fact.connection_id or "", fact.api)
            connection.value = replace(connection.value, warm_ups=connection.value.warm_ups + 1)
            return True
        begun = self._warm_ups.get(fact.interaction_id)
        if begun is None:
            return False
        begun.add(record, fact)
        if begun.newest.ending is not None:
            identity = begun.read_response().id
            if identity is not None and begun.incremental is not None:
                self._prepared[identity] = begun.incremental
            begun.newest.parts.clear()
        return True

    def read_request(self, call: CallFacts, sent: LLMRequestFact) -> IncrementalReading | None:
        """Read the request of a call on a websocket. Return None if the caller must read the whole request.

        Raises KeyError if a record that the request needs is missing.
        """
        connection = self._connection(sent.connection_id or "", sent.api)
        if connection.conversation is not None:
            return connection.conversation.read_request(call.raw_request())
        if sent.body == {}:
            self._successors.add(call.interaction_id)
        reading = self._requests.read(call.newest.dialect, sent)
        previous = as_text(as_dict(sent.body).get(_PREVIOUS))
        if previous is None:
            return reading
        prepared, steering = self._prepared.get(previous), self._steering.pop(previous, [])
        if prepared is None and not steering:
            return reading
        own = _whole_request(call)
        if reading is not None:
            own = replace(reading.offer, messages=reading.messages)
        return self._continued(own, prepared, _messages_of(call, steering))

    def read_response(self, call: CallFacts) -> IncrementalReading | None:
        """Read the response of a call that ended. Return the prompt of the call if it was not known before."""
        sent = call.sent
        if not isinstance(sent, LLMRequestFact) or sent.connection_id is None:
            return None
        conversation = self._connection(sent.connection_id, sent.api).conversation
        if conversation is None:
            return self.prompt_of_successor(call)
        conversation.read_response(call.interaction_id, call.raw_request(), call.raw_response())
        return None

    def prompt_of_successor(self, call: CallFacts) -> IncrementalReading | None:
        """Return the prompt of a response that the server began by itself. The response repeats its parameters.

        Return None for any other call, and as long as the response is not known.
        """
        if call.interaction_id not in self._successors:
            return None
        body, reader = as_dict(call.raw_response()), dialect_of(call.newest.dialect)
        previous = as_text(body.get("previous_response_id"))
        if previous is None or reader is None:
            return None
        self._successors.remove(call.interaction_id)
        stated = {name: body[name] for name in _REPEATED if body.get(name) is not None}
        return self._continued(reader.read_request(stated), None, _messages_of(call, self._steering.pop(previous, [])))

    def _note_interruption(self, interaction_id: str, end: int) -> None:
        self._interrupted[interaction_id] = end
        self.changed.append(interaction_id)

    def with_interruption(self, interaction: LLMInteraction) -> LLMInteraction:
        """Return an interaction whose response states how much of it the user heard, if the user interrupted it."""
        end = self._interrupted.get(interaction.interaction_id)
        if end is None or not interaction.answered:
            return interaction
        return replace(interaction, response=replace(interaction.response, audio_end_ms=end))

    def _continued(
        self, own: RequestReading, prepared: IncrementalReading | None, messages: Sequence[Message]
    ) -> IncrementalReading:
        """Return a prompt that has the messages of a warm-up, and then `messages`, in front of its own messages."""
        instructions, tools, parameters = [*own.messages[: own.instructions]], own.tools, own.parameters
        earlier: Sequence[Message] = ()
        if prepared is not None:
            begin, before = prepared.offer.instructions, prepared.offer.parameters.get(_PREVIOUS)
            earlier = prepared.messages[begin:]
            instructions = instructions or [*prepared.messages[:begin]]
            tools = tools or prepared.offer.tools
            if before is not None:  # the warm-up continues a call, and so does this request
                parameters = {**parameters, _PREVIOUS: before}
        table = self._table
        prompt = table.prompt(chain(map(table.instruction, instructions), earlier, messages))
        prompt = prompt.extended(own.messages[own.instructions :])
        offer = RequestReading(
            SharedSequence(), table.tools(tuple(tools)), parameters, own.model, instructions=len(instructions)
        )
        made_up = sum(count_made_up(message.tool_calls) for message in prompt)
        return IncrementalReading(offer, table, prompt.numbers, len(prompt), tuple(newest_results(prompt)), made_up)


def _json_of(message: bytes) -> Payload:
    """Return the JSON of a message, or None if it is not JSON. Values that a document cannot have are replaced."""
    text = replace_lone_surrogates(message.decode("utf-8", "replace"))
    try:
        check_depth(text, MAX_DEPTH)
    except NotJsonError:
        return None
    value = json_value(text)
    if "NaN" in text or "Infinity" in text:
        return to_jsonable(value)
    return value


def _whole_request(call: CallFacts) -> RequestReading:
    reader = dialect_of(call.newest.dialect)
    if reader is None:
        return RequestReading()
    return reader.read_request(call.raw_request())


def _messages_of(call: CallFacts, steering: Sequence[_Steering]) -> Sequence[Message]:
    """Return the messages of what the client steered a response with."""
    reader = dialect_of(call.newest.dialect)
    if reader is None:
        return ()
    return [message for each in steering for message in reader.read_request({"input": each.input}).messages]


_PREVIOUS = "previous_response_id"
_REPEATED = ("model", "instructions", "tools", _PREVIOUS)
"""The members of a request that its response repeats, as far as a prompt needs them."""
