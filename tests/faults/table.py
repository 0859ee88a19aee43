"""The long run: thousands of kills, and a table of their results, with a row for each variant and way of dying.

Each kill is seeded by its number, so that a kill with problems can be repeated alone (`--only NUMBER`), although its
moment also depends on the machine. `--keep` names the directory for files of kills with problems.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.faults.answering import answering
from tests.faults.judging import Verdict, judge
from tests.faults.killing import PAIRS, STALLING, Kill, Zygote

COLUMNS = ("kills", "reported", "lost", "no JSON", "in flight", "shown", "in snapshot", "torn", "large", "problems")
STALLING_SHARE = 20
"""One in this many kills is of a stalling stream, which takes seconds."""


def kills(number: int, seed: int, variants: str | None = None) -> Iterator[Kill]:
    """Yield the kills of a run: every variant, or some variants with commas between them, dies in every way in turn."""
    chosen = [pair for pair in PAIRS if variants is None or pair[0] in variants.split(",")]
    pairs, stalling = itertools.cycle(chosen), itertools.cycle(STALLING)
    for at in range(number):
        stalls = variants is None and at % STALLING_SHARE == 0
        yield Kill.random(Random(f"{seed} {at}"), *next(stalling if stalls else pairs))


class Table:
    """Sums of verdicts."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[int]] = {}

    def add(self, kill: Kill, verdict: Verdict) -> None:
        """Count one verdict."""
        counted = (
            *(1, verdict.reported, len(verdict.lost), len(verdict.unparsable), verdict.in_flight, verdict.shown),
            *(verdict.in_snapshot, verdict.torn, verdict.large, bool(verdict.problems)),
        )
        row = self._rows.setdefault((kill.variant, kill.dying), [0] * len(COLUMNS))
        row[:] = [one + int(other) for one, other in zip(row, counted, strict=True)]

    def lines(self) -> Iterator[str]:
        """Return the table as Markdown."""
        total = [sum(column) for column in zip(*self._rows.values(), strict=True)]
        yield "| variant | dying | " + " | ".join(COLUMNS) + " |"
        yield "|---|---|" + "---:|" * len(COLUMNS)
        for (variant, dying), row in [*sorted(self._rows.items()), (("all", ""), total)]:
            yield f"| {variant} | {dying} | " + " | ".join(map(str, row)) + " |"


def run(arguments: argparse.Namespace, keep: Path) -> int:
    """Kill, judge and count. Return how many kills left a problem."""
    table, bad, began = Table(), 0, time.monotonic()
    with answering() as provider, Zygote(provider) as zygote:
        for number, kill in enumerate(kills(arguments.kills, arguments.seed, arguments.variants)):
            if arguments.only not in {None, number}:
                continue
            directory = keep / f"agent-{number}" / "run"
            directory.mkdir(parents=True)
            death = zygote.kill(kill, directory)
            verdict = judge(kill, death, directory, timed=True)
            table.add(kill, verdict)
            if verdict.problems:
                bad += 1
                print(f"{number}: {kill}", *verdict.problems[:5], sep="\n    ", file=sys.stderr, flush=True)
            else:
                shutil.rmtree(directory.parent)
    print(*table.lines(), sep="\n")
    print(f"{time.monotonic() - began:.0f} seconds; {bad} kills with problems, files in {keep}")
    return bad


def main() -> None:
    """Run the command line. Exit with 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="scripts/kill")
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", help="the kinds of agents, with commas between them")
    parser.add_argument("--only", type=int, help="one kill alone, by its number")
    parser.add_argument("--keep", type=Path, help="where files of kills with problems stay")
    arguments = parser.parse_args()
    keep = arguments.keep or Path(tempfile.mkdtemp(prefix="kills-"))
    sys.exit(1 if run(arguments, keep) else 0)


if __name__ == "__main__":
    main()
