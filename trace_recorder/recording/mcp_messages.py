"""What all recorders of MCP messages share: the limits, and the facts of a message that came as a line."""

from __future__ import annotations

from trace_recorder.clocks import now
from trace_recorder.facts import GapFact, JsonText, MCPDirection, MCPEndFact, MCPMessageFact
from trace_recorder.values.json_text import NotJsonError, parse
from trace_recorder.values.messages import Payload

MESSAGES_PATH = "/mcp-messages"
"""The path at which `trace-recorder proxy` takes messages from `trace-recorder mcp-tap`."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer message passes, and is not on file. A gap says so."""

MCPFact = MCPMessageFact | MCPEndFact | GapFact
"""A fact of a connection to an MCP server."""


def message_fact(connection_id: str, direction: MCPDirection, line: str, **members: Payload) -> MCPMessageFact:
    """Return the fact of a line, which is JSON or another text."""
    try:
        parse(line)
    except NotJsonError:
        return MCPMessageFact(connection_id=connection_id, direction=direction, text=line, **members)
    return MCPMessageFact(connection_id=connection_id, direction=direction, message=JsonText(line), **members)


def missing_message(direction: MCPDirection, server: str | None, why: str) -> GapFact:
    """Return the gap for a message that passed and is not on file. Its beginning might be half of a secret."""
    return GapFact(
        time=now(), what=f"record a message {direction} by the client of {server or 'an MCP server'}", why=why
    )


def why_too_long(size: int) -> str:
    """Return why a message of `size` bytes is not on file."""
    return f"it has {size} bytes, and the limit is {MAX_MESSAGE_BYTES}"


class MessageBytes:
    """Collects the bytes of one message. Of a message that is too long, only the size is kept."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.size = 0
        """How many bytes of the message have come."""

    def add(self, part: bytes) -> None:
        """Add a part of the message."""
        self.size += len(part)
        self._data += part
        if self.size > MAX_MESSAGE_BYTES:
            self._data.clear()

    def why_missing(self) -> str | None:
        """Return why the message cannot be recorded, or None."""
        return why_too_long(self.size) if self.size > MAX_MESSAGE_BYTES else None

    def take(self) -> bytes:
        """Return the message, and begin the next. The bytes of a message that is too long are empty."""
        data, self._data = bytes(self._data), bytearray()
        self.size = 0
        return data
