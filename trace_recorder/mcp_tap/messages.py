"""Records the messages of one server: in the run of the program that the proxy records, or in a run of its own.

Under `trace-recorder proxy`, each message is sent to the proxy, which writes it into the run of the program, between
the calls of the model. So a reader finds the model's call for each call of the server. Without a proxy, or when it is
gone, the messages are in a run of their own, whose `parent` is the run that the environment names.
"""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Lock

from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.capture.proxy_header import TOKEN_HEADER, TOKEN_VARIABLE, proxy_address
from trace_recorder.facts import MCPDirection, MCPEndFact
from trace_recorder.guard import Guard
from trace_recorder.recording.mcp_messages import MESSAGES_PATH, message_fact
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload, without_none

TIMEOUT_SECONDS = 10.0
_guard = Guard()


class TappedMessages:
    """Records the lines of one server. Any thread may call `observe`."""

    def __init__(self, directory: Path, command: str, name: str | None) -> None:
        self._directory = directory
        self._command = command
        self._name = name
        self._connection = f"tap_{os.urandom(6).hex()}"
        self._lock = Lock()
        self._proxy: HTTPConnection | None = None
        if proxy_address is not None:
            self._proxy = HTTPConnection(*proxy_address, timeout=TIMEOUT_SECONDS)
        self._recorder: TrajectoryRecorder | None = None

    def observe(self, direction: MCPDirection, line: bytes) -> None:
        """Record a line. Never raises."""
        text = line.decode("utf-8", "replace").rstrip("\r")
        with _guard.protect("record a message of an MCP server"), self._lock:
            if not self._told({"direction": direction, "line": text}):
                run = self._own_run()
                if run is not None:
                    members = without_none(server=self._name, transport="stdio")
                    run.append(message_fact(self._connection, direction, text, **members))

    def end(self, code: int) -> None:
        """Record how the server ended."""
        why = f"the server ended with exit code {code}" if code >= 0 else f"signal {-code} ended the server"
        with _guard.protect("record the end of an MCP server"), self._lock:
            if not self._told({"ended_by": why, "exit_code": code}) and self._recorder is not None:
                run = self._own_run()
                if run is not None:
                    run.append(MCPEndFact(connection_id=self._connection, exit_code=code, ended_by=why), is_ours=True)
                self._recorder.finalize()

    def _told(self, statement: dict[str, Payload]) -> bool:
        """Tell the proxy, and return whether it has taken the message."""
        if self._proxy is None:
            return False
        whole = {"connection_id": self._connection, "server": self._name, "transport": "stdio", **statement}
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
