"""Records the messages of MCP servers in the program's run: those that taps send, and those that pass over HTTP.

A message does not name the session of its program. So it belongs to the session whose request came last. Messages that
come before the first session, such as the handshake of a server, wait for it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from trace_recorder.capture.event_loops import run_in_thread
from trace_recorder.capture.mcp_sessions import LARGE_MESSAGE
from trace_recorder.decompression import Decoder, decoder_of
from trace_recorder.dialects.endpoints import is_stream_type
from trace_recorder.dialects.json_access import as_dict, json_value
from trace_recorder.dialects.stream_framing import EVENT_END, events
from trace_recorder.facts import MCPDirection, MCPEndFact, MCPMessageFact
from trace_recorder.guard import Guard
from trace_recorder.proxy.sessions import Sessions
from trace_recorder.recording.mcp_messages import MAX_MESSAGE_BYTES, message_fact
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload, without_none

MAX_WAITING = 1000
"""At most this many messages wait for a session. The oldest are forgotten first."""
_guard = Guard()


class ServerMessages:
    """Records messages in the runs of a proxy's sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._waiting: deque[MCPMessageFact | MCPEndFact] = deque(maxlen=MAX_WAITING)

    async def take(self, body: bytes) -> bool:
        """Record a message, or keep it until there is a session. Return False if it cannot be recorded."""
        fact = None
        with _guard.protect("read a message of an MCP server"):
            fact = _fact_of(as_dict(json.loads(body)))
        if fact is None:
            return False
        await self.record([fact], len(body))
        return True

    async def record(self, facts: Sequence[MCPMessageFact | MCPEndFact], size: int) -> None:
        """Record facts of about `size` bytes, or keep them until there is a session."""
        self._waiting += facts
        run = self._sessions.newest_run()
        if run is None:
            return
        if size > LARGE_MESSAGE:
            await run_in_thread(lambda: self._write(run), "mcp")
        else:
            self._write(run)

    def _write(self, run: Run) -> None:
        with run.guard.protect("record a message of an MCP server"):
            while self._waiting:
                run.append(self._waiting.popleft(), at_once=False)


def _fact_of(statement: Payload) -> MCPMessageFact | MCPEndFact:
    """Return the fact of what a tap says. Raises KeyError and TypeError."""
    connection = str(statement["connection_id"])
    if "ended_by" in statement:
        return MCPEndFact(
            connection_id=connection, exit_code=int(statement["exit_code"]), ended_by=str(statement["ended_by"])
        )
    direction: MCPDirection = "sent" if statement["direction"] == "sent" else "received"
    members = {name: statement.get(name) for name in ("server", "transport")}
    return message_fact(connection, direction, str(statement["line"]), **without_none(**members))


class ServerExchange:
    """One HTTP exchange with a server over streamable HTTP: a request, and an answer of JSON or of events.

    The id of the connection is made from the server's id of the session. The answer to the handshake states it first,
    so the handshake is recorded with its answer.
    """

    def __init__(self, name: str, session_id: str | None) -> None:
        self._name = name
        self._session_id = session_id
        self._unwritten: list[str] = []
        self._is_stream = False
        self._decode: Decoder | None = None
        self._begun = bytearray()

    def sent(self, body: bytes) -> list[MCPMessageFact]:
        """Return the facts of the body of a request."""
        lines = _messages_in(body)
        if self._session_id is None:
            self._unwritten = lines
            return []
        return self._facts("sent", lines)

    def answered(self, headers: Iterable[tuple[bytes, bytes]]) -> list[MCPMessageFact]:
        """Take the head of the answer. Return the facts that waited for it."""
        by_name = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        self._session_id = self._session_id or by_name.get("mcp-session-id", "")
        self._is_stream = bool(is_stream_type(by_name.get("content-type", "")))
        self._decode = decoder_of(by_name.get("content-encoding", ""))
        waited, self._unwritten = self._unwritten, []
        return self._facts("sent", waited)

    def received(self, chunk: bytes, *, is_last: bool) -> list[MCPMessageFact]:
        """Return the facts of the messages that a chunk of the answer completes. Raises TooLargeError."""
        for piece in (chunk,) if self._decode is None else self._decode(chunk):
            self._begun += piece[: MAX_MESSAGE_BYTES - len(self._begun)]
        if not self._is_stream:
            return self._facts("received", _messages_in(bytes(self._begun))) if is_last else []
        whole = len(self._begun)
        if not is_last:
            ends = [match.end() for match in EVENT_END.finditer(self._begun)]
            whole = ends[-1] if ends else 0
        text = self._begun[:whole].decode("utf-8", "replace")
        del self._begun[:whole]
        return self._facts("received", [data for _, data in events(text) if data])

    def _facts(self, direction: MCPDirection, lines: Iterable[str]) -> list[MCPMessageFact]:
        digest = blake2b((self._session_id or "").encode(), digest_size=6).hexdigest()
        connection = f"http_{digest}"
        members = {"server": self._name, "transport": "streamable_http"}
        return [message_fact(connection, direction, line, **members) for line in lines]


def _messages_in(body: bytes) -> list[str]:
    """Return the messages in a body: the JSON, or the elements of a batch."""
    text = body.decode("utf-8", "replace").strip()
    if not text:
        return []
    batch = json_value(text) if text.startswith("[") else None
    if isinstance(batch, list):
        return [json.dumps(message, ensure_ascii=False) for message in batch]
    return [text]
