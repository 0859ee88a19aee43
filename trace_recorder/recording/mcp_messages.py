"""What all recorders of MCP messages share: the limits, and the fact of a message that came as a line."""

from __future__ import annotations

from trace_recorder.facts import JsonText, MCPDirection, MCPMessageFact
from trace_recorder.values.json_text import NotJsonError, parse
from trace_recorder.values.messages import Payload

MESSAGES_PATH = "/mcp-messages"
"""The path at which `trace-recorder proxy` takes messages from `trace-recorder mcp-tap`."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of a longer message, only the first bytes are on file, as a text. It passes whole."""


def message_fact(connection_id: str, direction: MCPDirection, line: str, **members: Payload) -> MCPMessageFact:
    """Return the fact of a line, which is JSON or another text."""
    try:
        parse(line)
    except NotJsonError:
        return MCPMessageFact(connection_id=connection_id, direction=direction, text=line, **members)
    return MCPMessageFact(connection_id=connection_id, direction=direction, message=JsonText(line), **members)
