"""Records the messages of MCP servers in the program's run: those that taps send, and those that pass over HTTP.

A message belongs to the session that its `Origin` names: by the path that the program was given, or by the id that the
program gives its servers or its messages. A message that comes before its session, such as the handshake of a server,
waits. A message that names no session belongs to the session whose request came last.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_recorder.capture.event_loops import run_in_thread
from trace_recorder.capture.mcp_sessions import LARGE_MESSAGE
from trace_recorder.clocks import now
from trace_recorder.dialects.json_access import as_dict, as_list, json_value
from trace_recorder.facts import GapFact, JsonText, MCPDirection, MCPEndFact, MCPMessageFact
from trace_recorder.guard import Guard
from trace_recorder.proxy.sessions import Sessions
from trace_recorder.recording.mcp_messages import MCPFact, message_fact, missing_message, why_too_long
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload, without_none

MAX_WAITING = 1000
"""At most this many messages wait for a session. A gap states how many more there were, the oldest."""
MAX_CONNECTIONS = 1000
"""The sessions of at most this many connections are remembered. The oldest are forgotten first."""
_SESSION_MEMBER = "sessionId"
"""The member of `_meta` of a `tools/call` in which Codex 0.171 states the id that its header `session-id` has."""
_guard = Guard()


@dataclass(frozen=True, slots=True)
class Origin:
    """What a message says about its session: the words of the path, and an id. Both may be unknown."""

    chosen: tuple[str, ...] = ()
    session_id: str | None = None


_UNKNOWN = Origin()


@dataclass(frozen=True, slots=True)
class _Waiting:
    connection_id: str
    origin: Origin
    fact: MCPFact


class ServerMessages:
    """Records messages in the runs of a proxy's sessions. The event loop of the proxy calls all methods."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._waiting: deque[_Waiting] = deque()
        self._forgotten = 0
        """How many messages no longer wait, and are in no run."""
        self._session_ids: dict[str, str] = {}
        """The ids of sessions that messages have stated, by the ids of their connections."""

    async def take(self, body: bytes) -> bool:
        """Record a message, or keep it until there is a session. Return False if it cannot be recorded."""
        with _guard.protect("read a message of an MCP server"):
            statement = as_dict(json.loads(body))
            origin = Origin(tuple(map(str, as_list(statement.get("path")))), statement.get("session_id"))
            facts = [_fact_of(statement)]
            await self.record(str(statement["connection_id"]), facts, len(body), origin)
            return True
        return False

    async def record(self, connection_id: str, facts: Sequence[MCPFact], size: int, origin: Origin = _UNKNOWN) -> None:
        """Record facts of about `size` bytes, or keep them until their session begins."""
        for fact in facts:
            self._learn(fact)
            self._waiting.append(_Waiting(connection_id, origin, fact))
        due = self._due()
        if size > LARGE_MESSAGE:
            await run_in_thread(lambda: _write(due), "mcp")
        else:
            _write(due)

    def end(self) -> None:
        """Say in the newest run that the messages that still wait are in no run, because the proxy ends."""
        _write(self._due())
        self._forgotten += len(self._waiting)
        self._waiting.clear()
        run = self._sessions.newest_run()
        if run is not None:
            _write([*self._gap_in(run)])

    def _learn(self, fact: MCPFact) -> None:
        """Remember the session that a message states, for all messages of its connection."""
        if isinstance(fact, MCPMessageFact) and fact.direction == "sent" and isinstance(fact.message, JsonText):
            session_id = _session_in(fact.message.text)
            if session_id is not None:
                self._session_ids[fact.connection_id] = session_id
                if len(self._session_ids) > MAX_CONNECTIONS:
                    del self._session_ids[next(iter(self._session_ids))]

    def _due(self) -> list[tuple[Run, MCPFact]]:
        """Return the messages whose runs are open, with these runs. The other messages wait further."""
        due: list[tuple[Run, MCPFact]] = []
        waiting, self._waiting = self._waiting, deque()
        for message in waiting:
            session_id = self._session_ids.get(message.connection_id, message.origin.session_id)
            run = self._sessions.run_of(message.origin.chosen, session_id)
            if run is None:
                self._waiting.append(message)
                continue
            due += self._gap_in(run)
            due.append((run, message.fact))
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self._forgotten += 1
        return due

    def _gap_in(self, run: Run) -> Iterator[tuple[Run, MCPFact]]:
        count, self._forgotten = self._forgotten, 0
        if count:
            why = f"{count} messages came before their session began"
            yield run, GapFact(time=now(), what="record messages of MCP servers", why=why)


def _write(due: Iterable[tuple[Run, MCPFact]]) -> None:
    for run, fact in due:
        with run.guard.protect("record a message of an MCP server"):
            run.append(fact, at_once=False)


def _session_in(message: str) -> str | None:
    """Return the id of the session that a message states, or None."""
    if f'"{_SESSION_MEMBER}"' not in message:
        return None
    parameters = as_dict(as_dict(json_value(message)).get("params"))
    session_id = as_dict(parameters.get("_meta")).get(_SESSION_MEMBER)
    return session_id if isinstance(session_id, str) else None


def _fact_of(statement: Payload) -> MCPFact:
    """Return the fact of what a tap says. Raises KeyError and TypeError."""
    connection = str(statement["connection_id"])
    if "ended_by" in statement:
        return MCPEndFact(
            connection_id=connection, exit_code=int(statement["exit_code"]), ended_by=str(statement["ended_by"])
        )
    direction: MCPDirection = "sent" if statement["direction"] == "sent" else "received"
    if "bytes" in statement:
        return missing_message(direction, statement.get("server"), why_too_long(int(statement["bytes"])))
    members = {name: statement.get(name) for name in ("server", "transport")}
    return message_fact(connection, direction, str(statement["line"]), **without_none(**members))
