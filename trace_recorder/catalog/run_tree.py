"""Arranges the rows of a list as a tree: runs that belong together are below one another.

A run is below the run that it continues or repeats, or below its parent. The list says which of its rows that is. A run
that is below no such run is below the first row of its session. The time and the memory are linear in the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple


class TreePlace(NamedTuple):
    """The place of a row in the tree. `row` is its position in the list, and `depth` is 0 for a root."""

    row: int
    depth: int


def run_tree(uppers: Sequence[int | None], sessions: Sequence[object]) -> list[TreePlace]:
    """Return the rows in the order of the tree.

    `uppers` has for each row the position of the row that it is below, or None. `sessions` has the session of each row.
    A tree is where the first of its rows was in the list. If rows are below each other in a circle, one of them is a
    root.
    """
    above = _with_sessions(uppers, sessions)
    roots = _roots(above)
    below: dict[int, list[int]] = defaultdict(list)
    for row, upper in enumerate(above):
        if upper is not None:
            below[upper].append(row)
    branches = []
    waiting = [TreePlace(root, 0) for root in reversed(roots)]
    while waiting:
        branch = waiting.pop()
        branches.append(branch)
        waiting += [TreePlace(row, branch.depth + 1) for row in reversed(below[branch.row])]
    return branches


def _with_sessions(uppers: Sequence[int | None], sessions: Sequence[object]) -> list[int | None]:
    """Return the row that each row is below: `uppers`, or else the first row of the same session."""
    first: dict[str, int] = {}
    above: list[int | None] = []
    for row, (upper, session) in enumerate(zip(uppers, sessions, strict=True)):
        if upper is not None and upper != row:
            above.append(upper)
        elif isinstance(session, str) and first.setdefault(session, row) != row:
            above.append(first[session])
        else:
            above.append(None)
    return above


def _roots(above: list[int | None]) -> list[int]:
    """Return the roots, each at the place of the first row of its tree. Open each circle in `above`."""
    root_of: dict[int, int] = {}
    for row in range(len(above)):
        path: dict[int, None] = {}
        place = row
        while place not in root_of:
            path[place] = None
            upper = above[place]
            if upper in path:
                upper = above[place] = None
            if upper is None:
                root_of[place] = place
            else:
                place = upper
        for passed in path:
            root_of[passed] = root_of[place]
    return [*dict.fromkeys(root_of[row] for row in range(len(above)))]
