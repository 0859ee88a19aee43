"""Measure reading, compared to `json.loads` of the lines of journals: `make bench WORKLOADS=read`.

There are four tables. The first has reading in Python: `load`, `load` with every message of every call, the same twice,
and a loop that reads the role and content of each message. Its last three columns are the loop's own share, which any
reader has that gives each call its messages: the same loops over plain lists of plain objects. The second and third
tables have the commands, on one run and on many. With `PEERS=1`, the fourth has other libraries in a separate
environment (`reading_peers.py`). Each figure is the fastest of several tries. Ratios are of CPU, to `json.loads` in the
same run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reading_commands import COMMANDS, first_page, many_runs, one_run, starts
from benchmarks.reading_runs import cpu_seconds, lines_of, parse, record
from benchmarks.rounds import ROOT
from trace_recorder import load

READERS_PYTHON = ROOT / ".venv-readers" / "bin" / "python"


def read_messages(path: Path, times: int) -> int:
    """Load a run, and read every message of every call. Return their number."""
    trajectory = load(path)
    return sum(len(list(one.input_messages)) for _ in range(times) for one in trajectory.llm_interactions)


@dataclass(slots=True)
class PlainMessage:
    """The plainest possible message."""

    role: str
    content: object


def copy_lists(lists: Iterable[Sequence[object]]) -> int:
    """Read every message of lists, as `read_messages` does."""
    return sum(len(list(messages)) for messages in lists)


def loop(lists: Iterable[Iterable[object]]) -> None:
    """Iterate over every message of every list."""
    for messages in lists:
        for _ in messages:
            pass


def look(lists: Iterable[Iterable[Any]]) -> None:
    """Iterate over every message of every list, and read its role and content."""
    for messages in lists:
        for message in messages:
            message.role, message.content  # noqa: B018 - that is what is measured


def ratios(path: Path, tries: int) -> list[float]:
    """Return the ratios of the first table's columns to the time of parsing the lines."""
    shared: dict[int, PlainMessage] = {}
    calls = load(path).llm_interactions
    plain = [
        [shared.setdefault(id(message), PlainMessage(message.role, message.content)) for message in c.input_messages]
        for c in calls
    ]
    lines = lines_of(path)
    acts = (
        lambda: parse(lines),
        lambda: load(path),
        lambda: read_messages(path, 1),
        lambda: read_messages(path, 2),
        lambda: look(call.input_messages for call in load(path).llm_interactions),
        lambda: copy_lists(plain),
        lambda: loop(plain),
        lambda: look(plain),
    )
    rounds = [[cpu_seconds(act) for act in acts] for _ in range(tries)]  # in turns, because the machine's speed changes
    parsed, *others = (min(seconds) for seconds in zip(*rounds, strict=True))
    return [seconds / parsed for seconds in others]


def in_python(directory: Path, options: argparse.Namespace) -> Iterable[list[str]]:
    """Return the rows of two runs: many tiny calls, and turns of a conversation of 4 KB each."""
    runs = (
        (f"{options.calls} tiny calls", options.calls, 20, False),
        (f"{options.turns} turns of 4 KB", options.turns, 4000, True),
    )
    for name, turns, size, growing in runs:
        path = directory / f"{turns}_{size}.json"
        record(path, turns, size, growing=growing)
        yield [name, *(f"{ratio:.2f} x" for ratio in ratios(path, options.tries))]


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, each row as soon as it is measured."""
    print(f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}", sep="\n")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def peers(directory: Path, options: argparse.Namespace) -> None:
    """Print the table of the peers, which a separate environment makes."""
    if not READERS_PYTHON.exists():
        print("inspect_ai and llm are not installed: `make bench WORKLOADS=read PEERS=1` does that")
        return
    path = directory / f"{options.turns}_4000.json"
    command = [READERS_PYTHON, "-m", "benchmarks.reading_peers", path, str(options.tries)]
    subprocess.run(command, cwd=ROOT, check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2000, help="tiny calls (2000)")
    parser.add_argument("--turns", type=int, default=300, help="turns of 4 KB (300)")
    parser.add_argument("--growth", type=int, nargs="*", default=[250, 1000], help="other numbers of turns (250 1000)")
    parser.add_argument("--runs", type=int, nargs="*", default=[1000, 10_000], help="runs to list (1000 10000)")
    parser.add_argument("--processes", type=int, default=3, help="tries of each command (3)")
    parser.add_argument("--commands", nargs="*", default=COMMANDS, help="commands on one run (all)")
    parser.add_argument(
        "--pages", type=int, nargs="*", default=[4000, 100_000], help="characters of a turn that `show` pages"
    )
    options = parser.parse_args(arguments)
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}\n", flush=True)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        ours = ["`load`", "and every message", "and again", "and role and content of each"]
        alone = ["plain lists: copied", "looped over", "and role and content"]
        table(["run", *ours, *alone], in_python(directory, options))
        peers(directory, options)
        table(["start", "CPU"], starts(directory, 3 * options.processes))
        grown = [title for number in options.growth for title in (f"{number:,} turns", "ns/B")]
        titles = [f"{options.turns} turns", "start", "beyond", "ns/B", "of json.loads", "memory", "written", *grown]
        table(titles, one_run(directory, options.commands, [options.turns, *options.growth], options.processes))
        rows = first_page(directory, options.pages, options.processes)
        table(["`show` of 300 turns", "first step", "all", "share"], rows)
        titles = ["many runs", "runs", "start", "beyond", "of json.loads", "clock", "memory"]
        table(titles, many_runs(directory, options.runs, options.processes))
    print(f"load of the machine after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
