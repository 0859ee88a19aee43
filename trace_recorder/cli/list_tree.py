"""Forks and replays below their runs, as `list` draws them if runs are in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from trace_recorder.catalog.rows import Row

BRANCH = "└ "


@dataclass(frozen=True, slots=True)
class Branch:
    """A run and its place in the tree: `indent` is drawn before its file.

    `origin` is the call that a fork continues from, with the file if that is not the run above it.
    """

    row: Row
    indent: str = ""
    origin: str = ""


def as_list(rows: Sequence[Row]) -> list[Branch]:
    """Return the rows as they are."""
    return [Branch(row, origin=row.forked_from or "") for row in rows]


def as_tree(rows: Sequence[Row]) -> list[Branch]:
    """Return the rows, with each fork or replay after its run and indented. Otherwise the order stays."""
    by_name = {_name(row.file): row for row in rows}
    forks: dict[str, list[Row]] = {}
    roots = []
    for row in rows:
        origin = _origin(row)
        if origin in by_name and by_name[origin] is not row:
            forks.setdefault(origin, []).append(row)
        else:
            roots.append(row)
    drawn = [*_drawn(roots, forks)]
    files = {branch.row.file for branch in drawn}
    return drawn + as_list([row for row in rows if row.file not in files])  # two files may name each other


def _drawn(roots: Sequence[Row], forks: dict[str, list[Row]]) -> Iterator[Branch]:
    waiting = [(row, 0) for row in reversed(roots)]
    while waiting:
        row, depth = waiting.pop()
        origin = row.forked_from or ""
        call = origin.rpartition(" ")[2]
        yield Branch(row, "  " * (depth - 1) + BRANCH * (depth > 0), call if depth else origin)
        waiting += [(fork, depth + 1) for fork in reversed(forks.get(_name(row.file), []))]


def _origin(row: Row) -> str:
    """Return the name of the run that a fork continues or a replay repeats, which is in the same directory."""
    file = (row.forked_from or "").rpartition(" ")[0] or row.replay_of or ""
    return _name(str(PurePath(row.file).with_name(PurePath(file).name))) if PurePath(file).name else ""


def _name(file: str) -> str:
    """Return the path of a run without the suffix, which both of its files share."""
    return file.removesuffix(".jsonl").removesuffix(".json")
