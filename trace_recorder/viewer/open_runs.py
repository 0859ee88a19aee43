"""The runs that clients have opened. A run is read once. Afterwards, only the records that were added are read.

A run with a journal is followed record by record. A document without a journal is loaded again if it has changed. The
runs that were opened last stay in memory. Any other run is read again when it is opened, and gets a new version.
"""

from __future__ import annotations

import threading
from pathlib import Path
from secrets import token_hex

from trace_recorder.formats.any_file import load
from trace_recorder.reading.growing_journal import GrowingJournal, ReplacedError
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.parts import Json

MAX_OPEN_RUNS = 8
"""At most this many runs stay in memory."""


class OpenRun:
    """One run, as the last `refresh` read it. A thread must hold `lock` while it uses the answers."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.path = path
        self.lock = threading.RLock()
        self.answers: RunAnswers
        self._epoch = ""
        self._journal: GrowingJournal | None = None
        self._state: tuple[int, int] | None = None

    @property
    def version(self) -> str:
        """The version of the answers, as the interface states it."""
        return f"{self._epoch}.{self.answers.version}"

    def state(self) -> tuple[str, Trajectory]:
        """Return the version of the answers, and the run in that version. Later versions do not change it."""
        with self.lock:
            return self.version, self.answers.trajectory

    def refresh(self) -> None:
        """Read the run, or the records that were added. Raises OSError, and the exceptions of `load`."""
        with self.lock:
            if not self._epoch or journal_path_for(self.path).is_file() is (self._journal is None):
                self._begin()
            elif self._journal is None:
                if self._document_state() != self._state:
                    self._begin()
            else:
                try:
                    if self._journal.read_more():
                        self.answers.update(self._journal.trajectory())
                except ReplacedError:
                    self._begin()

    def _begin(self) -> None:
        self._epoch = ""  # if the run cannot be read now, the next `refresh` reads it from its beginning
        path = journal_path_for(self.path)
        self._journal = GrowingJournal(path) if path.is_file() else None
        self._state = None
        if self._journal is not None:
            self._journal.read_more()
            self.answers = RunAnswers(self._journal.trajectory())
        else:
            self._state = self._document_state()
            self.answers = RunAnswers(load(self.path))
        self._epoch = token_hex(4)

    def _document_state(self) -> tuple[int, int]:
        state = self.path.stat()
        return state.st_mtime_ns, state.st_size

    @property
    def is_amendable(self) -> bool:
        """Whether rewards and annotations can be appended: the run has ended and has a journal."""
        return self._journal is not None and self._journal.status not in {"running", "unknown"}

    def outline(self) -> Json:
        """Return the outline of the run."""
        return {"version": self.version, "id": self.name, **self.answers.outline()}

    def since(self, version: str) -> Json:
        """Return the changes since a version, or the whole outline if the version is not known."""
        epoch, _, number = version.partition(".")
        is_known = epoch == self._epoch and number.isdecimal() and len(number) < 10
        if not is_known or int(number) > self.answers.version:
            return {**self.outline(), "reset": True}
        return {"version": self.version, "id": self.name, "reset": False, **self.answers.since(int(number))}


class OpenRuns:
    """The runs that were opened last. Several threads may open runs. While a run is read, others can be opened."""

    def __init__(self, most: int = MAX_OPEN_RUNS) -> None:
        self._most = most
        self._lock = threading.RLock()
        self._runs: dict[Path, OpenRun] = {}

    def open(self, path: Path, name: str) -> OpenRun:
        """Return a run in its present state. Raises OSError, and the exceptions of `load`."""
        with self._lock:
            run = self._runs.pop(path, None) or OpenRun(path, name)
            self._runs[path] = run
            if len(self._runs) > self._most:
                del self._runs[next(iter(self._runs))]
        run.refresh()
        return run
