"""The records of each HTTP exchange and of each tool execution in a journal, in the order in which they began.

A replay answers with these facts, without interpreting them. An answer is read from its record only when it is needed,
so that a long run needs no more memory than its journal.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.dialects.dialect import ENDED_BY_SERVER
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.dialects.stream_framing import FRAMING, encode_line
from trace_recorder.dialects.token_servers import UnaskedAnswer
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import (
    ABSENT,
    ItemFact,
    LLMErrorFact,
    LLMRequestFact,
    LLMResponseFact,
    LLMStreamFact,
    RemovalFact,
    StartFact,
    ToolCallFact,
    ToolResultFact,
    UnreadFact,
)
from trace_recorder.guard import try_call
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.exchange_facts import ExchangeFacts
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import VERSION, Record, read_records
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.stream_chunks import TimedBytes
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, split_members
from trace_recorder.values.messages import Payload

_REDIRECTS = (307, 308)


@dataclass(slots=True)
class RecordedExchange:
    """One HTTP exchange, which is one attempt of an interaction.

    `call` has only the facts of this attempt. `ending` is the record that ended it, or None. `next_url` is the address
    of the next attempt of the same interaction.
    """

    call: CallFacts
    ending: Record | None = None
    next_url: str | None = None

    @property
    def facts(self) -> ExchangeFacts:
        """The request, the parts of the stream, and the end."""
        return self.call.newest

    @property
    def seq(self) -> int:
        """The number of the record that began the exchange."""
        return self.call.first_seq

    @property
    def interaction_id(self) -> str:
        """The interaction of which the exchange is an attempt."""
        return self.call.interaction_id

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint of the call."""
        sent = self.call.sent
        if sent is None:
            return Endpoint("", "", None, streams=False)
        return Endpoint(sent.api or "", sent.provider or "", sent.model, streams=sent.stream is True)

    @property
    def streams(self) -> bool:
        """Whether the response was a stream."""
        response = self.facts.response
        return bool(self.facts.parts or (response is not None and response.stream))

    @property
    def added(self) -> dict[str, Payload] | None:
        """The members that the proxy added to the request. The program did not see what they asked for."""
        sent = self.call.sent
        if isinstance(sent, LLMRequestFact):
            return sent.added
        return None

    @property
    def is_masked(self) -> bool:
        """Whether secrets of the request were masked."""
        return self.call.sent is not None and self.call.sent.redacted is not None

    @property
    def status(self) -> int | None:
        """The HTTP status, or None if no response came."""
        head = self._head
        if head is None:
            return None
        return head.status or None

    @property
    def headers(self) -> dict[str, str]:
        """The recorded headers without `content-encoding`, because the recorded body is decoded.

        The `location` of a redirect is the address of the next attempt.
        """
        head = self._head
        if head is None:
            return {}
        kept = {name: value for name, value in head.headers.items() if name.lower() != "content-encoding"}
        if self.status in _REDIRECTS and self.next_url:
            kept["location"] = self.next_url
        return kept

    @property
    def _head(self) -> LLMStreamFact | LLMResponseFact | None:
        """The newest fact with a status and headers."""
        newest = self.facts.newest
        if isinstance(newest, LLMErrorFact):
            return None
        return newest

    @property
    def error(self) -> tuple[str, str] | None:
        """The class and the message of the exception that ended the exchange, or None if it ended normally."""
        ending = self.facts.ending
        if isinstance(ending, LLMErrorFact):
            return ending.type, ending.message
        if ending is None or ending.error is None:
            return None
        return str(ending.error.get("type")), str(ending.error.get("message"))

    @property
    def stopped(self) -> str | None:
        """Return why the rest of the response was not recorded, or None if everything that came was recorded."""
        ending = self.facts.ending
        if ending is None:
            return "the recording ends here"
        if isinstance(ending, LLMErrorFact):
            return None
        # this package counts the chunks of a stream, so this fact was made from another tool's file
        if ending.assembled is not ABSENT and ending.chunks is None and not self.facts.parts:
            return "the events of its stream are not in the recording"
        if ending.complete or ending.error is not None or ending.ended_by in ENDED_BY_SERVER:
            return None
        return ending.ended_by or "it is not complete"

    @property
    def seconds(self) -> float:
        """Return how long the exchange took, from the request to its end. Return 0.0 if the end is not on file."""
        ending = self.facts.ending
        if ending is None:
            return 0.0
        return float(ending.duration_seconds or 0.0)


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
        self.removals = 0
        """How many times texts were removed from the run after its end."""
        for record in read_records(self._data):
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
        fact = record.fact
        match fact:
            case RemovalFact():
                self.removals += 1
            case StartFact():
                self._began = True
                self.trajectory_id = fact.trajectory_id
                self._refuse_newer(fact.version)
                if fact.content == "none":
                    raise TrajectoryFormatError(
                        f"{self.path} cannot be replayed: it was recorded or shared without texts (content 'none'), so "
                        "it has no answers."
                    )
            case ItemFact():
                self._items.add(fact)
            case LLMRequestFact():
                self._take_request(record, fact)
            case LLMStreamFact() | LLMErrorFact() | LLMResponseFact():
                self._take_answer(record, fact)
            case ToolCallFact():
                tool = self._by_execution[fact.execution_id] = RecordedTool(record.seq, fact)
                self.tools.append(tool)
            case ToolResultFact() if fact.execution_id in self._by_execution:
                tool = self._by_execution[fact.execution_id]
                tool.ended, tool.ended_seq = fact, record.seq
            case UnreadFact(why=str()):
                self.damaged += 1

    def _take_answer(self, record: Record, fact: LLMStreamFact | LLMResponseFact | LLMErrorFact) -> None:
        if isinstance(fact, LLMResponseFact) and fact.polled is not None:
            body = as_dict(fact.body if fact.assembled is ABSENT else fact.assembled)
            self.polled[as_text(body.get("id")) or ""] = self._exchange(record, fact)
            return
        exchange = self._by_attempt.get((fact.interaction_id, fact.attempt))
        if exchange is not None:
            exchange.call.add(record, fact)
            if not isinstance(fact, LLMStreamFact):
                exchange.ending = record

    def _take_request(self, record: Record, fact: LLMRequestFact) -> None:
        exchange = self._by_attempt[fact.interaction_id, fact.attempt] = self._exchange(record, fact)
        self.exchanges.append(exchange)
        previous = self._by_attempt.get((fact.interaction_id, fact.attempt - 1))
        if previous is not None:
            previous.next_url = fact.url
        if fact.items is not None:
            self._items.add_base(record.seq, fact.items)

    def _exchange(self, record: Record, fact: LLMRequestFact | LLMResponseFact) -> RecordedExchange:
        """Return an exchange that begins with this fact."""
        call = CallFacts(fact.interaction_id, self._items, record.seq, record.time)
        call.add(record, fact)
        exchange = RecordedExchange(call)
        if isinstance(fact, LLMResponseFact):
            exchange.ending = record
        return exchange

    def _refuse_newer(self, version: int) -> None:
        if version > VERSION:
            raise TrajectoryFormatError(
                f"{self.path} is a journal of version {version}, and this trace_recorder replays up to "
                f"{VERSION}. Install a newer trace_recorder."
            )

    def request(self, exchange: RecordedExchange) -> Payload:
        """Return the JSON that was sent, or the text if it was not JSON. Return None if a needed line is damaged."""
        sent = exchange.call.sent
        if not isinstance(sent, LLMRequestFact) or sent.items is not None:
            return exchange.call.raw_request()
        if sent.body is not ABSENT:
            return sent.body
        if sent.text is not None:
            return sent.text
        return sent.base64

    def item(self, number: int) -> Payload:
        """Return the value of an item. Raises KeyError if its line is damaged."""
        return self._items.element(number)

    def body(self, exchange: RecordedExchange) -> bytes:
        """Return the body of a response that was not a stream, as it is in the journal.

        Raises TrajectoryFormatError if the body is damaged.
        """
        record, response = exchange.ending, exchange.facts.response
        if response is None or record is None:
            return b""
        if response.text is not None:
            return response.text.encode("utf-8", "surrogatepass")
        if response.base64 is not None:
            try:
                return base64.b64decode(response.base64)
            except ours(ValueError):
                raise self._damaged(exchange) from None
        if response.body is ABSENT:
            return b""
        line = self._data[record.offset : record.offset + record.length].decode("utf-8", "surrogatepass")
        body = _member(_member(line, "data"), "body").encode("utf-8", "surrogatepass")
        if exchange.added is not None:
            return UnaskedAnswer(exchange.added).whole(body)
        return body

    def chunks(self, exchange: RecordedExchange) -> tuple[TimedBytes, ...]:
        """Return the chunks of a stream with their times. If the journal has no chunks, each event is a chunk."""
        chunks = exchange.facts.raw_chunks()
        if chunks is None:
            chunks = tuple((0.0, event) for event in _events(self._undamaged(exchange)))
        if any(part.framing == FRAMING for part in exchange.facts.parts):
            return tuple(_framed(chunks))
        if exchange.added is not None:
            return tuple(_unasked(chunks, exchange.added))
        return chunks

    def _undamaged(self, exchange: RecordedExchange) -> bytes:
        """Return the joined parts of a stream. Raises TrajectoryFormatError if a part is damaged."""
        data = exchange.facts.stream_bytes()
        if data is None and exchange.facts.is_damaged:
            raise self._damaged(exchange)
        return data or b""

    def _damaged(self, exchange: RecordedExchange) -> TrajectoryFormatError:
        return TrajectoryFormatError(
            f"A part of the response of {exchange.interaction_id} is damaged in {self.path}, "
            "so the response cannot be replayed."
        )


@dataclass(slots=True)
class RecordedTool:
    """One execution of a tool. `seq` and `ended_seq` are the numbers of its records."""

    seq: int
    begun: ToolCallFact
    ended: ToolResultFact | None = None
    ended_seq: int | None = None

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.begun.name

    @property
    def arguments(self) -> Payload:
        """The arguments of the call, as JSON."""
        return self.begun.arguments


def _member(text: str, name: str) -> str:
    """Return the JSON text of the member `name` in the JSON object `text`."""
    return next(member.value for member in split_members(text, MAX_DOCUMENT_DEPTH) if member.name == name)


def _framed(chunks: Iterable[TimedBytes]) -> Iterator[TimedBytes]:
    """Yield the chunks of a stream in its binary framing. In the journal, each frame is a line."""
    for seconds, lines in chunks:
        yield seconds, b"".join(encode_line(line.decode()) for line in lines.split(b"\n") if line)


def _unasked(chunks: Iterable[TimedBytes], added: dict[str, Payload]) -> Iterator[TimedBytes]:
    """Yield the chunks of a stream as the program got them from the proxy."""
    answer = UnaskedAnswer(added)
    seconds = 0.0
    for seconds, data in chunks:
        if events := answer.events(data):
            yield seconds, events
    if rest := answer.rest():
        yield seconds, rest


def _events(text: bytes) -> Iterator[bytes]:
    """Yield the events of a stream. An event ends with an empty line. Without empty lines, each line is an event."""
    end = b"\n"
    if b"\n\n" in text:
        end = b"\n\n"
    elif b"\r\n\r\n" in text:
        end = b"\r\n\r\n"
    *events, rest = text.split(end)
    yield from (event + end for event in events)
    if rest:
        yield rest
