"""The records of one LLM interaction: request, stream parts, response or error, of each attempt.

`CallRecords` collects the records and is the source of an `LLMInteraction`: the large parts, such as messages and raw
bodies, are expanded from the records when they are asked for. A missing or damaged record never raises here: what is
unknown is None, and `is_whole` says whether the request can be put together.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import takewhile

from trace_recorder.derive.record_bodies import raw_body, read_body
from trace_recorder.derive.requests import IncrementalReading, result_of
from trace_recorder.dialects import manual
from trace_recorder.dialects.readers import Reader, join_stream, reader_of
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal import Record
from trace_recorder.storage.stream_chunks import Piece, chunks
from trace_recorder.values.jsonable import plain
from trace_recorder.values.messages import NO_RESPONSE, JoinedStream, LLMResponse, Payload, RequestReading, ToolResult

MAX_STREAM_BYTES = 64 * 1024 * 1024
MAX_EXPANSION = 64
"""A stream may unpack to so many bytes, or so many times what it takes on file, whichever is more."""
ENDINGS = frozenset({"llm_response", "llm_error"})


class CallRecords:
    """The records of one interaction, and what can be expanded from them."""

    first_seq: int
    """The number of the record with which it began to be known."""
    incremental: IncrementalReading | None
    """What is known of the newest attempt's request where it was read with those before it."""
    request_data: Mapping[str, Payload]
    """The data of the newest attempt's request; empty where it is damaged."""
    is_damaged: bool
    """Whether a stream was found that cannot be unpacked."""
    ending: Record | None
    """The record that ends the newest attempt; None while it is in flight."""

    def __init__(self, interaction_id: str, items: ItemTable, first_seq: int = 0) -> None:
        self.interaction_id = interaction_id
        self.first_seq = first_seq
        self._items = items
        self._records: list[Record] = []
        self.requests: list[Record] = []
        self.streams: list[Record] = []
        self.endings: dict[int, Record] = {}
        self._whole: bool | None = None
        self.is_damaged = False
        self.incremental = None
        self.request_data = {}
        self.ending = None

    def add(self, record: Record) -> None:
        """Take one more record of this interaction."""
        self.__dict__.pop("joined", None)
        self._whole = None
        self._records.append(record)
        if record.kind in ENDINGS:
            self.endings[record.data.get("attempt", 0)] = record
        elif record.kind == "llm_stream":
            self.streams.append(record)
        else:
            self.requests.append(record)
            self.incremental, self.request_data = None, record.data
        self.ending = self.endings.get(self.request_data.get("attempt", max(self.endings, default=0)))

    def as_of(self, record: Record) -> CallRecords:
        """The interaction as it was when one of its records came: what is read at once is read as if one by one."""
        if record is self._records[-1]:
            return self
        earlier = CallRecords(self.interaction_id, self._items, self.first_seq)
        for one in self._records[: self._records.index(record) + 1]:
            earlier.add(one)
        return earlier

    @property
    def first(self) -> Record:
        """The record with which it begins, or what there is of it where that one is damaged."""
        return (self.requests or list(self.endings.values()) or self.streams)[0]

    @property
    def is_manual(self) -> bool:
        """Whether it was recorded by the agent itself, and not captured."""
        return self.first.kind == "llm_interaction"

    @property
    def last_part(self) -> Mapping[str, Payload]:
        """The data of the newest part of a stream; empty where none has come."""
        return self.streams[-1].data if self.streams else {}

    def is_whole(self) -> bool:
        """Whether the request can be put together, and leads to the records that its writer meant."""
        if self.incremental is not None:
            return True
        if self._whole is None:
            self._whole = bool(self.requests) and ("items" not in self.request_data or self.raw_request() is not None)
        return self._whole

    def raw_request(self) -> Payload:
        """The JSON that was sent, or its text where that was no JSON; None where a record that it needs is missing."""
        if "items" not in self.request_data:
            return raw_body(self.request_data)
        try:
            return self._items.expand(self.request_data)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None

    def request(self) -> RequestReading:
        """The request as its dialect's reader understands it."""
        body = self.raw_request() if "items" in self.request_data else read_body(self.request_data)
        reader = self._reader()
        return RequestReading() if reader is None or body is None else reader.read_request(body)

    def offer(self) -> RequestReading:
        """The request without its messages, where that is known without reading all of them."""
        return self.request() if self.incremental is None else self.incremental.offer

    @property
    def new_results(self) -> list[ToolResult]:
        """What the request brings back from tools since the model last spoke."""
        return self._read_results() if self.incremental is None else list(self.incremental.results)

    def _read_results(self) -> list[ToolResult]:
        first_seq = list(takewhile(lambda message: message.role != "assistant", reversed(self.request().messages)))
        return [result_of(message) for message in reversed(first_seq) if message.role == "tool"]

    def _made_up_ids(self) -> int:
        if self.incremental is not None:
            return self.incremental.made_up
        return sum(call.call_id_made_up for message in self.request().messages for call in message.tool_calls)

    def raw_stream(self) -> str | None:
        """The text of the stream that came to the newest attempt."""
        raw = self.stream_bytes()
        return None if raw is None else raw.decode("utf-8", "replace")

    def stream_bytes(self) -> bytes | None:
        """The decoded bytes of the stream that came to the newest attempt."""
        parts = self._stream_parts()
        return None if parts is None else b"".join(text for text, _ in parts)

    def raw_chunks(self) -> tuple[Piece, ...] | None:
        """The chunks of that stream, and when each came, in seconds since the request; None where nothing says so."""
        try:
            return chunks(parts) if (parts := self._stream_parts()) is not None else None
        except (ValueError, TypeError, KeyError):
            return None

    def _stream_parts(self) -> list[tuple[bytes, Mapping[str, Payload]]] | None:
        """The parts of the stream that came to the newest attempt, each as its text and its record's data."""
        attempt = self.request_data.get("attempt", 0)
        parts = [record.data for record in self.streams if record.data.get("attempt", 0) == attempt]
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
        joined = None if data is None else join_stream(self.request_data.get("api"), data)
        return joined and replace(joined, body=plain(joined.body), error=plain(joined.error))

    def stream_error(self) -> Payload:
        """The provider's error that the stream carried; one in whose text there is no such word is not put together."""
        data = self.stream_bytes()
        return self.joined.error if data is not None and b"error" in data and self.joined is not None else None

    def raw_response(self) -> Payload:
        """The JSON that came, or its text; of a stream, as it was assembled then, or else is now."""
        if self.is_manual:
            return self.request_data.get("response")
        data = self.ending.data if self.ending else {}
        if "assembled" in data:
            return data["assembled"]
        if self.joined is not None:
            return self.joined.body
        return raw_body(data)

    def _readable_response(self) -> Payload:
        raw, data = self.raw_response(), self.ending.data if self.ending else {}
        return read_body(data) if isinstance(raw, str) and not data.keys().isdisjoint({"text", "base64"}) else raw

    def _reader(self) -> Reader | None:
        return manual if self.is_manual else reader_of(self.request_data.get("api"))

    def read_response(self) -> LLMResponse:
        """The response as its dialect's reader understands it; NO_RESPONSE for an error, and while there is none."""
        body, reader = self._readable_response(), self._reader()
        if body is None or reader is None or http_status(self.ending) >= 400:
            return NO_RESPONSE
        response = reader.read_response(body)
        if not any(call.call_id_made_up for call in response.tool_calls):
            return response
        return reader.read_response(body, self._made_up_ids())


def _inflated(parts: list[bytes]) -> list[bytes]:
    """The parts of a stream, unpacked. Raises ValueError where they would grow beyond what streams do."""
    left = max(MAX_STREAM_BYTES, MAX_EXPANSION * sum(map(len, parts)))
    inflated = []
    for part in parts:
        stream = zlib.decompressobj()
        inflated.append(stream.decompress(part, left + 1))
        left -= len(inflated[-1])
        if left < 0 or not stream.eof:
            raise ValueError("a part of a stream is cut off, or too large")
    return inflated


def http_status(ending: Record | None) -> int:
    status = ending.data.get("status", 0) if ending else 0
    return status if isinstance(status, int) else 0
