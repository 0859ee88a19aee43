"""Which spans of a run were delivered to which target: a small file next to the journal, `<run>.delivered`.

Each line is JSON: a target and the ids of the spans that it accepted. Lines are only appended, so noting a delivery
costs the same however long a run is. A damaged line is skipped, and its spans are sent again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from trace_recorder.storage.paths import journal_path_for

SUFFIX = ".delivered"


class Delivered:
    """The ids that one target accepted of one run."""

    def __init__(self, run: Path, target: str) -> None:
        self.path = journal_path_for(run).with_suffix(SUFFIX)
        self._target = target
        self.ids: set[str] = set()

    def read(self) -> None:
        """Read the ids of delivered spans. Raises OSError if the file exists and cannot be read."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            self.ids.update(_ids_in(line, self._target))

    def add(self, ids: Iterable[str]) -> None:
        """Note delivered spans. Raises OSError."""
        new = [*ids]
        self.ids.update(new)
        line = json.dumps({"target": self._target, "ids": new}) + "\n"
        with open(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:  # noqa: PTH123 - its mode
            if file.tell() and not self._ends_with_line():
                file.write(b"\n")
            file.write(line.encode())

    def _ends_with_line(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def _ids_in(line: bytes, target: str) -> list[str]:
    try:
        noted = json.loads(line)
    except ValueError:
        return []
    if not isinstance(noted, dict) or noted.get("target") != target or not isinstance(noted.get("ids"), list):
        return []
    return [one for one in noted["ids"] if isinstance(one, str)]
