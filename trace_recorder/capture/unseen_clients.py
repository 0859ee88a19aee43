"""Finds connections to models that are not recorded: the library is unknown, or the client is not wrapped.

Such a connection goes to a known host of models while no seam of ours is sending to that host (`seam.py`).

Two hooks see connections. `UnseenClients` replaces `socket.getaddrinfo` while something is recorded; it costs nothing
until a name is looked up. `audit_connections` adds an audit hook, which reaches every library and every address. The
hook slows down each audited operation of the process, such as `id()`, and cannot be removed. So it is for replayed
processes only (decision 30). Neither hook sees connections that are made in C: by uvloop, gRPC or pycurl.
"""

from __future__ import annotations

import math
import os
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from trace_recorder.capture.replaced_methods import ReplacedMethod
from trace_recorder.capture.seam import is_sending_to
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.dialects.endpoints import is_model_server
from trace_recorder.guard import ignore_failures, logger
from trace_recorder.values.structs import Struct

_WEBSOCKETS = "websockets"
"""The library of connections that its own seam notes (`websocket_clients.py`), after it has looked the name up."""
_HTTP_LIBRARIES = (
    *("requests", "urllib3", "urllib", "http", "aiohttp", "httpx", "httpcore", "httpx2", "httpcore2"),
    *("botocore", "httplib2", "niquests", "tornado", _WEBSOCKETS),
)
_AGENT_PROGRAMS = {"claude_agent_sdk": "Claude Code", "claude_code_sdk": "Claude Code"}
"""Libraries that run a coding agent, each with the agent. The agent calls models in a process of its own."""
_MAX_NOTED = 10
WHAT_IS_SEEN = (
    "Clients of httpx, httpx2, aiohttp, requests, urllib3 and websockets are seen, if they are wrapped or the process "
    "is instrumented. For all other clients, see What is not seen in docs/attach.md."
)
WHAT_IS_ANSWERED = (
    "Only clients of httpx, httpx2, aiohttp, requests and urllib3 2 are answered from a recording. Give the SDK such a "
    "client: docs/replay.md."
)


class UnseenConnection(Struct, frozen=True):
    """A connection to a model's server that is not recorded, and the library that made it."""

    library: str
    host: str

    def __str__(self) -> str:
        return f"{self.library} connected to {self.host}"


class UnseenProgram(Struct, frozen=True):
    """A coding agent that a library of this process runs. Its calls are made in another process."""

    library: str
    program: str

    def __str__(self) -> str:
        return (
            f"{self.library} runs {self.program}, which calls models in a process of its own. "
            "`trace-recorder proxy -- python agent.py` records these calls"
        )


def unseen_programs() -> list[UnseenProgram]:
    """Return the coding agents whose libraries this process has imported."""
    return [UnseenProgram(name, program) for name, program in _AGENT_PROGRAMS.items() if name in sys.modules]


def unseen_connection(host: object, port: object) -> UnseenConnection | None:
    """Return the connection to a host if a model is served there and no seam of ours is sending to that host."""
    name, number = host, None
    if isinstance(host, bytes):
        name = host.decode("ascii", "replace")
    if isinstance(port, int | str) and str(port).isdecimal():
        number = int(port)
    if not isinstance(name, str) or not is_model_server(name, number, os.environ) or is_sending_to(name):
        return None
    return UnseenConnection(_library(sys._getframe(1)), name)


def _library(frame: FrameType | None) -> str:
    """Return the outermost of the HTTP libraries that make a connection.

    An event loop looks names up in threads, and the stacks of these threads do not show the library.
    """
    library = ""
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in _HTTP_LIBRARIES:
            library = package
        elif library:
            break
        frame = frame.f_back
    return library or ("aiohttp" if "aiohttp" in sys.modules else "a client")


def advice(connections: Iterable[object]) -> str:
    """Return sentences that say which connections were not recorded, and what to do."""
    return f"{'; '.join(map(str, connections))}. {WHAT_IS_SEEN}"


class UnseenClients:
    """Notes unseen connections while a run is open or the process is instrumented, to explain missing calls.

    There is one instance.

    There is no lock. If two threads begin and end to watch at the same moment, a connection may be missed.
    """

    def __init__(self) -> None:
        self._watching: dict[str, float] = {}
        self._lookup = ReplacedMethod(socket, "getaddrinfo", self._look_up)
        self._noted: dict[UnseenConnection, float] = {}
        """The time at which each connection was last made."""
        self._is_reported = False
        self.listeners: list[Callable[[UnseenConnection], None]] = []
        """Functions that are called with a connection when it is noted, once for each library and host."""

    def watch(self, who: str) -> None:
        """Note connections until `unwatch` is called with the same name."""
        self._watching.setdefault(who, monotonic_seconds())
        self._lookup.put()

    def unwatch(self, who: str) -> None:
        """Stop noting connections for this name. Restore `socket.getaddrinfo` if no other name is left."""
        self._watching.pop(who, None)
        if not self._watching:
            self._lookup.take_out()

    def report(self, document: Path, has_calls_since: str | None = None) -> None:
        """Warn, once in a process, of connections and programs if a run has no call, or may lack calls.

        `has_calls_since` is None if the run has no call. Otherwise it is the name that the run passed to `watch`, and
        only connections that were made after `watch` got this name are reported. For a run with calls, nothing is
        logged if there are listeners, because the listeners report the connections.
        """
        if self._is_reported or (has_calls_since is not None and self.listeners):
            return
        since, lacks = 0.0, "has no LLM call, but"
        if has_calls_since is not None:
            since, lacks = self._watching.get(has_calls_since, math.inf), "may lack LLM calls:"
        unseen: list[object] = []
        if has_calls_since is None:
            unseen += unseen_programs()
        unseen += [connection for connection, made_at in self._noted.copy().items() if made_at >= since]
        if unseen:
            self._is_reported = True
            with ignore_failures:
                logger.warning("%s %s %s (logged once)", document, lacks, advice(unseen))

    def _look_up(self, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        if self._watching:
            with ignore_failures:
                host, port = (*arguments, None, None)[:2]
                connection = unseen_connection(keywords.get("host", host), keywords.get("port", port))
                if connection is not None and connection.library != _WEBSOCKETS:
                    self.note(connection)
        return original(*arguments, **keywords)

    def note(self, connection: UnseenConnection) -> None:
        """Note a connection to a model that is not recorded."""
        if not self._watching or (connection not in self._noted and len(self._noted) >= _MAX_NOTED):
            return
        is_new = connection not in self._noted
        self._noted[connection] = monotonic_seconds()
        if is_new:
            for listener in self.listeners:
                listener(connection)


unseen_clients = UnseenClients()


def audit_connections(on_connection: Callable[[UnseenConnection], None]) -> None:
    """Call a function before each unseen connection of this process, until the process ends.

    If the function raises, the attempt to connect raises the same exception.
    """
    names, addresses = "socket.getaddrinfo", "socket.connect"

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in {names, addresses}:
            return
        address = arguments if event == names else arguments[1]
        if isinstance(address, tuple) and len(address) >= 2:
            connection = unseen_connection(*address[:2])
            if connection is not None:
                on_connection(connection)

    sys.addaudithook(audit)
