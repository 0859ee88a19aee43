"""Takes the texts out of the records of a journal: what is kept of each member of each kind of record.

A record of an unknown kind, and a member that is not listed here, lose all their texts. `facts.py` has the kinds.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, get_args
from urllib.parse import urlsplit

from trace_recorder.dialects.dialect import DIALECTS
from trace_recorder.dialects.endpoints import PROVIDER_OF_HOST
from trace_recorder.dialects.token_servers import TOKEN_SERVERS
from trace_recorder.facts import (
    KINDS,
    TOOL_USE_IDS,
    AnnotationFact,
    ItemFact,
    Json,
    MCPMessageFact,
    RewardFact,
    StreamPart,
)
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.content_tiers.item_places import ItemPlaces
from trace_recorder.storage.content_tiers.streams import TextlessStream
from trace_recorder.storage.content_tiers.structure import Strings, Structure
from trace_recorder.storage.content_tiers.text_digests import TextDigests
from trace_recorder.storage.content_tiers.vocabulary import BODIES, IDENTIFIER, Kept, Vocabulary, kept_of
from trace_recorder.storage.redaction.headers import is_kept
from trace_recorder.storage.stream_chunks import ends_after_change, packed, unpacked
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import PARENT_CONTEXT

_PACKED_LEVEL = 6
_CHUNK_TIMES = lazy_pattern(r"[A-Za-z0-9+/]*")
_PART_OF_PATH = lazy_pattern(r"[^/:\[\]]+")
"""Matches a part of the path of a request, such as the name of a model."""
_AGENT_ID = lazy_pattern(r"agent_\d{1,9}")
_ANNOTATIONS = frozenset({"exit_code", PARENT_CONTEXT})
"""The annotations that this package writes."""
_ORIGIN: Vocabulary = {
    "trajectory_id": Kept.RUN_ID,
    "interaction_id": Kept.IDENTIFIER,
    **dict.fromkeys(("by_hand", "step_number"), Kept.NUMBER),
}
_METADATA: Vocabulary = {
    "imported_from": {"format": Kept.IDENTIFIER, "sha256": Kept.VALUE, "id": Kept.VALUE, "file": Kept.VALUE},
    **dict.fromkeys(("replay_of", "forked_from"), _ORIGIN),
    "recorded_under": Kept.IDENTIFIER,
}
_ERROR: Vocabulary = {"type": Kept.IDENTIFIER, "message": Kept.VALUE}
_TOOL_RESULT: Vocabulary = {
    **dict.fromkeys(("call_id", "tool_call_id", "id", "name", "execution_id"), Kept.IDENTIFIER),
    **dict.fromkeys(("success", "duration_seconds", "timestamp", "replayed"), Kept.NUMBER),
    **dict.fromkeys(("result", "content", "error", "sent"), Kept.VALUE),
}
_NAMED: Vocabulary = dict.fromkeys(("name", "version"), Kept.IDENTIFIER)
_MCP_MESSAGE: Vocabulary = {
    **dict.fromkeys(("jsonrpc", "id", "method"), Kept.IDENTIFIER),
    "params": {
        **dict.fromkeys(("name", "progressToken", "requestId", "protocolVersion"), Kept.IDENTIFIER),
        **dict.fromkeys(("progress", "total"), Kept.NUMBER),
        "arguments": Kept.ARGUMENTS,
        "clientInfo": _NAMED,
        "_meta": dict.fromkeys(("progressToken", *TOOL_USE_IDS), Kept.IDENTIFIER),
    },
    "result": {
        "protocolVersion": Kept.IDENTIFIER,
        "serverInfo": _NAMED,
        "content": Kept.RESULT,
        "structuredContent": Kept.ARGUMENTS,
        "isError": Kept.NUMBER,
    },
    "error": {"code": Kept.NUMBER, "message": Kept.VALUE},
}
"""What is kept of a message of an MCP server: what names the tools, the servers and the calls."""
_TOKEN_MEMBERS: Vocabulary = {name: Kept.NUMBER for server in TOKEN_SERVERS.values() for name in server.stated}
"""The members by which the proxy asks servers for tokens. Their values are true or a number."""
_MEMBERS: Vocabulary = {
    **dict.fromkeys(
        (
            *("schema", "recorder", "python", "platform", "provider", "status", "interaction_id", "api", "method"),
            *("framing", "parent_execution_id", "step_id", "execution_id", "state"),
            *("name", "call_id", "type", "connection_id", "server", "transport", "direction", "subprotocol"),
        ),
        Kept.IDENTIFIER,
    ),
    **dict.fromkeys(
        (
            *("version", "pid", "process_start", "max_steps", "redacted", "of", "time", "success", "execution_time"),
            *("n", "s", "attempt", "stream", "inferred", "run_inferred", "time_to_first_token_seconds", "bytes"),
            *("time_to_last_token_seconds", "continues", "duration_seconds", "complete", "chunks", "events", "polled"),
            *("last_event", "step_number", "lakeview_step", "places", "yielded", "replayed", "weight", "began"),
            *("exit_code", "code", "sent", "received"),
        ),
        Kept.NUMBER,
    ),
    **dict.fromkeys(
        (
            *("task", "session", "what", "why", "final_result", "ended_by", "message", "agent", "reflection", "result"),
            *("returned", "explanation", "reason"),
        ),
        Kept.VALUE,
    ),
    **dict.fromkeys(("body", "assembled", "response", "llm_response", "tool_calls", "rules"), Kept.NODE),
    **dict.fromkeys(("forked_at", "replayed_from"), _ORIGIN),
    "added": {"server": Kept.IDENTIFIER, "members": _TOKEN_MEMBERS},
    **dict.fromkeys(("trajectory_id", "parent", "replay_of"), Kept.RUN_ID),
    "model": Kept.MODEL,
    "error": _ERROR,
    "metadata": _METADATA,
    "text": Kept.BODY,
    "base64": Kept.BYTES,
    "arguments": Kept.ARGUMENTS,
    "tool_results": _TOOL_RESULT,
    "value": Kept.VALUE,
}
"""What is kept of a member of a record, in every kind of record that has it."""


STREAM_MEMBERS = frozenset({"zlib", "chunk_ends", "chunk_times"})
"""The members of a part of a stream that have no text: `stream_without_texts` has made the text in them."""


MaskStream = Callable[[bytes], bytes]
"""Returns the text of a part of a stream without its texts, and with the secrets in the rest masked."""


class TextlessRecords:
    """Takes the texts out of the records of one run. Records are given in the order of the journal."""

    def __init__(self, digests: TextDigests) -> None:
        self.digests = digests
        self._structure = Structure(self.digests)
        self.places = ItemPlaces()
        """Where the items belong. An item that is not there is a text as a whole."""
        self._stream = TextlessStream(self.digests)

    def saved_data(self, kind: str, data: Json, mask_stream: MaskStream) -> Json:
        """Return the data of a record that is on file without its texts. A part of a stream is packed again."""
        if kind in _UNCHANGED:
            return self.data(kind, _part_without_texts(data, mask_stream))
        return self.data(kind, data)

    def data(self, kind: str, data: Json) -> Json:
        """Return the data of a record without its texts. The text of a part of a stream has none already."""
        if kind not in KINDS:
            return {self.digests.of_text(name): self.digests.of_value(value) for name, value in data.items()}
        strings = data.get("strings")
        if not isinstance(strings, dict):
            strings = {}
        unchanged = _UNCHANGED.get(kind, _NOTHING)
        structure: Json = {}
        for name, value in data.items():
            kept = _MEMBERS.get(name)
            if (kept is Kept.NUMBER and isinstance(value, int)) or name in unchanged:  # most members are such counts
                structure[name] = value
            elif name in _SPECIAL:
                structure[name] = _SPECIAL[name](self, value)
            elif kept is None:
                if name not in _LEFT_OUT:
                    structure[self.digests.of_text(name)] = self.digests.of_value(value)
            elif kind == MCPMessageFact.kind and name == "message":
                structure[name] = self._structure.of(_MCP_MESSAGE, value, strings)
            elif name == "value":
                structure[name] = self._value(kind, data, value, strings)
            else:
                structure[name] = self._structure.of(kept, value, strings)
        return structure

    def _value(self, kind: str, data: Json, value: Payload, strings: Strings) -> Payload:
        """Return the member `value`, which each of these kinds has in its own way."""
        if kind == ItemFact.kind:
            return self._item(data, value, strings)
        if kind == RewardFact.kind:
            return self._structure.of(Kept.NUMBER, value)
        is_of_ours = isinstance(value, int) or (isinstance(value, str) and _TRACE_CONTEXT.fullmatch(value) is not None)
        if kind == AnnotationFact.kind and data.get("key") in _ANNOTATIONS and is_of_ours:
            return value
        return self.digests.of_value(value, strings)

    def stream_without_texts(self, data: bytes) -> bytes:
        """Return the text of a part of a stream without its texts."""
        return self._stream(data)

    def expect_items(self, items: Payload) -> None:
        """Learn where the next items belong: `items` is the member of the record that follows them."""
        self.places = ItemPlaces([items])

    def _item(self, data: Json, value: Payload, strings: Strings) -> Payload:
        number = data.get("s")
        if isinstance(number, int) and isinstance(value, str):
            return self.digests.remember_large(number, value)
        name = self.places.member_of(data.get("n")) or ""
        if name.startswith("/"):
            name = name.rpartition("/")[2]
        return self._structure.of(kept_of(name, BODIES) or Kept.ARGUMENTS, value, strings)

    def _items(self, value: Payload) -> Payload:
        """Return the numbers of items, with a digest in place of each unknown name, as the body has it."""
        if not isinstance(value, dict):
            return self.digests.of_value(value)
        items: Json = {}
        for name, part in value.items():
            shown = name.split("/")  # a path is "/request/contents"
            for position, word in enumerate(shown):
                if word and kept_of(word, BODIES) is None:
                    shown[position] = self.digests.of_text(word)
            items["/".join(shown)] = _numbers(part)
        return items

    def _headers(self, value: Payload) -> Payload:
        if not isinstance(value, dict):
            return self.digests.of_value(value)
        headers: Json = {}
        for name, text in value.items():
            if is_kept(name):
                headers[name] = self._structure.of(Kept.IDENTIFIER, text)
            else:
                headers[self.digests.of_text(name)] = self.digests.of_value(text)
        return headers

    def _url(self, value: Payload) -> Payload:
        """Return the address of a known provider, and the end of the path that names the operation."""
        address = _address_of(value) if isinstance(value, str) else None
        if address is None:
            return self.digests.of_value(value)
        host = address.provider_host
        if not host:
            host = f"{self.digests.of_text(address.host)[6:-1] or 'unknown'}.invalid"
        operation = self.digests.of_identifier(address.operation.lstrip("/"))
        operation = _PART_OF_PATH.sub(lambda part: self.digests.of_identifier(part[0]), operation)
        scheme = "wss" if str(value).startswith("ws") else "https"
        return f"{scheme}://{host}/{operation}".rstrip("/")

    def _key(self, value: Payload) -> Payload:
        if value in _ANNOTATIONS:
            return value
        return self.digests.of_value(value)

    def _content(self, value: Payload) -> Payload:
        if value in ("masked", "none"):
            return value
        return self.digests.of_value(value)

    def _agent_id(self, value: Payload) -> Payload:
        """Return the id of an agent. The id of an imported agent may be its name."""
        if isinstance(value, str) and _AGENT_ID.fullmatch(value):
            return value
        return self.digests.of_value(value)


class _Address(NamedTuple):
    """A URL: the host of a known provider, or else "", the whole host, and the end of the path."""

    provider_host: str
    host: str
    operation: str


@lru_cache(maxsize=256)
def _address_of(url: str) -> _Address | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ours(ValueError):
        return None
    known = next((match[0].lstrip(".") for _, form in PROVIDER_OF_HOST if (match := form.search(host))), "")
    patterns = (pattern for dialect in DIALECTS.values() for pattern in dialect.addresses)
    operation = next((match[0] for pattern in patterns if (match := re.search(pattern, parts.path))), "")
    if IDENTIFIER.fullmatch(operation.lstrip("/")) is None:
        operation = ""
    return _Address(known, host, operation)


DIALECTS.on_change.append(_address_of.cache_clear)


_SPECIAL: Mapping[str, Callable[[TextlessRecords, Payload], Payload]] = {
    **dict.fromkeys(("agent_id", "parent_agent_id"), TextlessRecords._agent_id),
    "key": TextlessRecords._key,
    "content": TextlessRecords._content,
    "items": TextlessRecords._items,
    **dict.fromkeys(("headers", "response_headers"), TextlessRecords._headers),
    "url": TextlessRecords._url,
}
"""How the members are read that no vocabulary describes."""
_LEFT_OUT = frozenset({"strings", "host"})
"""The digests of large strings are in the value. Who knows the host learns only whether the writer is alive."""
_UNCHANGED: Mapping[str, frozenset[str]] = {part.kind: STREAM_MEMBERS for part in get_args(StreamPart)}
_NOTHING: frozenset[str] = frozenset()


def _part_without_texts(data: Json, mask_stream: MaskStream) -> Json:
    """Return a part of a saved stream without its texts. A part that cannot be unpacked becomes empty."""
    without_chunks = {name: value for name, value in data.items() if name not in {"chunk_ends", "chunk_times"}}
    try:
        raw = unpacked(data["zlib"])
    except ours(ValueError, TypeError, KeyError, zlib.error):
        return {**without_chunks, "zlib": packed(b"", _PACKED_LEVEL)}
    text = mask_stream(raw)
    part = {**data, "zlib": packed(text, _PACKED_LEVEL)}
    try:
        ends = ends_after_change(data["chunk_ends"], raw, text)
        times = data["chunk_times"]
    except ours(ValueError, TypeError, KeyError, AttributeError):
        return {**without_chunks, "zlib": part["zlib"]}
    if not isinstance(times, str) or not _CHUNK_TIMES.fullmatch(times):
        return {**without_chunks, "zlib": part["zlib"]}
    return {**part, "chunk_ends": ends}


def _numbers(value: Payload) -> Payload:
    """Return the numbers of items. Nothing but numbers is kept, at any depth."""
    if isinstance(value, dict):
        return {name: _numbers(part) for name, part in value.items() if name in {"base", "ranges"}}
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    return value if isinstance(value, int) else None


_TRACE_CONTEXT = lazy_pattern(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
