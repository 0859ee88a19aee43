"""What went over the wire, as it is on file: requests whose lists are numbers of items, responses, events of streams.

Only a run that was read from its journal has it. Raw requests are not expanded: together they repeat the history of a
conversation once for each call, while their items are as large as the journal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.dialects.json_access import as_text
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.prompt_relation import ranges_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parts import Json
from trace_recorder.viewer.sending import sending_of

TimedBytes = tuple[float | None, bytes]


@dataclass(frozen=True, slots=True)
class RawItems:
    """The elements that the raw requests of a run refer to; none without a journal."""

    _table: ItemTable | None

    @classmethod
    def of(cls, trajectory: Trajectory) -> RawItems:
        """Return the items of a run."""
        sources = (one.source for one in trajectory.llm_interactions)
        return cls(next((one.items for one in sources if isinstance(one, CallRecords)), None))

    @property
    def count(self) -> int:
        """One more than the largest number of an item."""
        return 0 if self._table is None else self._table.end

    def items(self, numbers: Iterable[int]) -> list[Json]:
        """Return the items with these numbers, without those whose records are damaged."""
        table = self._table
        if table is None:
            return []
        found: list[Json] = []
        for number in numbers:
            with suppress(KeyError):
                found.append({"number": number, "value": table.element(number)})
        return found


def raw_answer(number: int, one: LLMInteraction) -> Json:
    """Return what an interaction sent and received."""
    sent = one.source.request_data if isinstance(one.source, CallRecords) else {}
    url = as_text(sent.get("url"))
    return {
        "number": number,
        "method": "POST" if url else None,
        "url": url,
        "request": _request(one.source) if isinstance(one.source, CallRecords) else None,
        "response": one.raw_response,
        "stream": _stream(one),
        "sending": sending_of(url, as_text(one.api)) if url else None,
    }


def _request(source: CallRecords) -> Json | None:
    if source.is_manual or not source.has_request():
        return None
    body, items = source.request_in_items()
    return {"body": body, "items": {name: _numbers(part) for name, part in items.items()}}


def _numbers(part: int | Sequence[int]) -> Payload:
    return part if isinstance(part, int) else ranges_of(part)


def _stream(one: LLMInteraction) -> Json | None:
    text = one.raw_stream
    if text is None:
        return None
    chunks: Sequence[TimedBytes] = one.raw_chunks or [(None, text.encode("utf-8", "surrogatepass"))]
    return {
        "characters": len(text),
        "events": [
            {"seconds": None if at is None else round(at, 6), "text": event.decode("utf-8", "replace")}
            for at, event in events_of(chunks)
        ],
    }


def events_of(chunks: Sequence[TimedBytes]) -> Iterator[TimedBytes]:
    """Yield the events of a stream, each with the time of the chunk that completed it.

    An event of server-sent events ends with a blank line, one of JSON lines with the line.
    """
    data = b"".join(part for _, part in chunks)
    ends = [*accumulate(len(part) for _, part in chunks)]
    begin = 0
    for end in _event_ends(data):
        yield chunks[min(bisect_left(ends, end), len(chunks) - 1)][0], data[begin:end]
        begin = end


def _event_ends(data: bytes) -> Iterator[int]:
    """Yield where each event ends, the blank line included."""
    is_lines = data.lstrip()[:1] in {b"{", b"["}
    separators = (b"\n",) if is_lines else (b"\r\n\r\n", b"\n\n", b"\r\r")
    separator = min((one for one in separators if one in data), key=data.find, default=separators[-1])
    at = 0
    while (found := data.find(separator, at)) >= 0:
        at = found + len(separator)
        yield at
    if at < len(data):
        yield len(data)
