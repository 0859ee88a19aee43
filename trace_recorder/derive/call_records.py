"""The records of one LLM interaction: the request, the parts of the stream, and the response or error of each attempt.

`CallRecords` collects the records, and is the source of an `LLMInteraction`. It reads the messages, the raw bodies and
the stream from the records on demand. A missing or damaged record does not raise an exception here: an unknown value is
None, and `has_request` returns whether the request can be put together.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from trace_recorder.derive.record_bodies import media_body, raw_body, read_body
from trace_recorder.derive.stream_parts import unpacked
from trace_recorder.derive.table_prompts import IncrementalReading, newest_results
from trace_recorder.dialects.call_ids import count_made_up
from trace_recorder.dialects.dialect import MANUAL, dialect_of, join_stream
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import Record
from trace_recorder.storage.stream_chunks import TimedBytes, read_chunks
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import NO_RESPONSE, JoinedStream, LLMResponse, Payload, RequestReading, ToolResult
from trace_recorder.values.structs import Struct, field, replace

_NOT_READ = JoinedStream(None, None, 0)
ENDINGS = frozenset({"llm_response", "llm_error"})


class CallRecords(Struct, gc=False, eq=False):
    """The records of one interaction. The methods read the request and the response from the records.

    If `keeps_request` is True, the request is read once and kept. Otherwise each call of `request` reads it again. The
    garbage collector skips these objects (`gc=False`), because a long run has many, and none of them is part of a
    cycle.

    - `interaction_id`, `first_seq`: the id of the interaction, and the number of its first record
    - `continues`: the number of the first request, if it belongs to earlier attempts that are put away, else None
    - `requests`, `streams`: the records of requests, and the `llm_stream` records with parts of responses
    - `endings`: the records of responses and errors, by the numbers of their attempts
    - `first`: the record of the first request, or the first record if no request is on file
    - `newest`: the record that was added last
    - `ending`: the record of the newest attempt's response or error, or None while the attempt is in progress
    - `status`: the HTTP status in `ending`, or 0
    - `request_data`: the data of the newest attempt's request; empty if the request is missing
    - `incremental`: the newest attempt's request, if a `RequestReader` read it together with earlier requests
    - `is_manual`: whether the agent recorded the interaction by hand, so that it was not captured
    - `is_damaged`: whether a stream cannot be unpacked
    - `dialect`: the dialect of the request
    - `size`: how many bytes the records have in the journal
    """

    interaction_id: str
    items: ItemTable
    first_seq: int = 0
    keeps_request: bool = False
    continues: int | None = None
    requests: list[Record] = field(default_factory=list)
    streams: list[Record] = field(default_factory=list)
    endings: dict[int, Record] = field(default_factory=dict)
    first: Record = None  # type: ignore[assignment]  # until a record is added
    newest: Record = None  # type: ignore[assignment]
    ending: Record | None = None
    status: int = 0
    request_data: Mapping[str, Payload] = field(default_factory=dict)
    incremental: IncrementalReading | None = None
    is_manual: bool = False
    is_damaged: bool = False
    dialect: str | None = None
    size: int = 0
    _records: list[Record] = field(default_factory=list)
    _by_attempt: dict[int, list[Record]] = field(default_factory=dict)
    """The records of each attempt, from its last request on."""
    _last_ended: int | None = None
    _whole: bool | None = None
    _request: RequestReading | None = None
    _joined: JoinedStream | None = _NOT_READ

    def add(self, record: Record) -> None:
        """Add one more record. Raises TypeError if the number of its attempt is not an integer."""
        attempt = record.data.get("attempt", 0)
        if type(attempt) is not int:
            raise TypeError("the attempt is not an integer")
        self._joined, self._whole = _NOT_READ, None
        self._records.append(record)
        self.size += record.length
        self.newest, kind = record, record.kind
        self._by_attempt.setdefault(attempt, []).append(record)
        if kind in ENDINGS:
            self._last_ended = attempt if self._last_ended is None else max(self._last_ended, attempt)
            if attempt not in self.endings or "polled" not in self.endings[attempt].data or "polled" in record.data:
                self.endings[attempt] = record  # the end of a stream never replaces the final response to a poll
        elif kind == "llm_stream":
            self.streams.append(record)
        else:
            self._by_attempt[attempt] = [record]
            self.requests.append(record)
            self.incremental, self.request_data, self._request = None, record.data, None
            self.first = self.requests[0]
            self.is_manual = self.first.kind == "llm_interaction"
            api = MANUAL if self.is_manual else record.data.get("api")
            self.dialect = api if isinstance(api, str) else None
        if not self.requests:
            self.first = next(iter(self.endings.values())) if self.endings else self.streams[0]
        if self.endings:
            data = self.request_data
            ending = self.endings.get(data.get("attempt", self._last_ended))
            status = ending.data.get("status") if ending is not None else 0
            self.ending, self.status = ending, status if isinstance(status, int) else 0

    def attempt_at(self, record: Record) -> CallRecords:
        """Return the attempt of `record`, without later records.

        The cost depends on the records of this attempt, and not on the attempts before.
        """
        attempt = CallRecords(self.interaction_id, self.items, self.first_seq, keeps_request=self.keeps_request)
        for added in self._by_attempt[record.data.get("attempt", 0)]:
            attempt.add(added)
            if added is record:
                break
        if self.is_manual and self.first.seq <= record.seq:
            attempt.is_manual, attempt.dialect = True, MANUAL
        return attempt

    @property
    def records(self) -> list[Record]:
        """All records, in the order in which they were added."""
        return self._records

    @property
    def last_part(self) -> Mapping[str, Payload]:
        """The data of the newest stream record, or an empty dict if the call has no stream record."""
        return self.streams[-1].data if self.streams else {}

    def has_request(self) -> bool:
        """Return whether the request is on file, with every item that it needs."""
        if self.incremental is not None:
            return True
        if self._whole is None:
            self._whole = bool(self.requests) and ("items" not in self.request_data or self.raw_request() is not None)
        return self._whole

    def raw_request(self) -> Payload:
        """Return the JSON that was sent, or the text if it was not JSON. Return None if a needed record is missing."""
        if "items" not in self.request_data:
            return raw_body(self.request_data)
        try:
            return self.items.expand(self.request_data)
        except ours(KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None

    def request_in_items(self) -> tuple[Payload, dict[str, int | list[int]]]:
        """Return the request as it is on file: its body, and the numbers of its items by the names of their members.

        Raises KeyError if a record that it needs is missing.
        """
        if "items" not in self.request_data:
            return raw_body(self.request_data), {}
        parts: Mapping[str, Payload] = self.request_data["items"]
        numbers = {
            name: part if isinstance(part, int) else [*self.items.numbers(name, part)] for name, part in parts.items()
        }
        return self.request_data["body"], numbers

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
        body = self.raw_request() if "items" in self.request_data else read_body(self.request_data)
        reader = dialect_of(self.dialect)
        return RequestReading() if reader is None or body is None else reader.read_request(body)

    def request_without_messages(self) -> RequestReading:
        """Return the request. Its messages are missing if the request was read together with earlier requests."""
        return self.request() if self.incremental is None else self.incremental.offer

    @property
    def new_tool_results(self) -> list[ToolResult]:
        """The tool results of the request that follow the model's last message."""
        return newest_results(self.request().messages) if self.incremental is None else list(self.incremental.results)

    def _made_up_ids(self) -> int:
        if self.incremental is not None:
            return self.incremental.made_up
        return sum(call.call_id_made_up for message in self.request().messages for call in message.tool_calls)

    def raw_stream(self) -> str | None:
        """Return the text of the newest attempt's stream, or None if there is no stream."""
        raw = self.stream_bytes()
        return None if raw is None else raw.decode("utf-8", "replace")

    def stream_bytes(self) -> bytes | None:
        """Return the unpacked bytes of the newest attempt's stream so far, or None if there is no stream."""
        parts = self._parts(self.request_data.get("attempt", 0))
        return None if parts is None else b"".join(text for text, _ in parts)

    def raw_chunks(self) -> tuple[TimedBytes, ...] | None:
        """Return the chunks of the stream, each with the seconds since the request.

        Return None if the chunks are missing or damaged.
        """
        try:
            parts = self._parts(self.request_data.get("attempt", 0))
            return None if parts is None else read_chunks(parts)
        except ours(ValueError, TypeError, KeyError):
            return None

    def _parts(self, attempt: int) -> list[tuple[bytes, Mapping[str, Payload]]] | None:
        """Return the parts of a stream: the unpacked bytes, and the data of each record.

        Return None if there is no part, or if a part is damaged.
        """
        if not self.streams:
            return None
        parts = [record.data for record in self._by_attempt.get(attempt, ()) if record.kind == "llm_stream"]
        try:
            inflated = unpacked(parts)
            return list(zip(inflated, parts, strict=True)) or None
        except ours(ValueError, TypeError, zlib.error):
            self.is_damaged = True
            return None

    @property
    def joined(self) -> JoinedStream | None:
        """The stream as the dialect's reader assembles it, or None if there is no stream."""
        if self._joined is _NOT_READ:
            data = self.stream_bytes()
            joined = None if data is None else join_stream(self.dialect, data)
            self._joined = joined and replace(joined, body=to_jsonable(joined.body), error=to_jsonable(joined.error))
        return self._joined

    def stream_error(self) -> Payload:
        """Return the provider's error in the stream, or None. Assemble the stream only if it may have an error."""
        return self.joined.error if self._may_have_error() and self.joined is not None else None

    def _may_have_error(self) -> bool:
        """Return whether the stream may have an error. If it has one, the assembled response on file has it too."""
        assembled = self.ending.data.get("assembled") if self.ending else None
        return not isinstance(assembled, dict) or assembled.get("error") is not None

    def raw_response(self) -> Payload:
        """Return the response as JSON or text. Bytes that are neither, such as a sound, are an object (`media_body`).

        For a stream, return the assembled response on file. If that is missing, assemble the stream.
        """
        if self.is_manual:
            return self.request_data.get("response")
        data = self.ending.data if self.ending else {}
        if "assembled" in data:
            return data["assembled"]
        if "polled" in data:
            return raw_body(data)
        if self.streams and self.joined is not None:
            return self.joined.body
        return data["body"] if "body" in data else media_body(data) or raw_body(data)

    def _readable_text(self, raw: str) -> Payload:
        data = self.ending.data if self.ending else {}
        return raw if data.keys().isdisjoint({"text", "base64"}) else read_body(data)

    def read_response(self) -> LLMResponse:
        """Return the response as its dialect's reader reads it.

        Return NO_RESPONSE if the call failed, or if there is no response yet.
        """
        if self.ending is None and not self.is_manual and not self.streams:
            return NO_RESPONSE
        body, reader = self.raw_response(), dialect_of(self.dialect)
        if isinstance(body, str):
            body = self._readable_text(body)
        if body is None or reader is None or self.status >= 400:
            return NO_RESPONSE
        response = reader.read_response(body)
        if not response.tool_calls or not count_made_up(response.tool_calls):
            return response
        return reader.read_response(body, self._made_up_ids())


class AddedRecord(NamedTuple):
    """A record that was added, and is not read yet.

    `call` is its call, or None if the record has none. The other two fields state what was known of the call when the
    record was added: `begun` is the number of its first request, and `newest_attempt` is the number of the newest
    request's attempt. `newest_attempt` is None if that request states no number, or is missing.
    """

    record: Record
    call: CallRecords | None = None
    begun: int = 0
    newest_attempt: int | None = None
