"""The facts about the process that writes a journal, for its first record."""

from __future__ import annotations

import platform
import socket
import sys
import time

from trace_recorder.recording import process
from trace_recorder.storage.journal_reader import SCHEMA, VERSION
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.version import __version__

_STARTED = time.time()


def process_facts(trajectory_id: str, pid: int, parent: str | None) -> dict[str, Payload]:
    """Describe the process that records a run; `parent` is the run that it was forked in, if any."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "trajectory_id": trajectory_id,
        "host": socket.gethostname(),
        "pid": pid,
        "process_start": _STARTED,
        "recorder": __version__,
        "python": platform.python_version(),
        "platform": sys.platform,
        **without_none(parent=parent or process.parent_run()),
    }
