"""Runs a server between pipes: each byte passes in both directions, and each whole line is shown to an observer.

A line is observed before its last byte is passed on, so that a message is on file before the other side can answer it.
A long line passes first, because to write it takes long. When the client closes the server's input, so does the relay.
When the server closes its output, the relay closes its own. It ends as the server ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO, Any

from trace_recorder.attach.subprocess.supervisor import CommandError, run_process
from trace_recorder.background_work import start_thread
from trace_recorder.facts import MCPDirection
from trace_recorder.recording.mcp_messages import MessageBytes
from trace_recorder.signal_handlers import suppress

Observer = Callable[[MCPDirection, bytes, int], None]
"""A function that is called with each line, without the newline, and its size in bytes. It must not raise.

Of a line of more than `MAX_MESSAGE_BYTES`, the bytes are empty.
"""

LONG_LINE_BYTES = 1024 * 1024
"""A line of more bytes passes before it is observed."""
_CHUNK = 64 * 1024


class Lines:
    """Collects the lines of one direction from chunks of any size."""

    def __init__(self, direction: MCPDirection, observe: Observer) -> None:
        self._direction: MCPDirection = direction
        self._observe = observe
        self._begun = MessageBytes()

    def is_long(self) -> bool:
        """Whether the line that has begun is long already."""
        return self._begun.size > LONG_LINE_BYTES

    def add(self, chunk: bytes) -> None:
        """Take a chunk, and observe the lines that end in it."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._begun.add(part)
            self.end()
        self._begun.add(rest)

    def end(self) -> None:
        """Observe the line that has begun, because it has ended."""
        size = self._begun.size
        line = self._begun.take()
        if line.strip() or size > len(line):
            self._observe(self._direction, line, size)


def relay(command: Sequence[str], environment: Mapping[str, str], observe: Observer) -> int:
    """Run a server between our standard input and output, until it ends.

    Return its exit code, or -n if signal n ended it. Its standard error is ours. Raises CommandError if the server
    cannot be started.
    """

    def attend(process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise CommandError("the server has no pipes", 126)
        sent, received = Lines("sent", observe), Lines("received", observe)
        start_thread(partial(_pass, sys.stdin, process.stdin, sent), "trace-recorder-tap")
        _pass(process.stdout, sys.stdout, received)

    return run_process(command, environment, attend)[1]


def _pass(source: IO[Any], target: IO[Any], lines: Lines) -> None:
    """Pass bytes on until one of the sides closes its end. Then close both ends, as without a relay."""
    with suppress(OSError):  # the other side has closed its end
        while chunk := os.read(source.fileno(), _CHUNK):
            if lines.is_long():
                _write(target.fileno(), chunk)
                lines.add(chunk)
            else:
                lines.add(chunk)
                _write(target.fileno(), chunk)
    lines.end()
    _close(target)
    _close(source)


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def _close(end: IO[Any]) -> None:
    """Close an end of a pipe. No file that is opened later may get the number of one that is still used here.

    A pipe to the server is closed by its object, which would otherwise close the number once more. The number of our
    own standard stream stays in use, because Python may still write to it.
    """
    with suppress(OSError):
        if end in {sys.stdin, sys.stdout}:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, end.fileno())
            os.close(nowhere)
        else:
            end.close()
