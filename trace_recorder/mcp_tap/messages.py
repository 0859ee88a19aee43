"""Records the messages of one server: in the run of the program that the proxy records, or in a run of its own.

Under `trace-recorder proxy`, each message is sent to the proxy, which writes it into the run of the program, between
the calls of the model. So a reader finds the model's call for each call of the server. Without a proxy, or when it is
gone, the messages are in a run of their own, whose `parent` is the run that the environment names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.capture.proxy_header import PROXY_VARIABLE, TOKEN_HEADER, TOKEN_VARIABLE, proxy_address
from trace_recorder.facts import MCPDirection, MCPEndFact
from trace_recorder.guard import Guard
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.recording.mcp_messages import MESSAGES_PATH, message_fact, missing_message, why_too_long
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload, without_none

TIMEOUT_SECONDS = 10.0
SESSION_IDS = ("CLAUDE_CODE_SESSION_ID",)
"""The variables in which programs tell the servers that they start the id of their session: Claude Code 2.1."""
_CHOSEN_PATH = lazy_pattern(r"https?://[^/]+/run/([^/]+)/([^/]+)/([^/]+)/.*")
"""An address of `trace-recorder proxy` that names a run (docs/proxy.md)."""
_guard = Guard()


def session_of_client(environment: Mapping[str, str]) -> dict[str, Payload]:
    """Return what the environment says about the session of the client: `path`, `session_id`, or nothing.

    `path` has the TASK, GROUP and ATTEMPT of the address that the client got for its calls of models.
    """
    proxy = environment.get(PROXY_VARIABLE)
    for value in environment.values():
        match = _CHOSEN_PATH.fullmatch(value) if proxy and value.startswith(f"{proxy.rstrip('/')}/run/") else None
        if match is not None:
            return {"path": [*map(unquote, match.groups())]}
    session_id = next(filter(None, map(environment.get, SESSION_IDS)), None)
    return without_none(session_id=session_id)


class TappedMessages:
    """Records the lines of one server. Any thread may call `observe`."""

    def __init__(self, directory: Path, command: str, name: str | None) -> None:
        self._directory = directory
        self._command = command
        self._name = name
        self._connection = f"tap_{os.urandom(6).hex()}"
        self._session = session_of_client(os.environ)
        self._lock = Lock()
        self._proxy: HTTPConnection | None = None
        if proxy_address is not None:
            self._proxy = HTTPConnection(*proxy_address, timeout=TIMEOUT_SECONDS)
        self._recorder: TrajectoryRecorder | None = None
        self._has_ended = False

    def observe(self, direction: MCPDirection, line: bytes, size: int) -> None:
        """Record a line of `size` bytes. It is a gap if its bytes are missing. Never raises."""
        text = line.decode("utf-8", "replace").rstrip("\r")
        statement: dict[str, Payload] = {"direction": direction, "line": text}
        if size > len(line):
            statement = {"direction": direction, "bytes": size}
        with _guard.protect("record a message of an MCP server"), self._lock:
            if self._has_ended or self._told(statement):  # a line that comes later has not reached the server
                return
            run = self._own_run()
            if run is None:
                return
            if size > len(line):
                run.append(missing_message(direction, self._name, why_too_long(size)))
            else:
                members = without_none(server=self._name, transport="stdio")
                run.append(message_fact(self._connection, direction, text, **members))

    def end(self, code: int) -> None:
        """Record how the server ended."""
        why = f"the server ended with exit code {code}" if code >= 0 else f"signal {-code} ended the server"
        with _guard.protect("record the end of an MCP server"), self._lock:
            self._has_ended = True
            if not self._told({"ended_by": why, "exit_code": code}) and self._recorder is not None:
                run = self._own_run()
                if run is not None:
                    run.append(MCPEndFact(connection_id=self._connection, exit_code=code, ended_by=why), is_ours=True)
                self._recorder.finalize()

    def _told(self, statement: dict[str, Payload]) -> bool:
        """Tell the proxy, and return whether it has taken the message."""
        if self._proxy is None:
            return False
        whole = {
            "connection_id": self._connection,
            "server": self._name,
            "transport": "stdio",
            **self._session,
            **statement,
        }
        body = json.dumps(whole, ensure_ascii=True).encode()
        headers = {"content-type": "application/json", **without_none(**{TOKEN_HEADER: os.environ.get(TOKEN_VARIABLE)})}
        try:
            self._proxy.request("POST", MESSAGES_PATH, body, headers)
            answer = self._proxy.getresponse()
            answer.read()
            if answer.status == 200:
                return True
        except ours(OSError, HTTPException):
            self._proxy.close()
        self._proxy = None  # from now on, the messages are in a run of our own
        return False

    def _own_run(self) -> Run | None:
        if self._recorder is None:
            metadata = {"mcp_server": self._command, **without_none(mcp_server_name=self._name)}
            self._recorder = TrajectoryRecorder(directory=self._directory, task=f"MCP server: {self._command}")
            self._recorder.start(metadata=metadata)
        return self._recorder._lifecycle.run
