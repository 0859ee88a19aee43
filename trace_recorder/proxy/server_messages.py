"""Takes the messages of MCP servers from `trace-recorder mcp-tap`, and records them in the program's run.

A tap does not know the session of its program. So a message belongs to the session whose request came last. Messages
that come before the first session, such as the handshake of a server, wait for it.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Literal

from trace_recorder.capture.event_loops import run_in_thread
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.facts import MCPEndFact, MCPMessageFact
from trace_recorder.guard import Guard
from trace_recorder.proxy.sessions import Sessions
from trace_recorder.recording.mcp_messages import message_fact
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload, without_none

MAX_WAITING = 1000
"""At most this many messages wait for a session. The oldest are forgotten first."""
LARGE_BYTES = 256_000
"""A larger message is written by a thread, so that the proxy answers other requests."""
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
        self._waiting.append(fact)
        run = self._sessions.newest_run()
        if run is not None:
            if len(body) > LARGE_BYTES:
                await run_in_thread(lambda: self._write(run), "mcp")
            else:
                self._write(run)
        return True

    def _write(self, run: Run) -> None:
        with run.guard.protect("record a message of an MCP server"):
            while self._waiting:
                run.append(self._waiting.popleft(), at_once=False)


def _fact_of(said: Payload) -> MCPMessageFact | MCPEndFact:
    """Return the fact of what a tap says. Raises KeyError and TypeError."""
    connection = str(said["connection_id"])
    if "ended_by" in said:
        return MCPEndFact(connection_id=connection, exit_code=int(said["exit_code"]), ended_by=str(said["ended_by"]))
    direction: Literal["sent", "received"] = "sent" if said["direction"] == "sent" else "received"
    members = {name: said.get(name) for name in ("server", "transport")}
    return message_fact(connection, direction, str(said["line"]), **without_none(**members))
