"""Starts `trace-recorder mcp` as a process, and talks to it with the client of the package `mcp`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from tests.processes import ROOT
from trace_recorder.mcp_server.served_runs import ServedRuns
from trace_recorder.mcp_server.tools import call_tool

R = TypeVar("R")
ANSWER = re.compile(r'(.*)\n<recorded-data mark="([0-9a-f]{16})">\n(.*)\n</recorded-data mark="\2">', re.DOTALL)
COMMAND = (sys.executable, "-m", "trace_recorder", "mcp")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Answered:
    """An answer of the server: its whole text, the data between its marks, and whether it is an error."""

    text: str
    data: Any
    is_error: bool


class Tools:
    """The tools for a directory, called in this process, because the package `mcp` takes a second to start."""

    def __init__(self, directory: Path) -> None:
        self._runs = ServedRuns(directory)

    def call(self, name: str, **arguments: Any) -> Answered:
        """Call a tool. The answer must have the marks."""
        text, is_error = self._answer(name, arguments)
        match = ANSWER.fullmatch(text)
        assert match is not None, text
        return Answered(text, json.loads(match[3]), is_error)

    def data(self, name: str, **arguments: Any) -> Any:
        """Call a tool, and return the data of its answer, which must not be an error."""
        answer = self.call(name, **arguments)
        assert not answer.is_error, answer.text
        return answer.data

    def _answer(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        answer = call_tool(self._runs, name, arguments, threading.Event())
        return answer.text, answer.is_error


class Client(Tools):
    """The tools of a server, for a test that is not async."""

    def __init__(self, session: ClientSession, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._loop = loop

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools as the client gets them."""
        listed = self._do(self._session.list_tools())
        return [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]

    def _answer(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        result = self._do(self._session.call_tool(name, arguments))
        [content] = result.content
        assert isinstance(content, types.TextContent)
        return content.text, result.model_dump(by_alias=True)["isError"]

    def _do(self, work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)


@contextmanager
def connected(directory: Path) -> Iterator[Client]:
    """Yield a client of a server for a directory."""
    with connected_to([*COMMAND, str(directory)]) as client:
        yield client


@contextmanager
def connected_to(words: Sequence[str]) -> Iterator[Client]:
    """Yield a client of the server that a command starts."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    sessions: list[ClientSession] = []

    async def connect() -> None:
        parameters = StdioServerParameters(command=words[0], args=[*words[1:]], env=ENVIRONMENT)
        try:
            async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
                await session.initialize()
                sessions.append(session)
                ready.set()
                await over.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(connect()))
    thread.start()
    try:
        ready.wait()
        yield Client(sessions[0], loop)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
