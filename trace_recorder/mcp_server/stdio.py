"""Speaks the protocol on stdin and stdout, with the package `mcp`, of version 1 or 2.

Both versions have the same transport and messages. They differ in how a server gets its handlers.

Two threads of ours read stdin and write stdout, because a thread that waits for a pipe cannot be woken: with the
transport's own threads, Ctrl-C would wait for the client's next line. The server ends when one of the two pipes is
closed, and at SIGINT and SIGTERM. Then the calls that are still running stop soon. Only the protocol is written to
stdout; what is printed goes to stderr. Requests that came before the end of stdin are answered first, because the
package would drop them.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from trace_recorder.mcp_server.served_runs import ServedRuns
from trace_recorder.mcp_server.tools import DATA_NOTICE, INSTRUCTIONS, TOOLS, call_tool
from trace_recorder.values.messages import Payload
from trace_recorder.version import __version__

NAME = "trace-recorder"
READ_BYTES = 65_536
GRACE_SECONDS = 5.0
"""When stdin is closed, the requests that are not answered yet may take this long."""
LAST_WRITES_SECONDS = 5.0
"""At its end, the server waits at most this long for the client to read the last answers."""


def serve_on_stdio(directory: Path) -> None:
    """Serve the runs of a directory until stdin or stdout is closed, or until Ctrl-C.

    Raises OSError if the directory cannot be read.
    """
    connection = _Connection(ServedRuns(directory))
    with redirect_stdout(sys.stderr):
        asyncio.run(connection.serve())


class _Connection:
    """The connection to the client: the lines of stdin and stdout, and the end of the server."""

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs
        self._ends = threading.Event()
        self._received: asyncio.Queue[str | None] = asyncio.Queue()
        self._written: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._unanswered: set[str | int] = set()
        self._all_answered = asyncio.Event()

    async def serve(self) -> None:
        """Answer requests until the end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # on Windows, KeyboardInterrupt ends the server
                loop.add_signal_handler(number, self._end)
        reader = threading.Thread(target=self._read_stdin, args=(loop,), daemon=True)
        writer = threading.Thread(target=self._write_stdout, args=(loop,), daemon=True)
        reader.start()
        writer.start()
        server, streams = self._server(), (self._lines(), self)
        async with stdio_server(*streams) as (received, sent):  # type: ignore[arg-type]  # only these methods are used
            await server.run(received, sent, server.create_initialization_options())
        self._written.put(None)
        writer.join(LAST_WRITES_SECONDS)

    def _server(self) -> Any:
        """Return the server with its handlers."""
        server_type: Any = Server
        if hasattr(Server, "call_tool"):  # version 1, whose decorators would check the arguments a second time
            server = server_type(NAME, version=__version__, instructions=INSTRUCTIONS)
            server.request_handlers |= {types.ListToolsRequest: self._list_in_1, types.CallToolRequest: self._call_in_1}
            return server
        return server_type(
            NAME,
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(self, _context: object, _parameters: object) -> types.ListToolsResult:
        tools = [
            {
                "name": tool.name,
                "description": f"{tool.description} {DATA_NOTICE}",
                "inputSchema": tool.schema(),
                "annotations": {"readOnlyHint": True, "openWorldHint": False},
            }
            for tool in TOOLS.values()
        ]
        return types.ListToolsResult.model_validate({"tools": tools})

    async def _call_tool(self, _context: object, parameters: Any) -> types.CallToolResult:
        arguments: dict[str, Payload] = parameters.arguments or {}
        answer = await asyncio.to_thread(call_tool, self._runs, parameters.name, arguments, self._ends)
        content = [{"type": "text", "text": answer.text}]
        return types.CallToolResult.model_validate({"content": content, "isError": answer.is_error})

    async def _list_in_1(self, _request: object) -> Any:
        return self._result_in_1(await self._list_tools(None, None))

    async def _call_in_1(self, request: Any) -> Any:
        return self._result_in_1(await self._call_tool(None, request.params))

    def _result_in_1(self, result: object) -> Any:
        result_type: Any = types.ServerResult
        return result_type(result)

    # ── the pipes ────────────────────────────────────────────────────────────────────────────────────────────────

    def _end(self) -> None:
        """End the server: stop running calls, and read no further line."""
        self._ends.set()
        self._received.put_nowait(None)

    def _read_stdin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass on the lines of stdin. A thread runs this."""
        data = b""
        with suppress(OSError, RuntimeError):  # RuntimeError: the loop has ended
            while received := os.read(0, READ_BYTES):
                *lines, data = (data + received).split(b"\n")
                for line in lines:
                    loop.call_soon_threadsafe(self._received.put_nowait, line.decode("utf-8", "replace"))
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._received.put_nowait, None)

    async def _lines(self) -> AsyncIterator[str]:
        """Yield the lines of stdin. At its end, wait until the requests are answered, unless the server has to end."""
        while (line := await self._received.get()) is not None:
            self._unanswered |= _ids_of(line, "method")
            self._all_answered.clear()
            yield line
        self._note_answered()
        if not self._ends.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_answered.wait(), GRACE_SECONDS)
        self._ends.set()

    def _note_answered(self) -> None:
        if not self._unanswered:
            self._all_answered.set()

    async def write(self, text: str) -> None:
        """Write a line to stdout. The transport calls this."""
        self._unanswered -= _ids_of(text, "result") | _ids_of(text, "error")
        self._written.put(text.encode())
        self._note_answered()

    async def flush(self) -> None:
        """Do nothing: the thread that writes keeps nothing back."""

    def _write_stdout(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write the lines to stdout. A thread runs this. If the client has closed stdout, the server ends."""
        try:
            while (data := self._written.get()) is not None:
                while data:
                    data = data[os.write(1, data) :]
        except OSError:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end)


def _ids_of(line: str, member: str) -> set[str | int]:
    """Return the id of a message that has this member. Return nothing for a message without an id, or a wrong one."""
    try:
        message = json.loads(line)
    except ValueError:
        return set()
    if isinstance(message, dict) and member in message and isinstance(message.get("id"), str | int):
        return {message["id"]}
    return set()
