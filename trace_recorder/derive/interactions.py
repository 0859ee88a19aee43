"""One LLM interaction, from its records: request, stream, response or error, of each attempt.

`Call` gathers the records; `interaction_of` makes the value of what there is so far, and `Call` itself is the source
from which the value's large parts are expanded when they are asked for. Nothing here fails for a record that is
missing: what cannot be told is None, and `is_whole` says whether the request can be put together.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import takewhile

from trace_recorder.derive.requests import Known, result_of
from trace_recorder.dialects import manual as by_hand
from trace_recorder.dialects.error_body import read_error
from trace_recorder.dialects.json_access import json_value
from trace_recorder.dialects.readers import Reader, join_stream, reader_of, why_incomplete
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal import Record
from trace_recorder.storage.stream_chunks import Piece, chunks
from trace_recorder.values.json_text import NotJsonError, mended, parse
from trace_recorder.values.jsonable import plain
from trace_recorder.values.messages import NO_RESPONSE, JoinedStream, LLMResponse, Payload, RequestReading, ToolResult
from trace_recorder.values.trajectory import Attempt, ErrorInfo, LLMInteraction

LARGEST_STREAM = 64 * 1024 * 1024
MOST_GROWN = 64
"""A stream may unpack to so many bytes, or so many times what it takes on file, whichever is more."""
ENDINGS = frozenset({"llm_response", "llm_error"})


class Call:
    """The records of one interaction, and what can be expanded from them."""

    since: int
    """The number of the record with which it began to be known."""
    known: Known | None
    """What is known of the newest attempt's request where it was read with those before it."""
    begin: Mapping[str, Payload]
    """The data of the newest attempt's request; empty where it is damaged."""
    is_damaged: bool
    """Whether a stream was found that cannot be unpacked."""
    ending: Record | None
    """The record that ends the newest attempt; None while it is in flight."""

    def __init__(self, interaction_id: str, items: ItemTable, since: int = 0) -> None:
        self.interaction_id = interaction_id
        self.since = since
        self._items = items
        self._records: list[Record] = []
        self._requests: list[Record] = []
        self._streams: list[Record] = []
        self._endings: dict[int, Record] = {}
        self._whole: bool | None = None
        self.is_damaged = False
        self.known = None
        self.begin = {}
        self.ending = None

    def add(self, record: Record) -> None:
        """Take one more record of this interaction."""
        self.__dict__.pop("joined", None)
        self.__dict__.pop("body_in_parts", None)
        self._whole = None
        self._records.append(record)
        if record.kind in ENDINGS:
            self._endings[record.data.get("attempt", 0)] = record
        elif record.kind == "llm_stream":
            self._streams.append(record)
        else:
            self._requests.append(record)
            self.known, self.begin = None, record.data
        self.ending = self._endings.get(self.begin.get("attempt", max(self._endings, default=0)))

    def until(self, record: Record) -> Call:
        """The interaction as it was when one of its records came: what is read at once is read as if one by one."""
        if record is self._records[-1]:
            return self
        earlier = Call(self.interaction_id, self._items, self.since)
        for one in self._records[: self._records.index(record) + 1]:
            earlier.add(one)
        return earlier

    @property
    def first(self) -> Record:
        """The record with which it begins, or what there is of it where that one is damaged."""
        return (self._requests or list(self._endings.values()) or self._streams)[0]

    @property
    def by_hand(self) -> bool:
        """Whether it was recorded by the agent itself, and not captured."""
        return self.first.kind == "llm_interaction"

    @property
    def last_part(self) -> Mapping[str, Payload]:
        """The data of the newest part of a stream; empty where none has come."""
        return self._streams[-1].data if self._streams else {}

    def is_whole(self) -> bool:
        """Whether the request can be put together, and leads to the records that its writer meant."""
        if self.known is not None:
            return True
        if self._whole is None:
            self._whole = bool(self._requests) and ("items" not in self.begin or self.raw_request() is not None)
        return self._whole

    def checks(self) -> bool:
        """Whether every request's ranges agree with their check values."""
        try:
            return all(self._items.check(record.data) for record in self._requests if "check" in record.data)
        except (KeyError, TypeError, ValueError, AttributeError):
            return False

    def raw_request(self) -> Payload:
        """The JSON that was sent, or its text where that was no JSON; None where a record that it needs is missing."""
        if "items" not in self.begin:
            return raw_body(self.begin)
        try:
            return self._items.expand(self.begin)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None

    def request(self) -> RequestReading:
        """The request as its dialect's reader understands it."""
        body = self.raw_request() if "items" in self.begin else read_body(self.begin)
        reader = self._reader()
        return RequestReading() if reader is None or body is None else reader.read_request(body)

    def offer(self) -> RequestReading:
        """The request without its messages, where that is known without reading all of them."""
        return self.request() if self.known is None else self.known.offer

    @property
    def new_results(self) -> list[ToolResult]:
        """What the request brings back from tools since the model last spoke."""
        return self._read_results() if self.known is None else list(self.known.results)

    def _read_results(self) -> list[ToolResult]:
        since = list(takewhile(lambda message: message.role != "assistant", reversed(self.request().messages)))
        return [result_of(message) for message in reversed(since) if message.role == "tool"]

    def _made_up_calls(self) -> int:
        if self.known is not None:
            return self.known.made_up
        return sum(call.call_id_made_up for message in self.request().messages for call in message.tool_calls)

    def raw_stream(self) -> str | None:
        """The text of the stream that came to the newest attempt; of a plain body, what came of one that has no end."""
        raw = self.stream_bytes() if self.ending else self._bytes(plain="plain" in self.last_part)
        return None if raw is None else raw.decode("utf-8", "replace")

    def stream_bytes(self) -> bytes | None:
        """The decoded bytes of the stream that came to the newest attempt."""
        return self._bytes(plain=False)

    def _bytes(self, *, plain: bool) -> bytes | None:
        parts = self._parts(self.begin.get("attempt", 0), plain=plain)
        return None if parts is None else b"".join(text for text, _ in parts)

    def raw_chunks(self) -> tuple[Piece, ...] | None:
        """The chunks of that stream, and when each came, in seconds since the request; None where nothing says so."""
        try:
            parts = self._parts(self.begin.get("attempt", 0))
            return None if parts is None else chunks(parts)
        except (ValueError, TypeError, KeyError):
            return None

    @cached_property
    def body_in_parts(self) -> Mapping[str, Payload]:
        """The plain response of the newest attempt, where it was written in parts."""
        return self._body_in_parts(self.begin.get("attempt", 0))

    def _body_in_parts(self, attempt: int) -> Mapping[str, Payload]:
        """What its ending would have as a whole; nothing before it ended, and where a part of it is missing."""
        ending = self._endings.get(attempt)
        if ending is None or "parts" not in ending.data:
            return {}
        parts = self._parts(attempt, plain=True)
        if parts is None or ending.data["parts"] != len(parts):
            return {}
        data = b"".join(text for text, _ in parts)
        try:
            text = data.decode()
            return {"body": parse(text)}
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode()}
        except NotJsonError:
            return {"text": text}

    def lacks_parts(self) -> bool:
        """Whether the body of its response is in parts, and not all of them are there."""
        return self.ending is not None and "parts" in self.ending.data and not self.body_in_parts

    def _parts(self, attempt: int, *, plain: bool = False) -> list[tuple[bytes, Mapping[str, Payload]]] | None:
        """The parts of the stream, or else of the plain body, that came to an attempt: text and data of each."""
        parts = [record.data for record in self._streams if record.data.get("attempt", 0) == attempt]
        parts = [data for data in parts if bool(data.get("plain")) is plain]
        try:
            inflated = _inflated([base64.b64decode(data.get("zlib", "")) for data in parts])
            return list(zip(inflated, parts, strict=True)) or None
        except (ValueError, TypeError, zlib.error):
            self.is_damaged = True
            return None

    @cached_property
    def joined(self) -> JoinedStream | None:
        """The stream put together by its dialect's reader; None where there is none."""
        data = self.stream_bytes()
        joined = None if data is None else join_stream(self.begin.get("api"), data)
        return joined and replace(joined, body=plain(joined.body), error=plain(joined.error))

    def stream_error(self) -> Payload:
        """The provider's error that the stream carried; one in whose text there is no such word is not put together."""
        data = self.stream_bytes()
        return self.joined.error if data is not None and b"error" in data and self.joined is not None else None

    def raw_response(self) -> Payload:
        """The JSON that came, or its text; of a stream, as it was assembled then, or else is now."""
        if self.by_hand:
            return self.begin.get("response")
        data = self.ending.data if self.ending else {}
        if "assembled" in data:
            return data["assembled"]
        if self.joined is not None:
            return self.joined.body
        return raw_body({**data, **self.body_in_parts})

    def _readable_response(self) -> Payload:
        raw, data = self.raw_response(), {**(self.ending.data if self.ending else {}), **self.body_in_parts}
        return read_body(data) if isinstance(raw, str) and not data.keys().isdisjoint({"text", "base64"}) else raw

    def written_assembly(self) -> Payload:
        """The assembled response as it stands in the journal; None where there is none."""
        return self.ending.data.get("assembled") if self.ending else None

    def _reader(self) -> Reader | None:
        return by_hand if self.by_hand else reader_of(self.begin.get("api"))

    def attempts(self) -> tuple[Attempt, ...]:
        """Every HTTP exchange of this interaction, in order."""
        heard: dict[int, Mapping[str, Payload]] = {part.data.get("attempt", 0): part.data for part in self._streams}
        heard |= {number: ending.data for number, ending in self._endings.items()}
        return () if self.by_hand else tuple(self._attempt(one, heard) for one in self._requests)

    def _attempt(self, begin: Record, heard: Mapping[int, Mapping[str, Payload]]) -> Attempt:
        number = begin.data.get("attempt", 0)
        data = heard.get(number, {})
        return Attempt(
            number=number,
            timestamp=begin.time,
            status=data.get("status"),
            error=_ending_error(self._endings.get(number), self._body_in_parts(number)),
            duration_seconds=_seconds(data.get("duration_seconds")),
            headers=data.get("headers") or {},
            inferred=begin.data.get("inferred", False),
        )

    def read_response(self) -> LLMResponse:
        """The response as its dialect's reader understands it; NO_RESPONSE for an error, and while there is none."""
        body, reader = self._readable_response(), self._reader()
        if body is None or reader is None or _status(self.ending) >= 400:
            return NO_RESPONSE
        response = reader.read_response(body)
        if not any(call.call_id_made_up for call in response.tool_calls):
            return response
        return reader.read_response(body, self._made_up_calls())


def _inflated(parts: list[bytes]) -> list[bytes]:
    """The parts of a stream, unpacked. Raises ValueError where they would grow beyond what streams do."""
    left = max(LARGEST_STREAM, MOST_GROWN * sum(map(len, parts)))
    inflated = []
    for part in parts:
        stream = zlib.decompressobj()
        inflated.append(stream.decompress(part, left + 1))
        left -= len(inflated[-1])
        if left < 0 or not stream.eof:
            raise ValueError("a part of a stream is cut off, or too large")
    return inflated


def interaction_of(call: Call) -> LLMInteraction:
    """Make the value of an interaction from what there is of it."""
    begin, ending = call.begin, call.ending
    end: Mapping[str, Payload] = ending.data if ending else {}
    complete, ended_by = _how_it_ended(call, end)
    return LLMInteraction(
        interaction_id=call.interaction_id,
        timestamp=call.first.time,
        provider=begin.get("provider"),
        model=_model(begin),
        source=call,
        api=begin.get("api"),
        step_number=begin.get("step_number"),
        agent=begin.get("agent"),
        agent_id=begin.get("agent_id"),
        parent_agent_id=begin.get("parent_agent_id"),
        response=call.read_response(),
        error=_error(call, end),
        attempts=call.attempts(),
        duration_seconds=_seconds(end.get("duration_seconds")),
        time_to_first_token_seconds=_seconds((end or call.last_part).get("time_to_first_token_seconds")),
        stream=bool(end.get("stream", asks_for_stream(begin))),
        complete=complete,
        ended_by=ended_by,
        parent_execution_id=begin.get("parent_execution_id"),
    )


def _how_it_ended(call: Call, end: Mapping[str, Payload]) -> tuple[bool, str | None]:
    """Whether an answer is whole, and if not, why, where that is known.

    An ending that does not say whether its stream's last event came, as older ones do not, is held against the stream.
    """
    answered = call.by_hand or (call.ending is not None and call.ending.kind == "llm_response")
    complete, ended_by = answered and end.get("complete", True) is True, end.get("ended_by")
    if complete and end.get("stream") is True and "last_event" not in end and _status(call.ending) < 300:
        data = call.stream_bytes()
        joined = None if data is None else join_stream(call.begin.get("api"), data)
        if joined is not None and joined.events == end.get("events"):  # else a part of it is damaged
            ended_by = why_incomplete(joined)
    return complete and ended_by is None, ended_by


def _model(begin: Mapping[str, Payload]) -> str | None:
    """The model as it was asked for: in the body, or else in the path."""
    model = _asked(begin).get("model") or begin.get("model")
    return model if isinstance(model, str) else None


def asks_for_stream(begin: Mapping[str, Payload]) -> bool:
    """Whether a request's data say that a stream was asked for."""
    return begin.get("stream") is True or _asked(begin).get("stream") is True


def _asked(begin: Mapping[str, Payload]) -> Mapping[str, Payload]:
    """The members of a request, but for those that are items."""
    body = begin["body"] if "body" in begin else read_body(begin)
    return body if isinstance(body, dict) else {}


def _error(call: Call, end: Mapping[str, Payload]) -> ErrorInfo | None:
    if call.by_hand:
        return stated_error(call.begin.get("error"))
    if (carried := call.stream_error()) is not None:
        kind, message = read_error({"error": carried})
        return ErrorInfo(kind or "stream_error", message or "the stream carried an error", end.get("status"))
    return _ending_error(call.ending, call.body_in_parts)


def _ending_error(ending: Record | None, in_parts: Mapping[str, Payload]) -> ErrorInfo | None:
    if ending is None:
        return None
    if ending.kind == "llm_error" or "error" in ending.data:
        return stated_error(ending.data.get("error", ending.data))
    body = read_body({**ending.data, **in_parts})
    if _status(ending) < 400 and not (isinstance(body, dict) and body.get("error")):
        return None
    kind, message = read_error(body)
    return ErrorInfo(kind or "http_error", message or f"HTTP status {_status(ending)}", _status(ending))


def stated_error(error: Payload) -> ErrorInfo | None:
    """An error as a record states it; None for none."""
    if not isinstance(error, dict):
        return None
    return ErrorInfo(str(error.get("type") or "error"), str(error.get("message") or ""))


def _seconds(value: Payload) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _status(ending: Record | None) -> int:
    status = ending.data.get("status", 0) if ending else 0
    return status if isinstance(status, int) else 0


def raw_body(data: Mapping[str, Payload]) -> Payload:
    """The body of a record that was not taken apart: its JSON; else its text, or what bytes it had."""
    return _body(data, lambda text: text)


def read_body(data: Mapping[str, Payload]) -> Payload:
    """The body of a record as readers take it: of JSON that is not strict, what can be told strictly."""
    return _body(data, _told_strictly)


def _body(data: Mapping[str, Payload], otherwise: Callable[[str], Payload]) -> Payload:
    if "body" in data:
        return data["body"]
    text = data.get("text")
    if text is None and "base64" in data:
        text = base64.b64decode(data["base64"]).decode("utf-8", "replace")
    if not text:
        return None
    try:
        return parse(text)
    except NotJsonError:
        return otherwise(text)


def _told_strictly(text: str) -> Payload:
    """JSON that strict readers refuse: half of a surrogate pair reads as U+FFFD, any other oddity is described."""
    value = json_value(mended(text))
    return text if value is None else plain(value)
