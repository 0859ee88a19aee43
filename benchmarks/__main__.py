"""Measure the cost of recording: one table of ratios within one run. `make bench`, or `python -m benchmarks --help`.

This process starts the servers and the contenders, and reads their output. It imports no SDK and no recorder.
`docs/benchmarks.md` says how to read the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from benchmarks import instructions, table
from benchmarks.peers import PEERS
from benchmarks.rounds import PEERS_PYTHON, Results, Task, run_round
from benchmarks.server import serving
from benchmarks.suite import BASE, CONTENDERS, PEERS_BASE, WORKLOADS
from benchmarks.workloads import Conversation

COUNTED = (BASE, "control", "ours", "ours-unmasked", "full-lines")
"""The contenders whose instructions are counted, which is slow."""
READ = "read"
"""The workload for reading, which has its own tables (`reading.py`) and no contenders."""
QUICK_LEAVES_OUT = ("turns-200", "agents-mb", "long")


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What recording costs, as one table.")
    parser.add_argument("--rounds", type=int, default=5, help="each with fresh processes (5)")
    parser.add_argument("--laps", type=int, help="of each process in a round (each workload has a number of its own)")
    parser.add_argument("--workloads", type=_names([*WORKLOADS, READ]), help=f"some of {','.join(WORKLOADS)},{READ}")
    parser.add_argument("--contenders", type=_names(CONTENDERS), help=f"some of {','.join(CONTENDERS)}")
    parser.add_argument("--peers", action="store_true", help="recorders by others too, from .venv-peers")
    parser.add_argument("--quick", action="store_true", help="one round of one short lap, the long workloads left out")
    parser.add_argument("--no-instructions", action="store_true", help="do not count instructions")
    parser.add_argument("--json", type=Path, help="write every lap's figures to this file too")
    return parser.parse_args(arguments)


def _names(known: Sequence[str] | dict[str, object]):  # noqa: ANN202 - argparse's own
    def names(said: str) -> list[str]:
        chosen = said.split(",")
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen

    return names


def _chosen(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the workloads and the contenders to run. The unrecorded contenders for comparison are always included."""
    workloads = options.workloads or [name for name in WORKLOADS if not options.quick or name not in QUICK_LEAVES_OUT]
    workloads = [name for name in workloads if name != READ]
    names = options.contenders or [name for name in CONTENDERS if options.peers or name not in PEERS]
    bases = _bases([BASE, *names])
    return workloads, [*bases, *(name for name in names if name not in bases)]


def _bases(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(PEERS_BASE if CONTENDERS[name].packages else BASE for name in names))


def _measure(workload: Conversation, names: list[str], options: argparse.Namespace, urls: tuple[str, str]) -> Results:
    results = Results()
    task = Task(workload.name, workload.calls, *urls)
    entering = [name for name in names if name not in workload.excludes]
    heavy = [one for one in entering if CONTENDERS[one].heavy and not options.quick]
    light = [one for one in entering if one not in heavy]
    for number in range(min(options.rounds, workload.rounds)):
        _say(f"{workload.name}: round {number + 1}")
        run_round(results, task, light, options.laps or workload.laps, number)
    if heavy:
        _say(f"{workload.name}: {', '.join(heavy)}")
        run_round(results, task, [*_bases(heavy), *heavy], 1, 0)
    if workload.counted and not options.no_instructions and instructions.way():
        _say(f"{workload.name}: instructions, by {instructions.way()}")
        instructions.count(results, dataclasses.replace(task, calls=workload.counted), _counted(entering))
    return results


def _counted(names: list[str]) -> list[str]:
    return [name for name in names if name in COUNTED]


def _read(options: argparse.Namespace) -> None:
    few = (
        ["--tries", "1", "--calls", "100", "--turns", "20", "--growth", "40", "--runs", "50", "--processes", "1"]
        if options.quick
        else []
    )
    subprocess.run([sys.executable, "-m", "benchmarks.reading", *few], check=True)


def _say(what: str) -> None:
    print(f"{datetime.now().astimezone():%H:%M:%S}  {what}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks, and print the table."""
    options = _arguments(arguments)
    if options.workloads and READ in options.workloads:
        _read(options)
    workloads, names = _chosen(options)
    if not workloads:
        return
    if any(CONTENDERS[name].packages for name in names) and not PEERS_PYTHON.exists():
        sys.exit("the peers have an environment of their own: `make bench PEERS=1` creates it")
    comparisons = {}
    print(*table.heading(), sep="\n", flush=True)
    with serving() as url, serving() as sink:
        for name in workloads:
            workload = WORKLOADS[name]
            if options.quick:
                workload = dataclasses.replace(workload, calls=workload.quick, laps=1, rounds=1, counted=0)
            results = _measure(workload, names, options, (url, f"{sink}/sink"))
            comparisons[name] = workload, results
            print(*table.workload_lines(name, workload, results, names), sep="\n", flush=True)
    print(*table.goal_lines(comparisons), sep="\n")
    versions = next((results.versions[BASE] for _, results in comparisons.values() if BASE in results.versions), {})
    said = ", ".join(f"{package} {version}" for package, version in versions.items())
    print(f"Python {platform.python_version()}, {said}, {platform.platform()}, {os.cpu_count()} processors")
    if options.json:
        options.json.write_text(
            json.dumps({name: dataclasses.asdict(one) for name, (_, one) in comparisons.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
