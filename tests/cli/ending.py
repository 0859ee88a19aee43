"""A command that receives SIGTERM while it prints its first lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

PAGE = 4096
ROOM = 80
"""How many bytes the pipe still takes: enough for the first line, and too few for two lines."""


def ended_while_printing(arguments: Sequence[str], directory: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Send SIGTERM to a command that hangs while it prints, because nobody reads its output.

    Return its exit code and errors.
    """
    fcntl = pytest.importorskip("fcntl")
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        pytest.skip("only Linux makes pipes of a given size")
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)
    os.write(writing, b"x" * (PAGE - ROOM))
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "trace_recorder", *arguments],
            cwd=directory,
            env={**os.environ, **environment},
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while process.poll() is None and _unread_bytes(reading) <= PAGE - ROOM:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            os.close(writing)
            while os.read(reading, PAGE):  # as Python writes what is left before it exits
                pass
            errors = process.communicate(timeout=60)[1]
    finally:
        os.close(reading)
    return process.returncode, errors


def _unread_bytes(descriptor: int) -> int:
    from fcntl import ioctl  # noqa: PLC0415 - Windows has no such module
    from termios import FIONREAD  # noqa: PLC0415

    count = array("i", [0])
    ioctl(descriptor, FIONREAD, count)
    return count[0]
