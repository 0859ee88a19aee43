"""The runs that the tools answer about. The directory is fixed when the server starts, and is only read.

A run is found by its id in the list of runs, and no argument of a tool is ever a path. A run that is a link out of the
directory is refused, also if it became one after it was listed. The files of other tools are not read, because their
readers look for further files around them (`formats/recognition.py`).
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.planning import Plan, with_parts
from trace_recorder.catalog.query import Term, condition_of
from trace_recorder.catalog.value_tables import KeptPart, KeptParts
from trace_recorder.formats.any_file import load
from trace_recorder.guard import try_call
from trace_recorder.values.control_characters import has_control_characters
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.followed_runs import ServedFiles, why_unreadable
from trace_recorder.viewer.open_runs import OpenRun, OpenRuns
from trace_recorder.viewer.parameters import NotFoundError
from trace_recorder.viewer.runs import RunList

MAX_OPEN_RUNS = 3
"""At most this many runs stay in memory."""
MAX_ID = 300
"""A run with a longer name has a digest as its id."""


class WorkTime:
    """The time of one call: it is over after some seconds, or when the server ends."""

    def __init__(self, seconds: float, server_ends: threading.Event) -> None:
        self._end = time.monotonic() + seconds
        self._server_ends = server_ends

    @property
    def seconds(self) -> float:
        """The remaining seconds."""
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the call has to stop."""
        return self._server_ends.is_set() or time.monotonic() >= self._end


class FoundRun(NamedTuple):
    """A run that may match a query: its id, its path, and the stored parts that the caller asked for."""

    identity: str
    path: Path
    kept: KeptParts


class ServedRuns:
    """The runs in and below one directory. Several threads may use it. Raises OSError for a missing directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve(strict=True)
        os.scandir(self.directory).close()  # raises OSError if it cannot be read, or is a file
        self.list = RunList(self.directory)
        self._files = ServedFiles((self.directory,))
        self._open = OpenRuns(MAX_OPEN_RUNS)

    def opened(self, identity: str) -> OpenRun:
        """Return a run in its present state. Raises NotFoundError, OSError, and the exceptions of `load`."""
        name = identity
        if identity.startswith(_DIGEST):
            names = (name for name, _ in self._files.states() if identity_of(name) == identity)
            name = next(names, identity)
        path = self.list.path_of(name)
        if path is None:
            raise NotFoundError(f"there is no run {identity!r}: list_runs returns the ids of the runs")
        return self._open.open(path, name)

    def found(self, terms: tuple[Term, ...], parts: Sequence[KeptPart] = ()) -> Iterator[FoundRun]:
        """Yield the runs that may match all terms. A run with kept parts matches. Any other run has to be read."""
        start = len(str(self.directory / "_")) - 1
        for run, kept in with_parts(Plan(self.directory, condition_of(terms)), parts):
            name = run.file[start:].replace(os.sep, "/")
            path = self._files.path_of(name)
            if path is not None:
                yield FoundRun(identity_of(name), path, kept or {})


class MatchingRunReader:
    """Reads the runs that match the terms of a query, one after another.

    `failures` has the runs that cannot be read, and why.
    """

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._matches = Matcher(terms)
        self.failures: dict[str, str] = {}

    def read(self, run: FoundRun) -> Trajectory | None:
        """Return a run, or None if it does not match, or cannot be read."""

        def note(error: Exception) -> None:
            self.failures[run.identity] = why_unreadable(run.path, error)

        return try_call(self._read, note, run)

    def _read(self, run: FoundRun) -> Trajectory | None:
        trajectory = load(run.path)
        if self._matches(trajectory):
            return trajectory
        return None


_DIGEST = "~"


def identity_of(name: str) -> str:
    """Return the id of the run with this name.

    The id is the name. A name that is long, that is not UTF-8, or that has control characters, has a digest as its id.
    """
    if len(name) <= MAX_ID and not name.startswith(_DIGEST) and not has_control_characters(name):
        return name
    return _DIGEST + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
