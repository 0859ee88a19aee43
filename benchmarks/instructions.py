"""How many instructions a call takes: a measure that other work on the machine does not change.

The instructions are those of all threads in user mode, without the kernel's work for a write. A lap before is not
counted. If the machine allows `perf`, the figure is that of a process with two laps, minus that of a process with one.
Otherwise valgrind's callgrind is used, which is switched on and off with the clocks of a lap. It is about a hundred
times slower than the machine, so waits are a hundred times longer there, and long workloads are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benchmarks.rounds import ContenderError, Results, Runner, Task

SLOWNESS = 100
PERF = ("perf", "stat", "-e", "instructions:u", "-x,")
CALLGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null")


@cache
def way() -> str:
    """Return how instructions are counted on this machine: "perf", "callgrind", or "" if neither works."""
    if shutil.which("perf"):
        said = subprocess.run([*PERF, "true"], capture_output=True, text=True, check=False).stderr
        if re.search(r"^\d+,", said, re.MULTILINE):
            return "perf"
    return "callgrind" if shutil.which("valgrind") and shutil.which("callgrind_control") else ""


def count(results: Results, task: Task, names: list[str]) -> None:
    """Count a lap of each contender, and add instructions per call to the results."""
    for name in names:
        if name in results.failed:
            continue
        try:
            counted = {"perf": _by_perf, "callgrind": _by_callgrind}[way()](task.command(name))
        except ContenderError as error:
            results.failed[name] = f"while its instructions were counted: {error}"
        else:
            results.instructions[name] = counted / task.calls


def _by_callgrind(command: list[str]) -> float:
    with tempfile.NamedTemporaryFile("r", suffix=".callgrind") as log:
        environment = {**os.environ, "PYTHONHASHSEED": "0", "BENCHMARK_SLOWED": str(SLOWNESS)}
        with Runner([*CALLGRIND, f"--log-file={log.name}", *command], environment) as runner:
            pid = str(runner.process.pid)
            _counted_lap(runner, lambda: _control("on", pid), lambda: _control("off", pid))
        return _number(r"Collected : (\d+)", log.name)


def _control(state: str, pid: str) -> None:
    ended = subprocess.run(["callgrind_control", "-i", state, pid], capture_output=True, text=True, check=False)
    if "OK" not in ended.stdout:
        raise ContenderError(f"callgrind_control says {ended.stdout}{ended.stderr}")


def _by_perf(command: list[str]) -> float:
    once, twice = (_perf_of_laps(command, laps) for laps in (1, 2))
    return twice - once


def _perf_of_laps(command: list[str], laps: int) -> float:
    with tempfile.NamedTemporaryFile("r", suffix=".perf") as log:
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        with Runner([*PERF, "-o", log.name, "--", *command], environment) as runner:
            runner.hear()
            for _ in range(laps):
                runner.lap()
        return _number(r"^(\d+),", log.name)


def _number(pattern: str, log: str) -> float:
    said = Path(log).read_text()
    found = re.search(pattern, said, re.MULTILINE)
    if found is None:
        raise ContenderError(f"the counter says {said}")
    return float(found[1])


def _counted_lap(runner: Runner, begin: Callable[[], None], end: Callable[[], None]) -> None:
    runner.hear()
    runner.lap()
    runner.ask("counted lap")
    _expect(runner, "ready")
    begin()
    runner.ask("")
    _expect(runner, "over")
    end()
    runner.ask("")
    runner.hear()


def _expect(runner: Runner, word: str) -> None:
    if (heard := runner.hear()) != word:
        raise ContenderError(f"it says {heard!r} instead of {word!r}")
