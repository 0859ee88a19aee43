"""One contender's process. `python -m benchmarks.contending CONTENDER WORKLOAD CALLS URL SINK`

It runs a lap for each line `lap` on its standard input, and prints the lap's figures as a line of JSON. For
`counted lap` it says `ready` and `over` next to the clocks, and waits for a line each time, so that a counter of
instructions can be switched from outside.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TextIO

from benchmarks.contenders import Unrecorded
from benchmarks.measuring import Window, peak_memory, sizes
from benchmarks.suite import CONTENDERS, WORKLOADS
from benchmarks.workloads import Conversation


class Lane:
    """A contender with its workload and its client, lap after lap."""

    def __init__(self, contender: Unrecorded, workload: Conversation, client: Any, out: TextIO) -> None:
        self._contender = contender
        self._workload = workload
        self._client = client
        self._out = out

    def lap(self, *, counted: bool) -> dict[str, float]:
        """Run once, in an empty directory. Seconds of the whole lap, and bytes."""
        contender = self._contender
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            contender.directory = Path(directory)
            contender.start(self._client)
            messages = self._workload.warm(self._client, contender)
            before = sizes(contender.directory)
            with Window(*(self._steps() if counted else (_go_on, _go_on))) as window:
                contender.clock_starts()
                more = self._workload.run(self._client, contender, messages)
                window.finishes()
                contender.finish()
            written = sizes(contender.directory)
            written["journal"] -= before["journal"]
            return {**window.figures(), **more, **contender.figures(), **written, "peak": peak_memory()}

    def _steps(self) -> Any:
        return (lambda: self._step("ready")), (lambda: self._step("over"))

    def _step(self, word: str) -> None:
        print(word, file=self._out, flush=True)
        sys.stdin.readline()


def _go_on() -> None:
    """Nothing is switched."""


def _lengthen_periods(factor: float) -> None:
    """Have the recorder wait longer by a factor where it waits for a time: what counts instructions is that slow."""
    for name, module in list(sys.modules.items()):
        if name.startswith("trace_recorder"):
            for constant, value in list(vars(module).items()):
                if constant.isupper() and isinstance(value, float):
                    setattr(module, constant, value * factor)


def main(name: str, workload_name: str, calls: str, url: str, sink: str) -> None:
    """Say which versions there are; then run laps until there is no more input."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a contender prints is not a figure
    contender = CONTENDERS[name]()
    workload = replace(WORKLOADS[workload_name], calls=int(calls))
    contender.install(sink)
    client = workload.client(url)
    import_module("openai.types.chat")
    versions = {package: metadata.version(package) for package in ("openai", *contender.packages)}
    print(json.dumps(versions), file=out, flush=True)
    if factor := os.environ.get("BENCHMARK_SLOWED"):
        _lengthen_periods(float(factor))
    lane = Lane(contender, workload, client, out)
    for line in sys.stdin:
        print(json.dumps(lane.lap(counted=line.startswith("counted"))), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
