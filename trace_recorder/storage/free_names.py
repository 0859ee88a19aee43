"""Finds a name with a number that no file has: run.json, run.1.json, run.2.json …"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path


def numbered_path(document: Path, number: int) -> Path:
    """Return the path with a number before its suffix, or the path itself if the number is 0."""
    if number == 0:
        return document
    return document.with_name(f"{document.stem}.{number}{document.suffix}")


def free_paths(document: Path, is_taken: Callable[[Path], bool], *, first: int = 0) -> Iterator[Path]:
    """Yield a free numbered path, and then the paths with the following numbers.

    `first` is the smallest number. The caller creates the file exclusively, and takes the next path if another process
    was faster. The number of files that are looked at grows with the logarithm of the taken numbers: a search doubles
    the number until a path is free, and then halves the distance to a taken one. If runs were removed, the path may be
    one of theirs.
    """
    taken, free, step = first - 1, first, 1
    while is_taken(numbered_path(document, free)):
        taken, free, step = free, free + step, 2 * step
    while free - taken > 1:
        middle = (taken + free) // 2
        if is_taken(numbered_path(document, middle)):
            taken = middle
        else:
            free = middle
    return (numbered_path(document, number) for number in itertools.count(free))
