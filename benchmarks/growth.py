"""How the time to read hostile texts grows with their length: `python -m benchmarks.growth`.

Each text of `tests/poison/growing.py` is read at a length and at four times that length, in turn, several times. The
fastest time of each counts. Linear work takes four times as long, quadratic work sixteen times. The tests count
executed lines of Python instead, which are free of noise. The time within regular expressions is only measured here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from tests.poison.growing import WORKS, work

SHORT = 20_000
SQUARE = 10.0
"""From this ratio on, growth does not count as linear."""
NOTHING = 0.02
"""Below this many CPU seconds, growth cannot be distinguished from noise."""


def seconds(act: Callable[[], None]) -> float:
    """Return the CPU time of an act."""
    began = time.process_time()
    act()
    return time.process_time() - began


def growths(tries: int) -> Iterator[tuple[float, float, str]]:
    """Return the ratio for each text, the seconds of the long text, and the verdict."""
    for kind, (_, texts) in WORKS.items():
        for name in texts:
            short, long = work(kind, name, SHORT), work(kind, name, 4 * SHORT)
            taken = [(seconds(short), seconds(long)) for _ in range(tries)]
            sooner, later = (min(column) for column in zip(*taken, strict=True))
            yield (later / sooner if later >= NOTHING else 0.0), later, f"{kind}: {name}"


def main() -> int:
    """Print the table, the worst text first. Return 1 if the time of a text grows with the square."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--tries", type=int, default=3)
    found = sorted(growths(parser.parse_args().tries), reverse=True)
    print("| text | four times as long takes | seconds |", "|---|---:|---:|", sep="\n")
    for ratio, taken, name in found:
        print(f"| `{name}` | {f'{ratio:.1f} x' if ratio else 'next to nothing'} | {taken:.3f} |")
    return int(any(ratio > SQUARE for ratio, _, _ in found))


if __name__ == "__main__":
    sys.exit(main())
