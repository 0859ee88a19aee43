"""The process of one contender: `python -m benchmarks.contending CONTENDER WORKLOAD CALLS URL SINK`.

It runs a lap for each line `lap` on its standard input, and prints the lap's figures as a line of JSON. For `counted
lap` it prints `ready` and `over` next to the clocks, and waits for a line each time, so that a counter of instructions
can be switched from outside.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.contenders import Unrecorded
from benchmarks.measuring import Window, peak_memory, sent, sizes
from benchmarks.suite import CONTENDERS, WORKLOADS
from benchmarks.workloads import Conversation


class Lane:
    """A contender with its workload and its client, for lap after lap. The parent process reads its output."""

    client: Any

    def __init__(self, contender: Unrecorded, workload: Conversation, sink: str) -> None:
        self._contender = contender
        self._workload = workload
        self._sink = sink
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # a contender's own output is not a figure

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, file=self._out, flush=True)

    def lap(self, *, counted: bool) -> dict[str, float]:
        """Run a lap in an empty directory. Return the seconds of the whole lap, and the bytes."""
        contender = self._contender
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            contender.directory = Path(directory)
            contender.start(self.client)
            messages = self._workload.warm(self.client, contender)
            before = self._written()
            with Window(*(self._steps() if counted else (_go_on, _go_on))) as window:
                contender.clock_starts()
                more = self._workload.run(self.client, contender, messages)
                window.finishes()
                contender.finish()
            written = self._written()
            written["journal"] -= before["journal"]
            return {**window.figures(), **more, **contender.figures(), **written, "peak": peak_memory()}

    def _written(self) -> dict[str, float]:
        return sent(self._sink) if self._contender.uploads else sizes(self._contender.directory)

    def _steps(self) -> tuple[Callable[[], None], Callable[[], None]]:
        return (lambda: self._step("ready")), (lambda: self._step("over"))

    def _step(self, word: str) -> None:
        self.say(word)
        sys.stdin.readline()


def _go_on() -> None:
    """Switch nothing."""


def _lengthen_periods(factor: float) -> None:
    """Multiply the recorder's waits by a factor, because counting instructions is slower by that factor."""
    for name, module in list(sys.modules.items()):
        if name.startswith("trace_recorder"):
            for constant, value in list(vars(module).items()):
                if constant.isupper() and isinstance(value, float):
                    setattr(module, constant, value * factor)


def main(name: str, workload_name: str, calls: str, url: str, sink: str) -> None:
    """Print the versions, then run laps until the input ends."""
    contender = CONTENDERS[name]()
    workload = replace(WORKLOADS[workload_name], calls=int(calls))
    lane = Lane(contender, workload, sink)
    contender.install(sink)
    lane.client = workload.client(url)
    if factor := os.environ.get("BENCHMARK_SLOWED"):
        _lengthen_periods(float(factor))
    packages = dict.fromkeys((*contender.packages, "openai"))
    lane.say(json.dumps({package: metadata.version(package) for package in packages}))
    for line in sys.stdin:
        lane.say(json.dumps(lane.lap(counted=line.startswith("counted"))))


if __name__ == "__main__":
    main(*sys.argv[1:])
