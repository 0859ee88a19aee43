"""How the time to read hostile texts grows with their length: `python -m benchmarks.growth`.

Each text of `tests/poison/growing.py` is read at a length and at four times that, in turn, several times; of each, the
quickest counts. What grows with the length takes four times as long, a square sixteen. The tests count lines of Python
instead, which no noise reaches; what regular expressions do shows here alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from tests.poison.growing import WORKS, work

SHORT = 20_000
SQUARE = 10.0
"""From this ratio on it is no longer taken for linear."""
NOTHING = 0.02
"""Seconds of the processor within which no growth is told from noise."""


def seconds(act: Callable[[], None]) -> float:
    """The time of the processor that something takes."""
    began = time.process_time()
    act()
    return time.process_time() - began


def growths(tries: int) -> Iterator[tuple[float, float, str]]:
    """The ratio for each text, the seconds of the long one, and which it is."""
    for kind, (_, texts) in WORKS.items():
        for name in texts:
            short, long = work(kind, name, SHORT), work(kind, name, 4 * SHORT)
            taken = [(seconds(short), seconds(long)) for _ in range(tries)]
            sooner, later = (min(column) for column in zip(*taken, strict=True))
            yield (later / sooner if later >= NOTHING else 0.0), later, f"{kind}: {name}"


def main() -> int:
    """Print the table, the worst first; return 1 where something grows with the square."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--tries", type=int, default=3)
    found = sorted(growths(parser.parse_args().tries), reverse=True)
    print("| text | four times as long takes | seconds |", "|---|---:|---:|", sep="\n")
    for ratio, taken, name in found:
        print(f"| `{name}` | {f'{ratio:.1f} x' if ratio else 'next to nothing'} | {taken:.3f} |")
    return int(any(ratio > SQUARE for ratio, _, _ in found))


if __name__ == "__main__":
    sys.exit(main())
