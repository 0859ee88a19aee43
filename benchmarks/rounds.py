"""Starts the contenders' processes, and runs their laps in turn, so that other work of the machine affects all alike.

In a round each contender has a fresh process, and only one process works at a time. The order moves on by one with
every lap. A lap's figures are compared with the same lap of the unrecorded contender.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Self

from benchmarks.server import ROOT
from benchmarks.suite import CONTENDERS

PEERS_PYTHON = ROOT / ".venv-peers/bin/python"
Lap = dict[str, float]


@dataclass
class Results:
    """The results of one workload: the laps of each contender by rounds, versions, and why a contender did not run."""

    rounds: list[dict[str, list[Lap]]] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    instructions: dict[str, float] = field(default_factory=dict)
    """Instructions for each call, or empty if they were not counted."""


@dataclass(frozen=True)
class Task:
    """A workload to run: its name, how many calls a lap has, and the URLs of the servers."""

    workload: str
    calls: int
    url: str
    sink: str

    def command(self, contender: str) -> list[str]:
        """Return the command that starts a contender's process."""
        python = str(PEERS_PYTHON) if CONTENDERS[contender].packages else sys.executable
        return [python, "-m", "benchmarks.contending", contender, self.workload, str(self.calls), self.url, self.sink]


class ContenderError(Exception):
    """A contender's process has ended too early. The message has its last output."""


class Runner:
    """A contender's process."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self._said: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the process has already ended
            self.process.stdin.close()
        self.process.wait()
        self._said.close()

    def ask(self, line: str) -> None:
        """Send the process a line."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the process has ended; the next read says why
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def hear(self) -> str:
        """Return the next line of the contender's output. Raises ContenderError if the output has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            self.process.wait()
            self._said.seek(0)
            raise ContenderError((self._said.read().strip().splitlines() or ["it ended"])[-1])
        return line

    def lap(self) -> Lap:
        """Run a lap."""
        self.ask("lap")
        return json.loads(self.hear())


def run_round(results: Results, task: Task, names: Sequence[str], laps: int, turn: int) -> None:
    """Run one round of one workload, and add its figures to the results."""
    with ExitStack() as stack:
        runners = {
            name: stack.enter_context(Runner(task.command(name))) for name in names if name not in results.failed
        }
        for name, runner in list(runners.items()):
            _or_fail(results, runners, name, lambda runner=runner: json.loads(runner.hear()), results.versions)
        laps_of: dict[str, list[Lap]] = {name: [] for name in runners}
        for lap in range(laps):
            for name in _rotated(list(runners), turn + lap):
                one: dict[str, Any] = {}
                _or_fail(results, runners, name, runners[name].lap, one)
                laps_of[name] += one.values()
    results.rounds.append({name: laps_of[name] for name in runners})


def _or_fail(results: Results, runners: dict[str, Runner], name: str, ask: Any, into: dict[str, Any]) -> None:
    try:
        into[name] = ask()
    except ContenderError as error:
        results.failed[name] = str(error)
        del runners[name]


def _rotated(names: list[str], by: int) -> list[str]:
    by %= len(names) or 1
    return names[by:] + names[:by]
