"""Makes the facts of messages between clients and MCP servers from lines."""

from __future__ import annotations

from typing import Literal

from trace_recorder.facts import JsonText, MCPMessageFact
from trace_recorder.values.json_text import NotJsonError, parse
from trace_recorder.values.messages import Payload

MESSAGES_PATH = "/mcp-messages"
"""The path at which `trace-recorder proxy` takes messages from `trace-recorder mcp-tap`."""


def message_fact(
    connection_id: str, direction: Literal["sent", "received"], line: str, **members: Payload
) -> MCPMessageFact:
    """Return the fact of a line, which is JSON or another text."""
    try:
        parse(line)
    except NotJsonError:
        return MCPMessageFact(connection_id=connection_id, direction=direction, text=line, **members)
    return MCPMessageFact(connection_id=connection_id, direction=direction, message=JsonText(line), **members)
