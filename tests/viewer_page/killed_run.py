"""A run that is killed while a call waits for its answer and a second call's answer is arriving."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.chat_calls import CHAT, asked, call, said
from tests.processes import ROOT
from trace_recorder import TrajectoryRecorder

HALF = "This answer ends in the mid"


def killed_run(directory: Path) -> Path:
    """Record the run in a process that kills itself."""
    path = directory / "killed.json"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.viewer_page.killed_run", str(path)], cwd=ROOT, check=False, timeout=300
    )
    assert ended.returncode == -signal.SIGKILL
    return path


class _Provider(httpx.BaseTransport):
    """A provider that gives no answer to "wait", and half of an answer to anything else, after which it kills the
    process.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self.is_waiting = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if b'"wait"' in request.content:
            self.is_waiting.set()
            threading.Event().wait()
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._half())

    def _half(self) -> Iterator[bytes]:
        event = {"id": "chat-s", "choices": [{"index": 0, "delta": {"content": HALF}}]}
        yield f"data: {json.dumps(event)}\n\n".encode()
        while b'"llm_stream"' not in self._journal.read_bytes():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)


def main(path: Path) -> None:
    """Record, and get killed."""
    recorder = TrajectoryRecorder(path, task="Be killed")
    recorder.start()
    call(recorder, asked("hi"), said("hello"))
    provider = _Provider(path.with_suffix(".jsonl"))
    with httpx.Client(transport=provider, trust_env=False, timeout=None) as client:
        recorder.wrap(client)
        threading.Thread(target=client.post, args=[CHAT], kwargs={"json": asked("wait")}, daemon=True).start()
        provider.is_waiting.wait()
        with client.stream("POST", CHAT, json=asked("go on", stream=True)) as response:
            for _ in response.iter_text():
                pass


if __name__ == "__main__":
    main(Path(sys.argv[1]))
