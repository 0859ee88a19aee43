"""The facts of one LLM interaction: its exchanges, in the order in which they began.

`CallFacts` collects the facts, and is the source of an `LLMInteraction`. It reads the messages, the raw bodies and the
stream on demand. A missing or damaged record does not raise an exception here: an unknown value is None, and
`has_request` returns whether the request can be put together.
"""

from __future__ import annotations

from array import array
from functools import partial

from trace_recorder.dialects.call_ids import count_made_up
from trace_recorder.dialects.dialect import MANUAL, dialect_of
from trace_recorder.facts import LLMErrorFact, LLMInteractionFact, LLMRequestFact, LLMResponseFact, LLMStreamFact
from trace_recorder.reading.exchange_facts import ExchangeFacts, Request
from trace_recorder.reading.record_bodies import raw_body, read_body
from trace_recorder.reading.table_prompts import IncrementalReading, newest_results
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import Record
from trace_recorder.storage.stream_chunks import TimedBytes
from trace_recorder.values.messages import LLMResponse, Payload, RequestReading, ToolResult
from trace_recorder.values.structs import Struct, field, replace

CallFact = LLMRequestFact | LLMStreamFact | LLMResponseFact | LLMErrorFact | LLMInteractionFact
"""A fact of an interaction."""


class CallFacts(Struct, gc=False, eq=False):
    """The facts of one interaction. The methods read the request and the response of its newest exchange.

    If `keeps_request` is True, the request is read once and kept. Otherwise each call of `request` reads it again. The
    garbage collector skips these objects (`gc=False`), because a long run has many, and none of them is part of a
    cycle.

    - `interaction_id`, `first_seq`, `time`: the id of the interaction, and the number and time of its first record
    - `exchanges`: the exchanges whose requests are on file, in the order in which they began
    - `newest`: the newest exchange whose request is on file, or the newest exchange if there is none
    - `sent`: the newest request, or None if it is missing
    - `response`: the response of the newest exchange, if `read_response` read it
    - `incremental`: the newest request, if a `RequestReader` read it together with earlier requests
    - `places`, `size`: the offsets of the records in the journal, and how many bytes they have there
    """

    interaction_id: str
    items: ItemTable
    first_seq: int
    time: str
    keeps_request: bool = False
    exchanges: list[ExchangeFacts] = field(default_factory=list)
    newest: ExchangeFacts = None  # type: ignore[assignment]  # until a fact is added
    sent: Request | None = None
    incremental: IncrementalReading | None = None
    places: array[int] = field(default_factory=partial(array, "q"))
    size: int = 0
    _by_number: dict[int, ExchangeFacts] = field(default_factory=dict)
    """The newest exchange of each number, also without its request."""
    _whole: bool | None = None
    _request: RequestReading | None = None
    response: LLMResponse | None = None

    # ── adding facts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Record, fact: CallFact) -> None:
        """Add one more fact. `record` is its record."""
        self.places.append(record.offset)
        self.size += record.length
        self._whole = self.response = None
        if isinstance(fact, (LLMRequestFact, LLMInteractionFact)):
            if self.sent is None:
                self.time = record.time
            self.sent, self.incremental, self._request = fact, None, None
            streams = fact.stream is True or (isinstance(fact.body, dict) and fact.body.get("stream") is True)
            if isinstance(fact, LLMRequestFact):
                exchange = ExchangeFacts(fact.attempt, fact, record.time, None, fact.api, streams)
            else:
                exchange = ExchangeFacts(0, fact, record.time, fact, MANUAL, streams)
            earlier = self._by_number.get(exchange.number)
            if earlier is not None:
                exchange.take_over(earlier)
            self.newest = self._by_number[exchange.number] = exchange
            self.exchanges.append(exchange)
            return
        exchange = self._by_number.get(fact.attempt) or self._without_request(fact.attempt)
        if isinstance(fact, LLMStreamFact):
            exchange.add_part(fact)
        else:
            exchange.end(fact)

    def _without_request(self, number: int) -> ExchangeFacts:
        """Return a new exchange whose request is missing. It is the newest only if no request is on file."""
        exchange = self._by_number[number] = ExchangeFacts(number)
        if self.sent is None:
            self.newest = exchange
        return exchange

    def set_prompt(self, prompt: IncrementalReading) -> None:
        """Set the newest request, as it became known after the request was read."""
        self.incremental, self._request = prompt, None

    @property
    def url(self) -> str | None:
        """The address to which the newest request was sent, or None if it is not known."""
        if isinstance(self.sent, LLMRequestFact):
            return self.sent.url
        return None

    # ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────

    def has_request(self) -> bool:
        """Return whether the request is on file, with every item that it needs."""
        if self.incremental is not None:
            return True
        if self._whole is None:
            sent = self.sent
            self._whole = sent is not None and (sent.items is None or self.raw_request() is not None)
        return self._whole

    def raw_request(self) -> Payload:
        """Return the JSON that was sent, or the text if it was not JSON. Return None if a needed record is missing."""
        sent = self.sent
        if sent is None:
            return None
        if sent.items is None:
            return raw_body(sent)
        try:
            return self.items.expand(sent.body, sent.items)
        except ours(KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None

    def request_in_items(self) -> tuple[Payload, dict[str, int | array[int]]]:
        """Return the request as it is on file: its body, and the numbers of its items by the names of their members.

        Raises KeyError if a record that it needs is missing.
        """
        sent = self.sent
        if sent is None:
            raise KeyError(self.interaction_id)
        numbers: dict[str, int | array[int]] = {}
        for name, part in (sent.items or {}).items():
            numbers[name] = part if isinstance(part, int) else self.items.numbers(name, part)
        return raw_body(sent), numbers

    def request(self) -> RequestReading:
        """Return the request as its dialect's reader reads it.

        Other requests may share its values: do not change them.
        """
        if self._request is not None:
            return self._request
        if self.incremental is not None:
            reading = replace(self.incremental.offer, messages=self.incremental.messages)
        else:
            reading = self._read_whole()
        if self.keeps_request:
            self._request = reading
        return reading

    def _read_whole(self) -> RequestReading:
        sent, reader = self.sent, dialect_of(self.newest.dialect)
        if sent is None or reader is None:
            return RequestReading()
        if sent.items is None:
            body = read_body(sent)
        else:
            body = self.raw_request()
        if body is None:
            return RequestReading()
        return reader.read_request(body)

    def request_without_messages(self) -> RequestReading:
        """Return the request. Its messages are missing if the request was read together with earlier requests."""
        if self.incremental is None:
            return self.request()
        return self.incremental.offer

    @property
    def new_tool_results(self) -> list[ToolResult]:
        """The tool results of the request that follow the model's last message."""
        if self.incremental is not None:
            return [*self.incremental.results]
        return newest_results(self.request().messages)

    def _made_up_ids(self) -> int:
        if self.incremental is not None:
            return self.incremental.made_up
        return sum(call.call_id_made_up for message in self.request().messages for call in message.tool_calls)

    # ── the response ─────────────────────────────────────────────────────────────────────────────────────────────────

    def raw_stream(self) -> str | None:
        """Return the text of the newest exchange's stream, or None if there is no stream."""
        raw = self.newest.stream_bytes()
        if raw is None:
            return None
        return raw.decode("utf-8", "replace")

    def raw_chunks(self) -> tuple[TimedBytes, ...] | None:
        """Return the chunks of the stream, each with the seconds since the request.

        Return None if the chunks are missing or damaged.
        """
        return self.newest.raw_chunks()

    def raw_response(self) -> Payload:
        """Return the response as JSON or text. A stream is assembled."""
        return self.newest.raw_response()

    def read_response(self) -> LLMResponse:
        """Return the response as its dialect's reader reads it.

        Return NO_RESPONSE if the call failed, or if there is no response yet.
        """
        if self.response is None:
            response = self.newest.read_response()
            if response.tool_calls and count_made_up(response.tool_calls):
                response = self.newest.read_response(self._made_up_ids())
            self.response = response
        return self.response
