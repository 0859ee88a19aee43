"""The records of each HTTP exchange and of each tool execution in a journal, in the order in which they began.

A replay answers with these facts, without interpreting them. An answer is read from its record only when it is needed,
so that a long run needs no more memory than its journal.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.dialects.dialect import ENDED_BY_SERVER
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.dialects.json_access import as_dict, as_number, as_text
from trace_recorder.dialects.stream_framing import FRAMING, encode_line
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.guard import try_call
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import VERSION, Record, read
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.stream_chunks import TimedBytes
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, split_members
from trace_recorder.values.messages import Payload

_REDIRECTS = (307, 308)


@dataclass(slots=True)
class RecordedExchange:
    """One HTTP exchange, which is one attempt of an interaction. `records` has only the records of this attempt."""

    records: CallRecords
    next_url: str | None = None
    """The address of the next attempt of the same interaction."""

    @property
    def begin(self) -> Record:
        """The record of the request."""
        return self.records.first

    @property
    def ending(self) -> Record | None:
        """The record that ended the exchange, or None."""
        return self.records.ending

    @property
    def interaction_id(self) -> str:
        """The interaction of which the exchange is an attempt."""
        return self.records.interaction_id

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint of the call."""
        data = self.begin.data
        return Endpoint(data.get("api") or "", data.get("provider") or "", data.get("model"), bool(data.get("stream")))

    @property
    def streams(self) -> bool:
        """Whether the response was a stream."""
        return bool(self.records.streams or (self.ending and self.ending.data.get("stream")))

    @property
    def is_masked(self) -> bool:
        """Whether secrets of the request were masked."""
        return bool(self.begin.data.get("redacted"))

    @property
    def status(self) -> int | None:
        """The HTTP status, or None if no response came."""
        status = self._newest().get("status")
        return status if isinstance(status, int) else None

    @property
    def headers(self) -> dict[str, str]:
        """The recorded headers without `content-encoding`, because the recorded body is decoded.

        The `location` of a redirect is the address of the next attempt.
        """
        headers = as_dict(self._newest().get("headers"))
        texts = {name: value for name, value in headers.items() if isinstance(value, str)}
        kept = {name: value for name, value in texts.items() if name.lower() != "content-encoding"}
        if self.status in _REDIRECTS and self.next_url:
            kept["location"] = self.next_url
        return kept

    @property
    def error(self) -> tuple[str, str] | None:
        """The class and the message of the exception that ended the exchange, or None if it ended normally."""
        data = self.ending.data if self.ending else {}
        error = data if self.ending and self.ending.kind == "llm_error" else data.get("error")
        return (str(error.get("type")), str(error.get("message"))) if isinstance(error, dict) else None

    @property
    def stopped(self) -> str | None:
        """Return why the rest of the response was not recorded, or None if everything that came was recorded."""
        if self.ending is None:
            return "the recording ends here"
        data = self.ending.data
        # this package counts the chunks of a stream, so this record was made from another tool's file
        if "assembled" in data and "chunks" not in data and not self.records.streams:
            return "the events of its stream are not in the recording"
        if data.get("complete") is not False or "error" in data or data.get("ended_by") in ENDED_BY_SERVER:
            return None
        return str(data.get("ended_by") or "it is not complete")

    @property
    def seconds(self) -> float:
        """Return how long the exchange took, from the request to its end. Return 0.0 if the end is not on file."""
        return float(as_number(self.ending.data.get("duration_seconds")) or 0) if self.ending else 0.0

    def _newest(self) -> Mapping[str, Payload]:
        return self.records.last_part if self.ending is None else self.ending.data


class Recording:
    """The exchanges and the tool executions of one journal.

    Raises TrajectoryFormatError if the file is not a journal.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = journal_path_for(Path(path))
        if not (self.path.exists() or Path(path).exists()):
            raise TrajectoryFormatError(f"{path} cannot be replayed: there is no such file.")
        if not self.path.is_file():
            raise TrajectoryFormatError(
                f"{path} cannot be replayed without its journal, {self.path.name}: the document has the messages, but "
                "not the bytes that were sent. Keep both files of a run together."
            )
        self._data = self.path.read_bytes()
        self._items = ItemTable()
        self._began = False
        self.trajectory_id: str | None = None
        self.exchanges: list[RecordedExchange] = []
        self.tools: list[RecordedTool] = []
        self.polled: dict[str, RecordedExchange] = {}
        """The final answers to polls of background responses, by the id of the response."""
        self._by_attempt: dict[tuple[str, int], RecordedExchange] = {}
        self._by_execution: dict[str, RecordedTool] = {}
        self.damaged = 0
        for record in read(self._data):
            if isinstance(record, Record):
                try_call(self._take, self._count_damaged, record)
            elif not record.torn:
                self.damaged += 1
        if not self._began:
            raise TrajectoryFormatError(f"{self.path} is not a journal: it has no first record of this package.")

    def _count_damaged(self, error: Exception) -> None:
        """Count a record as damaged if its data cannot be read. A journal of a newer version is refused as a whole."""
        if isinstance(error, TrajectoryFormatError):
            raise error
        self.damaged += 1

    def _take(self, record: Record) -> None:
        match record.kind:
            case "start":
                self._began = True
                self.trajectory_id = as_text(record.data.get("trajectory_id"))
                self._refuse_newer(record.data.get("version"))
            case "item":
                self._items.add_record(record)
            case "llm_request":
                self._take_request(record)
            case "llm_stream" | "llm_response" | "llm_error":
                self._take_answer(record)
            case "tool_call":
                tool = self._by_execution[record.data["execution_id"]] = RecordedTool(record)
                self.tools.append(tool)
            case "tool_result" if record.data["execution_id"] in self._by_execution:
                self._by_execution[record.data["execution_id"]].ending = record

    def _take_answer(self, record: Record) -> None:
        exchange = self._by_attempt.get(_attempt(record.data))
        if "polled" in record.data:
            body = as_dict(record.data.get("assembled", record.data.get("body")))
            self.polled[as_text(body.get("id")) or ""] = self._exchange(record)
        elif exchange is not None:
            exchange.records.add(record)

    def _take_request(self, record: Record) -> None:
        identity, attempt = _attempt(record.data)
        exchange = self._by_attempt[identity, attempt] = self._exchange(record)
        self.exchanges.append(exchange)
        previous = self._by_attempt.get((identity, attempt - 1))
        if previous is not None:
            previous.next_url = record.data.get("url")
        if "items" in record.data:
            self._items.add_base(record.seq, record.data["items"])

    def _exchange(self, first: Record) -> RecordedExchange:
        """Return an exchange that begins with this record."""
        records = CallRecords(first.data["interaction_id"], self._items)
        records.add(first)
        return RecordedExchange(records)

    def _refuse_newer(self, version: Payload) -> None:
        if isinstance(version, int) and version > VERSION:
            raise TrajectoryFormatError(
                f"{self.path} is a journal of version {version}, and this trace_recorder replays up to "
                f"{VERSION}. Install a newer trace_recorder."
            )

    def request(self, exchange: RecordedExchange) -> Payload:
        """Return the JSON that was sent, or the text if it was not JSON. Return None if a needed line is damaged."""
        data = exchange.begin.data
        if "items" in data:
            return exchange.records.raw_request()
        return data.get("body", data.get("text", data.get("base64")))

    def item(self, number: int) -> Payload:
        """Return the value of an item. Raises KeyError if its line is damaged."""
        return self._items.element(number)

    def body(self, exchange: RecordedExchange) -> bytes:
        """Return the body of a response that was not a stream, as it is in the journal.

        Raises TrajectoryFormatError if the body is damaged.
        """
        record = exchange.ending
        data: Mapping[str, Payload] = record.data if record else {}
        if "text" in data:
            return str(data["text"]).encode("utf-8", "surrogatepass")
        if "base64" in data:
            try:
                return base64.b64decode(data["base64"])
            except ours(TypeError, ValueError):
                raise self._damaged(exchange) from None
        if record is None or "body" not in data:
            return b""
        line = self._data[record.offset : record.offset + record.length].decode("utf-8", "surrogatepass")
        return _member(_member(line, "data"), "body").encode("utf-8", "surrogatepass")

    def chunks(self, exchange: RecordedExchange) -> tuple[TimedBytes, ...]:
        """Return the chunks of a stream with their times. If the journal has no chunks, each event is a chunk."""
        chunks = exchange.records.raw_chunks()
        if chunks is None:
            chunks = tuple((0.0, event) for event in _events(self._undamaged(exchange)))
        has_frames = any(part.data.get("framing") == FRAMING for part in exchange.records.streams)
        return tuple(_framed(chunks)) if has_frames else chunks

    def _undamaged(self, exchange: RecordedExchange) -> bytes:
        """Return the joined parts of a stream. Raises TrajectoryFormatError if a part is damaged."""
        data = exchange.records.stream_bytes()
        if data is None and exchange.records.is_damaged:
            raise self._damaged(exchange)
        return data or b""

    def _damaged(self, exchange: RecordedExchange) -> TrajectoryFormatError:
        return TrajectoryFormatError(
            f"A part of the response of {exchange.interaction_id} is damaged in {self.path}, "
            "so the response cannot be replayed."
        )


@dataclass(slots=True)
class RecordedTool:
    """One execution of a tool: the record of its call, and the record of its result if there is one."""

    begin: Record
    ending: Record | None = None

    @property
    def name(self) -> str:
        """The tool's name."""
        name: str = self.begin.data["name"]
        return name

    @property
    def arguments(self) -> Payload:
        """The arguments of the call, as JSON."""
        return self.begin.data.get("arguments")


def _attempt(data: Mapping[str, Payload]) -> tuple[str, int]:
    return data["interaction_id"], data.get("attempt", 0)


def _member(text: str, name: str) -> str:
    """Return the JSON text of the member `name` in the JSON object `text`."""
    return next(member.value for member in split_members(text, MAX_DOCUMENT_DEPTH) if member.name == name)


def _framed(chunks: Iterable[TimedBytes]) -> Iterator[TimedBytes]:
    """Yield the chunks of a stream in its binary framing. In the journal, each frame is a line."""
    for seconds, lines in chunks:
        yield seconds, b"".join(encode_line(line.decode()) for line in lines.split(b"\n") if line)


def _events(text: bytes) -> Iterator[bytes]:
    """Yield the events of a stream. An event ends with an empty line. Without empty lines, each line is an event."""
    end = b"\n\n" if b"\n\n" in text else b"\r\n\r\n" if b"\r\n\r\n" in text else b"\n"
    *events, rest = text.split(end)
    yield from (event + end for event in events)
    if rest:
        yield rest
