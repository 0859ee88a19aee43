"""Follows the runs of a directory, or of some files in a directory. Only runs whose files changed are read again.

The list has the same runs as the command `list` (`storage/run_files.py`). The name of a run is its path relative to the
directory. If a file cannot be read, the list has the reason. A link that leads out of the directory is never served,
even if a file became such a link after its run was listed.

`look` compares the sizes and times of all files with those of the last look. The first look takes from the index what
filters and sorts the runs that the index has. Their rows stay in the index until a client sees them. Then `read_one`
reads one changed run at a time, so a caller can stop after any run. Only one thread at a time may call these two. Every
thread must hold `lock` while it uses the attributes.

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
from trace_recorder.catalog.matching import KnownRuns, RunState
from trace_recorder.catalog.planning import known_counted, known_states, known_values
from trace_recorder.catalog.query import Term
from trace_recorder.catalog.rows import costs_json, summary_of
from trace_recorder.catalog.searched_values import SINGLE
from trace_recorder.catalog.value_tables import FilesState
from trace_recorder.errors import TraceRecorderError
from trace_recorder.figures.cost import RunCosts
from trace_recorder.guard import try_call
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.run_files import NO_FILE, FileState, journal_name, run_files
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
            if self.file_names is None or not self.file_names.isdisjoint((run.name, journal_name(run.name))):
                document, journal = self._state(run.entry), self._state(run.journal)
                if document is not None and journal is not None:
                    yield run.file[start:].replace(os.sep, "/"), FilesState(*document, *journal)

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
_KNOWN_AT_ONCE = 500
"""The values of this many runs of an index are read together."""
_STATUS = SINGLE.index("status")


class FollowedRuns:
    """The runs of `files`, with their rows.

    `index` is the path of the directory's index, if the index is not in the directory.
    """

    def __init__(self, files: ServedFiles, index: Path | None = None) -> None:
        self.lock = threading.RLock()
        self.rows = RunRows(self._rows_in_index)
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
        self._index_states: dict[bytes, FilesState] | None = None
        """The states of the runs that the index has and the first look has not found yet."""
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
        if self.is_looking or self._index_states is None:
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

        The first look stops after `seconds`, and the next call continues it, for as long as all calls before. So there
        are few calls, whose answers cost more the more runs are known. Until its end, only the compared runs are known.
        """
        if self._index_states is None:
            self._index_states = known_states(self._files.directory, self._index)
        began = time.monotonic()
        is_first, remaining, self._remaining = not self._looked_at, self._remaining, None
        if remaining is None:
            remaining, self._states, self._look_seconds = self._files.states(), {}, 0.0
        until = began + max(seconds, self._look_seconds)
        group: dict[str, FilesState] = {}
        for name, state in remaining:
            self._states[name] = group[name] = state
            if is_first and len(group) == _KNOWN_AT_ONCE:
                self._take_known(group)
                group = {}
            if is_first and time.monotonic() >= until:
                self._remaining = remaining
                break
        if is_first:
            self._take_known(group)
        with self.lock:
            self._compare(self._states)
        self._look_seconds += time.monotonic() - began
        if not self.is_looking:
            self._looked_at, self._states, self._index_states = time.monotonic(), {}, {}

    def _take_known(self, states: Mapping[str, FilesState]) -> None:
        """Add the runs that the index has in these states, without their rows."""
        known = {}
        for name, state in states.items():
            key = _index_name(name)
            if self._index_states and self._index_states.pop(key, None) == state:
                known[key] = state
        if not known:
            return
        # The row of a run without a document has only the ends of the journal, and the index has more values of it.
        journals = {key: state for key, state in known.items() if key.endswith(b".jsonl")}
        values_of_runs = known_values(self._files.directory, self._index, known, SINGLE)
        rows_of_journals = self._kept_rows(journals)
        without_rows = []
        with self.lock:
            for key, values in values_of_runs.items():
                name, state = _list_name(key), known[key]
                if name in rows_of_journals:
                    self.rows.put(*rows_of_journals[name])
                else:
                    without_rows.append((name, state.changed / 1e9, values))
                self.runs[name] = state, values[_STATUS]
            self.rows.put_known(without_rows)
            self.version += 1

    def _kept_rows(self, states: Mapping[bytes, FilesState]) -> dict[str, tuple[Json, Json | None]]:
        """Return the rows that the index has for these states, each with the costs of the run's calls."""
        rows = {}
        for key, [text] in known_values(self._files.directory, self._index, states, ["summary"]).items():
            row, costs = json.loads(str(text))
            name = _list_name(key)
            rows[name] = _with_files(row, name, states[key]), costs
        return rows

    def _rows_in_index(self, names: Sequence[str]) -> dict[str, Json]:
        """Return the rows of runs that were added without their rows.

        A row that the index does not have any more is read from the run's files.
        """
        states = {_index_name(name): self.runs[name][0] for name in names}
        rows = {name: {**row, **(costs or {})} for name, (row, costs) in self._kept_rows(states).items()}
        for key, state in states.items():
            name = _list_name(key)
            if name in rows:
                continue
            result = try_call(partial(self._row_of, name, state), partial(why_unreadable, self._files.directory / name))
            if not isinstance(result, str):  # otherwise the next look finds that the file has changed
                rows[name] = result
                self.version += self.rows.put(result)
        return rows

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
            self.unreadable.pop(name, None)
            self.version += self.rows.put(result)
            self.runs[name] = state, result["status"]

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

    def known_to_index(self, terms: Sequence[Term]) -> KnownRuns:
        """Return the runs of the index by their names, each with its counted values if it matches `terms`."""
        known = known_counted(self._files.directory, terms, self._index)
        return {_list_name(name): counted for name, counted in known.items()}

    def measures_in_index(self, states: Mapping[str, FilesState]) -> dict[str, str]:
        """Return the measures that the index has of these runs in these states, as JSON by their names."""
        keys = {_index_name(name): state for name, state in states.items()}
        known = known_values(self._files.directory, self._index, keys, ["measures"])
        return {_list_name(key): str(text) for key, [text] in known.items()}

    def _is_changed(self, name: str, state: FilesState) -> bool:
        """Return whether a run is new, or its files changed since it was read."""
        run = self.runs.get(name) or self.unreadable.get(name)
        return run is None or run[0] != state

    def _running(self) -> list[str]:
        return [name for name, (_, status) in self.runs.items() if status == "running"]

    def _row_of(self, name: str, state: FilesState) -> Json | str:
        """Read the row of a run, or return why its files must not be read."""
        path = self._files.path_of(name)
        if path is None:
            return f"{name} is a link that leads out of the directory"
        return _with_files(summary_of(path, name), name, state)

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


def _with_files(row: Json, name: str, state: FilesState) -> Json:
    changed = datetime.fromtimestamp(state.changed / 1e9, UTC)
    return {**row, "id": name, "bytes": state.size, "modified": changed.isoformat()}


def _index_name(name: str) -> bytes:
    """Return the name of a run in an index."""
    return os.fsencode(name.replace("/", os.sep))


def _list_name(name: bytes) -> str:
    """Return the name of a run in the list."""
    return os.fsdecode(name).replace(os.sep, "/")


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
