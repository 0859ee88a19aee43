"""What every check does: go through the runs, have each read, count who was refused. It needs no SDK."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from trace_recorder import Trajectory, load


def check(reader: str, read: Callable[[str, Trajectory], int]) -> None:
    """Have `read` take every run of the directory that the command names; it returns how many items it read."""
    files = {journal.with_suffix(""): journal for journal in Path(sys.argv[1]).rglob("*.jsonl")}
    files |= {document.with_suffix(""): document for document in Path(sys.argv[1]).rglob("*.json")}
    accepted = items = 0
    for name, path in sorted(files.items()):
        try:
            items += read(name.name, load(path))
            accepted += 1
        except Exception:  # noqa: BLE001 - whatever a reader raises is the finding
            print(f"REFUSED {path.name}: {traceback.format_exc(limit=-2)}")
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    print(f"{reader} {version(reader)} ({python}): {accepted} of {len(files)} runs accepted, {items} items")
    sys.exit(accepted != len(files) or not files)
