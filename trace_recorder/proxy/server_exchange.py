"""One HTTP exchange with an MCP server over streamable HTTP, as facts: a request, and an answer of JSON or events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from trace_recorder.capture.decoding import plain_request
from trace_recorder.decompression import Decoder, TooLargeError, decoder_of
from trace_recorder.dialects.endpoints import is_stream_type
from trace_recorder.dialects.json_access import json_value
from trace_recorder.dialects.stream_framing import EVENT_END, events
from trace_recorder.facts import MCPDirection
from trace_recorder.guard import try_call
from trace_recorder.recording.mcp_messages import MCPFact, MessageBytes, message_fact, missing_message
from trace_recorder.signal_handlers import ours

_MAX_HALF_END = 3
"""An end of an event may come in two pieces. The first piece has at most this many bytes of it."""

Headers = list[tuple[bytes, bytes]]


class ServerExchange:
    """An exchange while it passes. Each method returns the facts of the messages that it completes.

    The id of the connection is made from the server's id of the session. The answer to the handshake states it first,
    so the handshake is recorded with its answer. A message that is too long leaves a gap, and so does the rest of an
    answer that cannot be decoded.
    """

    def __init__(self, name: str, session_id: str | None) -> None:
        self._name = name
        self._session_id = session_id
        self._request: tuple[Headers, bytes] = [], b""
        self._is_stream = False
        self._decode: Decoder | None = None
        self._message = MessageBytes()
        self._half_end = b""
        """The last bytes of a stream, which may be the beginning of the end of an event."""
        self._why_missing: str | None = None
        """Why the rest of the answer is not on file, or None."""

    @property
    def connection_id(self) -> str:
        """The id of the connection. It is final after `answered`."""
        return f"http_{blake2b((self._session_id or '').encode(), digest_size=6).hexdigest()}"

    def sent(self, headers: Headers, body: bytes) -> list[MCPFact]:
        """Take a request."""
        self._request = headers, body
        if self._session_id is None:
            return []
        return [*self._read_request()]

    def answered(self, headers: Iterable[tuple[bytes, bytes]]) -> list[MCPFact]:
        """Take the head of the answer."""
        by_name = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        self._session_id = self._session_id or by_name.get("mcp-session-id", "")
        self._is_stream = bool(is_stream_type(by_name.get("content-type", "")))
        encoding = by_name.get("content-encoding", "identity")
        self._decode = decoder_of(encoding)
        facts = [*self._read_request()]
        if self._decode is None and encoding.strip().lower() not in {"", "identity"}:
            self._why_missing = f"the encoding {encoding!r} of the answer is not known here"
            facts.append(missing_message("received", self._name, self._why_missing))
        return facts

    def received(self, chunk: bytes, *, is_last: bool) -> list[MCPFact]:
        """Take a chunk of the answer."""
        if self._why_missing is not None:
            return []
        pieces: list[bytes] | None = [chunk]
        if self._decode is not None:
            pieces = try_call(lambda decode: [*decode(chunk)], self._lose, self._decode)
        if pieces is None:
            return [missing_message("received", self._name, str(self._why_missing))]
        facts: list[MCPFact] = []
        for piece in pieces:
            if self._is_stream:
                facts += self._read_events(piece)
            else:
                self._message.add(piece)
        if is_last:
            self._message.add(self._half_end)
            facts += self._read_message()
        return facts

    def _lose(self, error: Exception) -> None:
        self._why_missing = f"the answer cannot be decoded: {type(error).__name__}: {error}"

    def _read_request(self) -> Iterator[MCPFact]:
        (headers, body), self._request = self._request, ([], b"")
        message = MessageBytes()
        try:
            message.add(plain_request(headers, body))
        except ours(TooLargeError) as error:
            yield missing_message("sent", self._name, str(error))
        yield from self._facts("sent", message)

    def _read_events(self, piece: bytes) -> Iterator[MCPFact]:
        """Read the events that end in a piece of a stream. Each byte is searched once."""
        data = self._half_end + piece
        begin = 0
        for end in EVENT_END.finditer(data):
            self._message.add(data[begin : end.end()])
            begin = end.end()
            yield from self._read_message()
        rest = max(begin, len(data) - _MAX_HALF_END)
        self._message.add(data[begin:rest])
        self._half_end = data[rest:]

    def _read_message(self) -> Iterator[MCPFact]:
        yield from self._facts("received", self._message)

    def _facts(self, direction: MCPDirection, message: MessageBytes) -> Iterator[MCPFact]:
        members = {"server": self._name, "transport": "streamable_http"}
        why_missing, body = message.why_missing(), message.take()
        if why_missing is not None:
            yield missing_message(direction, self._name, why_missing)
        for line in self._messages_in(direction, body.decode("utf-8", "replace").strip()):
            yield message_fact(self.connection_id, direction, line, **members)

    def _messages_in(self, direction: MCPDirection, text: str) -> list[str]:
        """Return the messages in a text: the data of an event, the JSON, or the elements of a batch."""
        if not text:
            return []
        if direction == "received" and self._is_stream:
            return [data for _, data in events(text) if data]
        batch = json_value(text) if text.startswith("[") else None
        if isinstance(batch, list):
            return [json.dumps(message, ensure_ascii=False) for message in batch]
        return [text]
