"""Requests, responses and events of streams as they are on file, and the facts that are needed to send a request again.

Only a run with a journal has raw requests and responses. A raw request has numbers of items in place of its lists.
Expanded requests would repeat the history of a conversation once for each call, while the items are only as large as
the journal.

The page writes the command and the program that a user copies. The address of a recorded request may be hostile. So the
variable with a key is named only if the address is plain HTTPS and the host is a provider's own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.dialects.endpoints import provider_of_host
from trace_recorder.dialects.json_access import as_text
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.number_ranges import RangeDivider
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parts import Json

TimedEvent = tuple[float | None, bytes]


@dataclass(frozen=True, slots=True)
class RawItems:
    """The elements that the raw requests of a run refer to. Without a journal there are no elements."""

    _table: ItemTable | None

    @classmethod
    def of(cls, trajectory: Trajectory) -> RawItems:
        """Return the items of a run."""
        sources = (call.source for call in trajectory.llm_interactions)
        return cls(next((source.items for source in sources if isinstance(source, CallFacts)), None))

    @property
    def count(self) -> int:
        """One more than the largest number of an item."""
        return 0 if self._table is None else self._table.end

    def items(self, numbers: Iterable[int]) -> list[Json]:
        """Return the items with these numbers, except items whose records are damaged."""
        table = self._table
        if table is None:
            return []
        items: list[Json] = []
        for number in numbers:
            with suppress(KeyError):
                items.append({"number": number, "value": table.element(number)})
        return items


def raw_answer(number: int, interaction: LLMInteraction, ranges: Mapping[str, RangeDivider]) -> Json:
    """Return the request and the response of an interaction. `ranges` has the ranges of each list of the requests."""
    answer: Json = {
        "number": number,
        "method": None,
        "url": None,
        "request": None,
        "response": interaction.raw_response,
        "stream": _stream(interaction),
        "sending": None,
    }
    source = interaction.source
    if isinstance(source, CallFacts):
        answer["url"] = source.url
        answer["request"] = _request(source, ranges)
        if source.url:
            answer["method"] = "POST"
            answer["sending"] = sending_of(source.url, as_text(interaction.api))
    return answer


def _request(source: CallFacts, ranges: Mapping[str, RangeDivider]) -> Json | None:
    if source.newest.by_hand is not None or not source.has_request():
        return None
    body, items = source.request_in_items()
    numbers: Json = {}
    for name, part in items.items():
        if isinstance(part, int):
            numbers[name] = part
        else:
            numbers[name] = ranges[name].of(part)
    return {"body": body, "items": numbers}


def _stream(interaction: LLMInteraction) -> Json | None:
    text = interaction.raw_stream
    if text is None:
        return None
    chunks: Sequence[TimedEvent] = interaction.raw_chunks or [(None, text.encode("utf-8", "surrogatepass"))]
    events = []
    for seconds, data in stream_events(chunks):
        event: Json = {"seconds": None, "text": data.decode("utf-8", "replace")}
        if seconds is not None:
            event["seconds"] = round(seconds, 6)
        events.append(event)
    return {"characters": len(text), "events": events}


def stream_events(chunks: Sequence[TimedEvent]) -> Iterator[TimedEvent]:
    """Yield the events of a stream, each with the time of the chunk that completed it.

    A server-sent event ends with a blank line. In JSON lines, each line is an event.
    """
    data = b"".join(part for _, part in chunks)
    ends = [*accumulate(len(part) for _, part in chunks)]
    begin = 0
    for end in _event_ends(data):
        yield chunks[min(bisect_left(ends, end), len(chunks) - 1)][0], data[begin:end]
        begin = end


def _event_ends(data: bytes) -> Iterator[int]:
    """Yield the end of each event, after its blank line."""
    if data.lstrip()[:1] in {b"{", b"["}:
        separator = b"\n"
    else:
        separators = (b"\r\n\r\n", b"\n\n", b"\r\r")
        separator = min(filter(data.__contains__, separators), key=data.find, default=b"\r\r")
    end = 0
    while (place := data.find(separator, end)) >= 0:
        end = place + len(separator)
        yield end
    if end < len(data):
        yield len(data)


# ── sending a request again ──────────────────────────────────────────────────────────────────────────────────────────


_PLAIN_HTTPS = re.compile(r"https://([A-Za-z0-9.-]+)(?::443)?(?=[/?#]|$)")
"""An address without a user before the host. For other addresses, programs disagree about where the host begins."""
_VARIABLES = {
    "azure": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "doubao": "ARK_API_KEY",
    "github": "GITHUB_TOKEN",
    "google": "GEMINI_API_KEY",
    "huggingface": "HF_TOKEN",
    "qwen": "DASHSCOPE_API_KEY",
    "vercel": "AI_GATEWAY_API_KEY",
}
"""Maps a provider to the environment variable that has the provider's key.

For any other provider, the variable is the provider's name and `_API_KEY`.
"""
_HEADERS = {"anthropic": "x-api-key", "azure": "api-key", "google": "x-goog-api-key"}
"""Maps a provider to the header for the key in the provider's own dialect.

All other keys are sent as `Authorization: Bearer`.
"""


def sending_of(url: str | None, api: str | None) -> Json:
    """Return the headers of a request, and the header and the environment variable for the provider's key.

    If the host does not belong to a known provider, the key is None.
    """
    headers: Json = {"Content-Type": "application/json"}
    sdks: tuple[str, ...] = ()
    dialect = dialect_of(api)
    if dialect is not None:
        headers |= dialect.headers
        sdks = dialect.sdks
    match = _PLAIN_HTTPS.match(url or "")
    provider = match and provider_of_host(match[1].lower())
    return {"headers": headers, "key": _key(provider, sdks) if provider else None}


def _key(provider: str, sdks: tuple[str, ...]) -> Json:
    variable = _VARIABLES.get(provider, f"{provider.upper()}_API_KEY")
    header = _HEADERS.get(provider)
    if header is None or (provider != "azure" and provider not in sdks):
        return {"header": "Authorization", "prefix": "Bearer ", "variable": variable}
    return {"header": header, "prefix": "", "variable": variable}
