"""Follows the runs of a directory, or of some files in a directory. Only runs whose files changed are read again.

The list has the same runs as the command `list` (`storage/run_files.py`). The name of a run is its path relative to the
directory. If a file cannot be read, the list has the reason. A link that leads out of the directory is never served,
even if a file became such a link after its run was listed.

`look` compares the sizes and times of all files with those of the last look. Then `read_one` reads one changed run at a
time, so a caller can stop after any run. Only one thread at a time may call these two. Every thread must hold `lock`
while it uses the attributes.

The costs of a run are the sum of the costs of its calls (`figures/cost.py`). For the costs, all calls have to be read,
while a row of the list needs only the ends of the run's files. So costs are read run by run, the newest runs first.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from trace_recorder.catalog.costs_in_files import run_costs_or_unknown
from trace_recorder.catalog.matching import RunState
from trace_recorder.catalog.planning import known_runs
from trace_recorder.catalog.query import Term
from trace_recorder.catalog.rows import costs_json, summary_of
from trace_recorder.catalog.value_tables import FilesState, KeptPart
from trace_recorder.errors import TraceRecorderError
from trace_recorder.figures.cost import RunCosts
from trace_recorder.guard import try_call
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.run_files import NO_FILE, FileState, run_files
from trace_recorder.viewer.parts import Json
from trace_recorder.viewer.run_rows import RunRows


class ServedFiles:
    """The runs in and below one directory, or some files of one directory.

    `paths` is one directory, or files of one directory. Raises ValueError for other paths.
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.file_names: set[str] | None = None
        """The names of the served files, or None if all files of the directory are served."""
        if len(paths) == 1 and paths[0].is_dir():
            self.directory = paths[0]
            return
        files = [path.resolve() for path in paths]
        if any(file.is_dir() or file.parent != files[0].parent for file in files):
            raise ValueError("several files are served together if they lie in one directory")
        self.directory = files[0].parent
        self.file_names = {file.name for file in files}

    def states(self) -> Iterator[tuple[str, FilesState]]:
        """Yield the name of each run, and the times and sizes of its files.

        Raises OSError if the directory cannot be read.
        """
        start = len(str(self.directory / "_")) - 1
        for run in run_files(self.directory, recursive=self.file_names is None):
            if self.file_names is None or not self.file_names.isdisjoint(
                (run.path.name, journal_path_for(run.path).name)
            ):
                document, journal = self._state(run.entry), self._state(run.journal)
                if document is not None and journal is not None:
                    yield str(run.path)[start:].replace(os.sep, "/"), FilesState(*document, *journal)

    def state_of(self, name: str) -> FilesState | None:
        """Return the state of a run's files, or None if the run is gone or its path leads out of the directory."""
        path = self.directory / name
        journal = journal_path_for(path)
        document_state = self._state(path)
        journal_state: FileState | None = NO_FILE
        if journal != path and os.path.lexists(journal):
            journal_state = self._state(journal)
        if document_state is None or journal_state is None:
            return None
        return FilesState(*document_state, *journal_state)

    def path_of(self, name: str) -> Path | None:
        """Return the path of a run that was listed, or None if the path now leads out of the directory."""
        path = self.directory / name
        if all(self._is_within(file) for file in (path, journal_path_for(path)) if os.path.lexists(file)):
            return path
        return None

    def _state(self, file: os.DirEntry[str] | Path | None) -> FileState | None:
        """Return the state of a file, or None if the file is gone or its path leads out of the directory."""
        if file is None:
            return NO_FILE
        try:
            if file.is_symlink() and not self._is_within(Path(file)):
                return None
            state = file.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size

    def _is_within(self, file: Path) -> bool:
        """Return whether a path leads to a file in or below the directory."""
        try:
            real = file.resolve(strict=True)
            return real.is_file() and real.is_relative_to(self.directory.resolve())
        except (OSError, RuntimeError):  # the file is gone, or links form a loop (RuntimeError in older Pythons)
            return False


SHARE = 20
"""The viewer waits before the next look at the files.

The pause is this many times the duration of the last look. So looks take at most a twentieth of a core.
"""
SHORT_SECONDS = 0.05
"""If the last look took less time than this, each request looks at the files again."""
_Result = tuple[Json, Json | None] | str
"""The row of a run, and its costs if they are known; or the reason why the run cannot be read."""


class FollowedRuns:
    """The runs of `files`, with their rows.

    `index` is the path of the directory's index, if the index is not in the directory.
    """

    def __init__(self, files: ServedFiles, index: Path | None = None) -> None:
        self.lock = threading.RLock()
        self.rows = RunRows()
        self.runs: dict[str, RunState] = {}
        """The runs that have a row."""
        self.unreadable: dict[str, tuple[FilesState, str]] = {}
        """The runs that cannot be read, and why."""
        self.unread: dict[str, FilesState] = {}
        """The runs that changed and wait to be read, the newest last."""
        self.rechecks: dict[str, FilesState] = {}
        """Runs with the status "running" whose files did not change.

        These runs are read again, because their writers may be gone. The run that was read longest ago is last.
        """
        self.names: list[str] = []
        """The names of all runs at the last look, in the order of `load_all`."""
        self.version = 0
        """A number that grows with each change of a row or of an unreadable file."""
        self._files = files
        self._index = index
        self._index_rows: dict[str, tuple[FilesState, str | None]] | None = None
        """The rows of the index for runs that were not read yet."""
        self._looked_at = 0.0
        self._look_seconds = 0.0
        self._states: dict[str, FilesState] = {}
        """The states that the current look found so far."""
        self._remaining: Iterator[tuple[str, FilesState]] | None = None
        """The files that the first look has not compared yet."""
        self._read_at: dict[str, float] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.runs or name in self.unreadable or name in self.unread

    def is_look_due(self, max_pause: float | None = None) -> bool:
        """Return whether to look again.

        The longer the last look took, the longer is the pause before the next look. The pause is at most `max_pause`
        seconds.
        """
        if self.is_looking or self._index_rows is None:
            return True
        pause = SHARE * self._look_seconds
        if self._look_seconds < SHORT_SECONDS:
            pause = 0.0
        if max_pause is not None:
            pause = min(pause, max_pause)
        return time.monotonic() - self._looked_at >= pause

    @property
    def is_looking(self) -> bool:
        """Whether the first look stopped before its end."""
        return self._remaining is not None

    def look(self, seconds: float = math.inf) -> None:
        """Compare the states of all files with those of the last look. Raises OSError for an unreadable directory.

        The first look stops after `seconds`, and the next call continues it. Until then, only the compared runs are
        known.
        """
        if self._index_rows is None:
            self._index_rows = self.known_to_index("summary")
        began = time.monotonic()
        is_first, remaining, self._remaining = not self._looked_at, self._remaining, None
        if remaining is None:
            remaining, self._states, self._look_seconds = self._files.states(), {}, 0.0
        for name, state in remaining:
            self._states[name] = state
            if is_first and time.monotonic() >= began + seconds:
                self._remaining = remaining
                break
        with self.lock:
            self._compare(self._states)
        self._look_seconds += time.monotonic() - began
        if not self.is_looking:
            self._looked_at, self._states = time.monotonic(), {}

    def _compare(self, states: Mapping[str, FilesState]) -> None:
        """Note which runs are new, changed, running or gone."""
        changed = {name: state for name, state in states.items() if self._is_changed(name, state)}
        running = [name for name in self._running() if name in states and name not in changed]
        running.sort(key=lambda name: self._read_at.get(name, 0.0), reverse=True)
        self.rechecks = {name: states[name] for name in running}
        self.names = [*states]
        self.unread = dict(sorted(changed.items(), key=lambda item: item[1].changed))
        for name in [*(self.runs.keys() - states.keys()), *(self.unreadable.keys() - states.keys())]:
            self._remove(name)

    def look_at_running(self) -> None:
        """Compare the states of the running runs with those of the last look."""
        for name in self._running():
            state = self._files.state_of(name)
            with self.lock:
                if state is None:
                    self._remove(name)
                elif self._is_changed(name, state):
                    self.unread[name] = state

    def read_one(self) -> None:
        """Read the newest changed run, or else the running run that was read longest ago."""
        name, state = (self.unread or self.rechecks).popitem()
        self._read_at[name] = time.monotonic()
        path = self._files.directory / name
        result = try_call(partial(self._row_of, name, state), partial(why_unreadable, path))
        with self.lock:
            if isinstance(result, str):
                self._set_unreadable(name, state, result)
                return
            row, costs = result
            self.unreadable.pop(name, None)
            self.version += self.rows.put(row, costs)
            self.runs[name] = state, row["status"]

    def read_costs(self, name: str) -> None:
        """Read the calls of a run for their costs."""
        path = self._files.path_of(name)
        if path is None:
            costs = costs_json(RunCosts())
        else:
            costs = costs_of(path)
        with self.lock:
            self.rows.put_costs(name, costs)
            self.version += 1

    def known_to_index(self, what: KeptPart, terms: Sequence[Term] = ()) -> dict[str, tuple[FilesState, str | None]]:
        """Return the runs of the index by their names.

        Each has its state, and its kept text if the run matches `terms`.
        """
        known = known_runs(self._files.directory, terms, self._index, what)
        return {os.fsdecode(name).replace(os.sep, "/"): kept for name, kept in known.items()}

    def _is_changed(self, name: str, state: FilesState) -> bool:
        """Return whether a run is new, or its files changed since it was read."""
        run = self.runs.get(name) or self.unreadable.get(name)
        return run is None or run[0] != state

    def _running(self) -> list[str]:
        return [name for name, (_, status) in self.runs.items() if status == "running"]

    def _row_of(self, name: str, state: FilesState) -> _Result:
        """Return the row of a run.

        If the index has a row for the present state of the files, the first reading takes that row. Otherwise the run's
        files are read.
        """
        kept = None
        if self._index_rows:
            kept = self._index_rows.pop(name, None)
        if kept is not None and kept[0] == state and kept[1] is not None:
            row, costs = json.loads(kept[1])
        else:
            path, costs = self._files.path_of(name), None
            if path is None:
                return f"{name} is a link that leads out of the directory"
            row = summary_of(path, name)
        changed = datetime.fromtimestamp(state.changed / 1e9, UTC)
        return {
            **row,
            "id": name,
            "bytes": state.size,
            "modified": changed.isoformat(),
        }, costs

    def _set_unreadable(self, name: str, state: FilesState, reason: str) -> None:
        before = self.unreadable.get(name)
        if name in self.runs:
            self._remove(name)
        self.unreadable[name] = state, reason
        self.version += before is None or before[1] != reason

    def _remove(self, name: str) -> None:
        self.unread.pop(name, None)
        self.rechecks.pop(name, None)
        self._read_at.pop(name, None)
        self.unreadable.pop(name, None)
        if self.runs.pop(name, None) is not None:
            self.rows.remove(name)
        self.version += 1


def why_unreadable(path: Path, error: Exception) -> str:
    """Return a sentence that says why a file cannot be read."""
    if isinstance(error, OSError) and error.strerror:
        return f"{path.name}: {error.strerror}"
    if isinstance(error, TraceRecorderError):
        return str(error)
    return f"{path.name} cannot be read: {type(error).__name__}: {error}"


def costs_of(path: Path) -> Json:
    """Return the costs of all calls of a run. If the run cannot be read, the costs are unknown."""
    return costs_json(run_costs_or_unknown(path))
