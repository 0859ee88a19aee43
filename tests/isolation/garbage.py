"""An agent that leaves a stream to the garbage collector while the run is being written.

It does so in a redactor, when a thread of the recorder is about to write the received part of that stream, which is the
worst moment. Run as a program with the path of the document and the address of a model.
"""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import openai

from trace_recorder import TrajectoryRecorder

Payload = Any
LEAVE = "leave it"


class Leaving:
    """A redactor that drops the stream, so that the garbage collector ends it."""

    def __init__(self) -> None:
        self.streams: list[Payload] = []
        self._flushing = threading.Event()

    def __call__(self, text: str) -> str:
        if threading.current_thread().name == "trace_recorder streams":
            self._flushing.set()
        elif text == LEAVE and self.streams:
            self._flushing.wait()
            threading.Event().wait(0.05)
            self.streams.clear()
            gc.collect()
        return text


def main(path: str, url: str) -> None:
    """Drop a stream in the middle of the next call."""
    leaving = Leaving()
    with (
        TrajectoryRecorder(path, redact=leaving) as recorder,
        recorder.wrap(openai.OpenAI(api_key="k", base_url=url, max_retries=0)) as client,
    ):
        made = client.chat.completions.create(model="m", messages=[], stream=True)
        leaving.streams.append(made)
        next(made)
        del made
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": LEAVE}])


if __name__ == "__main__":
    main(*sys.argv[1:])
