"""Sessions of `mcp` with the server of `misbehaving_mcp_server.py`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from trace_recorder import TrajectoryRecorder

IS_SECOND_VERSION = int(version("mcp").partition(".")[0]) >= 2
if IS_SECOND_VERSION:
    from mcp.shared.exceptions import MCPError
else:
    from mcp.shared.exceptions import McpError as MCPError

SERVER = Path(__file__).with_name("misbehaving_mcp_server.py")
KEY = "sk-proj-" + "Ab3dE6gH9jK2" * 4


@contextlib.asynccontextmanager
async def connected(
    recorded: Callable[[ClientSession], ClientSession] = lambda session: session, **options: Any
) -> AsyncIterator[ClientSession]:
    """Connect to the server, and make the handshake. `options` are those of the session."""
    server = StdioServerParameters(command=sys.executable, args=["-I", "-S", str(SERVER)], env={"SERVER_KEY": KEY})
    async with stdio_client(server) as streams, recorded(ClientSession(*streams, **options)) as session:
        await session.initialize()
        yield session


async def outcome(calling: Awaitable[Any]) -> object:
    """Return what a caller gets from a call: the contents of the result, or the error."""
    try:
        result = await calling
    except MCPError as error:
        return str(error)
    return [block.model_dump(mode="json", exclude_none=True) for block in result.content]


def record_dying_server(recorder: TrajectoryRecorder) -> None:
    """Call a tool that answers, and one that ends the server."""

    async def run() -> None:
        async with connected(recorder.wrap) as session:
            await session.call_tool("add", {"a": 1, "b": 2})
            await outcome(session.call_tool("die", {}))

    asyncio.run(run())
