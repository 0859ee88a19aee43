"""Kills agents at random moments.

`Zygote.kill` forks an agent, kills it at a random moment, and returns its reports. Python takes half a second to start
and import an SDK. A fork of a process that has done so takes milliseconds, so thousands of kills take minutes. A moment
is a number of reports and some milliseconds, during which several calls, records and snapshots happen. `judging.py`
checks the files of a dead agent.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO, Self

from tests.faults.agent import VARIANTS, Job
from tests.faults.answering import Provider
from tests.processes import ROOT

PATIENCE = 120.0
"""After this many seconds an agent that does not die is killed, which counts as a problem."""

SIGNAL = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "os._exit": signal.SIGUSR1}
DYING = ("SIGKILL", "SIGTERM", "os._exit", "SystemExit", "SystemExit in a block", "exception", "exception in a block")
PAIRS = [
    *((variant, dying) for variant in VARIANTS if variant not in {"stalling", "8 daemons"} for dying in DYING),
    *(("8 daemons", dying) for dying in ("SIGKILL", "SystemExit", "exception")),
]
"""Which kinds of agents die in which ways. A daemon's calls after the end of a block do not belong to the run, and a
stalling stream takes seconds.
"""
STALLING = [("stalling", dying) for dying in DYING if not dying.startswith("exception")]
AT_ANY_MOMENT = ("SIGKILL", "SIGTERM")
"""Ways of dying that may come before the start too. For the others an agent must prepare first."""
LENGTHS = (50, 400, 3_000, 40_000)
"""The lengths of an agent's answers, of which each agent has one."""
MOST_REPORTS = {"8 daemons": 80, "8 threads": 80, "async": 50, "mixed": 100, "saving": 100, "streaming": 100}


@dataclass(frozen=True, slots=True)
class Kill:
    """A way to kill an agent: after `reports` of its lines and `seconds` more."""

    variant: str
    dying: str
    length: int
    reports: int
    seconds: float

    @classmethod
    def random(cls, random: Random, variant: str, dying: str) -> Self:
        """Return a kill at a random moment. By then, about half of the documents are no longer small."""
        length = random.choice(LENGTHS)
        if variant == "stalling":
            return cls(variant, dying, length, 3, random.uniform(0.0, 2.6))
        most = 25 if dying.startswith("exception") else MOST_REPORTS.get(variant, 25)
        return cls(variant, dying, length, random.randint(0, most), random.uniform(0.0, 0.012))


@dataclass(frozen=True, slots=True)
class Death:
    """The known facts of a dead agent: how it ended, its reports with their times, its complaints, its requests."""

    exit_code: int
    killed_at: float
    reports: list[tuple[float, str]]
    complaints: str
    asked: list[str]

    def said(self, kind: str) -> list[str]:
        """Return the reports of a kind."""
        return self.said_before(kind, float("inf"))

    def said_before(self, kind: str, moment: float) -> list[str]:
        """Return the reports of a kind before a moment."""
        return [line.partition(" ")[2] for at, line in self.reports if at < moment and line.split()[0] == kind]


class Zygote:
    """The process from which agents are forked."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        ours, theirs = socket.socketpair()
        arguments = [sys.executable, "-m", "tests.faults.zygote", str(theirs.fileno()), provider.address_for("warm")]
        self._process = subprocess.Popen(arguments, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        self._channel = ours
        assert ours.recv(16) == b"ready"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._process.wait()

    def kill(self, kill: Kill, directory: Path) -> Death:
        """Fork an agent that records to `directory`/run.json, and kill it."""
        name = directory.parent.name
        path = str(directory / "run.json")
        job = Job(kill.variant, kill.dying, self._provider.address_for(name), path, kill.length, kill.reports)
        ours, theirs = os.pipe()
        with (directory.parent / "stderr").open("wb+") as errors, os.fdopen(ours, "rb") as pipe:
            socket.send_fds(self._channel, [job.written()], [theirs, errors.fileno()])
            os.close(theirs)
            pid = int(self._channel.recv(32))
            ear = _Ear(pipe)
            killed_at = _end(pid, kill, ear)
            self._channel.send(b"!")
            code = int(self._channel.recv(32))
            errors.seek(0)
            return Death(code, killed_at, ear.heard, errors.read().decode(), list(self._provider.asked[name]))


class _Ear(threading.Thread):
    """A thread that receives the reports of an agent until the agent is dead."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._more = threading.Condition()
        self.heard: list[tuple[float, str]] = []
        self.start()

    def run(self) -> None:
        for line in self._pipe:
            with self._more:
                self.heard.append((time.monotonic(), line.decode().rstrip("\n")))
                self._more.notify()

    def wait_for(self, reports: int) -> None:
        """Wait for this many reports, or for the death."""
        with self._more:
            self._more.wait_for(lambda: len(self.heard) >= reports or not self.is_alive(), PATIENCE)


def _end(pid: int, kill: Kill, ear: _Ear) -> float:
    """Kill the agent, or wait until it dies by itself. Return the time."""
    number = SIGNAL.get(kill.dying, signal.SIGTERM)
    killed_at = float("inf")
    if not kill.dying.startswith("exception"):
        ear.wait_for(max(kill.reports, kill.dying not in AT_ANY_MOMENT))
        time.sleep(kill.seconds)
        killed_at = time.monotonic()
        os.kill(pid, number)
    for _ in range(4):  # Python drops a SystemExit that comes in a __del__, so the signal is sent again
        ear.join(PATIENCE / 4)
        if not ear.is_alive():
            return killed_at
        if kill.dying.startswith("SystemExit"):
            os.kill(pid, number)
    os.kill(pid, signal.SIGKILL)
    ear.join()
    return killed_at
