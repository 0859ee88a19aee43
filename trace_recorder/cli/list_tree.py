"""Forks below the runs that they continue, as `list` draws them where runs are in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from trace_recorder.cli.list_runs import Row

BRANCH = "└ "


def as_tree(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, each fork after the run that it continues and indented; the order is else that of the rows."""
    by_name = {_name(row.file): row for row in rows}
    forks: dict[str, list[Row]] = {}
    roots = []
    for row in rows:
        origin = _origin(row)
        if origin in by_name and by_name[origin] is not row:
            forks.setdefault(origin, []).append(row)
        else:
            roots.append(row)
    if not forks:
        return [*rows]
    shown = [*_drawn(roots, forks)]
    drawn = {row.file for row, _ in shown}
    shown += [(row, 0) for row in rows if row.file not in drawn]  # files that name each other
    return [replace(row, file="  " * (depth - 1) + BRANCH * (depth > 0) + row.file) for row, depth in shown]


def _drawn(roots: Sequence[Row], forks: dict[str, list[Row]]) -> Iterator[tuple[Row, int]]:
    waiting = [(row, 0) for row in reversed(roots)]
    while waiting:
        row, depth = waiting.pop()
        yield row, depth
        waiting += [(fork, depth + 1) for fork in reversed(forks.get(_name(row.file), []))]


def _origin(row: Row) -> str:
    """Return the name of the run that a fork continues, which is in the same directory."""
    file = (row.forked_from or "").rpartition(" ")[0]
    return _name(str(PurePath(row.file).with_name(PurePath(file).name))) if PurePath(file).name else ""


def _name(file: str) -> str:
    """Return what the two files of a run have in common."""
    return file.removesuffix(".jsonl").removesuffix(".json")
