"""The runs of a directory, listed again and again: only files that changed since the last look are read.

What counts as a run is what `list` shows (`storage/run_files.py`). The id of a run is its path from the directory.
Of a file that cannot be read the list says why. A link that leads out of the directory is not followed.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from secrets import token_hex

from trace_recorder.catalog.planning import known_runs
from trace_recorder.catalog.query import parse_query
from trace_recorder.catalog.run_summaries import summary_of
from trace_recorder.catalog.searching import search
from trace_recorder.errors import TraceRecorderError
from trace_recorder.guard import try_call
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.run_files import NO_FILE, FileState, run_files
from trace_recorder.viewer.parts import Json
from trace_recorder.viewer.run_costs import costs_of
from trace_recorder.views.cost import table_name
from trace_recorder.views.run_costs import may_have_price

State = tuple[int, int, int, int]
"""Time of the last change and size of a run's two files."""
_RELATIONS = ("forked_from", "replay_of")
"""Members of a row that name another run."""


@dataclass(slots=True)
class _Known:
    """A run as it was last read: the state of its files, its row or why it has none, the version of the list then."""

    state: State
    row: Json
    is_readable: bool
    version: int = field(default=0, compare=False)
    costs: Json | None = field(default=None, compare=False)
    """The costs of its calls; None until they were read."""

    @property
    def needs_costs(self) -> bool:
        """Whether its calls are still to be read for what they cost."""
        row = self.row
        tokens = row.get("total_input_tokens"), row.get("output_tokens")
        return self.costs is None and self.is_readable and may_have_price(row.get("status"), *tokens)

    def to_json(self) -> Json:
        """Return the row with the costs of the run."""
        return {**self.row, **(self.costs or {})}


class RunList:
    """The runs in and below one directory, or some files of it. May be used from several threads.

    Raises ValueError for several places that are not files of one directory.
    """

    def __init__(self, *places: Path) -> None:
        is_directory = len(places) == 1 and places[0].is_dir()
        files = [] if is_directory else [place.resolve() for place in places]
        if any(file.is_dir() or file.parent != files[0].parent for file in files):
            raise ValueError("several files are served together if they lie in one directory")
        self.directory = places[0] if is_directory else files[0].parent
        self.only = None if is_directory else {file.name for file in files}
        self._lock = threading.RLock()
        self._costs_lock = threading.Lock()
        self._epoch = token_hex(4)
        self._version = 0
        self._known: dict[str, _Known] = {}
        self._removed: dict[str, int] = {}

    def path_of(self, name: str) -> Path | None:
        """Return the path of a run of the list, by its id; None if it is not in the list, or leads elsewhere by now."""
        if name not in self._known:
            self.refresh()
            if name not in self._known:
                return None
        path = self.directory / name
        is_here = all(self._is_within(file) for file in (path, journal_path_for(path)) if os.path.lexists(file))
        return path if is_here else None

    def relations_of(self, name: str, sources: Collection[str]) -> Json:
        """Return the ids of the runs of the list that belong with a run.

        These are the run that it continues or repeats, its forks and its replays, and for each of `sources`, the
        trajectory ids of the runs that gave answers to its calls, that run.
        """
        with self._lock:
            self.refresh()
            rows = sorted((one.row for one in self._known.values() if one.is_readable), key=_start_of)
        own = next((row for row in rows if row["id"] == name), {})
        ids = {row["trajectory_id"]: row["id"] for row in reversed(rows) if row.get("trajectory_id") is not None}
        identity = own.get("trajectory_id")
        forks, replays = (
            [row for row in rows if identity is not None and (row[kind] or {}).get("trajectory_id") == identity]
            for kind in _RELATIONS
        )
        return {
            **{kind: ids.get((own.get(kind) or {}).get("trajectory_id")) for kind in _RELATIONS},
            "forks": [{"id": row["id"], "step_number": row["forked_from"].get("step_number")} for row in forks],
            "replays": [row["id"] for row in replays],
            "sources": {source: ids[source] for source in sources if source in ids},
        }

    def first_name(self) -> str | None:
        """Return the id of a run, where there is only one."""
        with self._lock:
            self.refresh()
            return next(iter(self._known)) if len(self._known) == 1 else None

    def refresh(self) -> None:
        """Look at the directory again. Raises OSError where it cannot be read."""
        with self._lock:
            found = dict(self._files())
            if self._version == 0 and self.only is None:
                self._take_from_index(found)
            read = {name: self._read(name, state) for name, state in found.items() if self._is_outdated(name, state)}
            changed = {name: one for name, one in read.items() if one != self._known.get(name)}
            gone = self._known.keys() - found.keys()
            self._version += bool(changed or gone)
            for name in gone:
                del self._known[name]
                self._removed[name] = self._version
            for name, one in changed.items():
                self._known[name] = one
                one.version = self._version
                self._removed.pop(name, None)

    def _take_from_index(self, found: Mapping[str, State]) -> None:
        """Take the rows of runs that did not change since the directory was indexed."""
        for encoded, (state, summary) in known_runs(self.directory, what="summary").items():
            name = PurePath(os.fsdecode(encoded)).as_posix()
            if summary is not None and found.get(name) == state:
                row, costs = json.loads(summary)
                entry = {**row, "id": name, **_size(state)}
                self._known[name] = _Known(state, entry, is_readable=True, version=1, costs=costs)
        self._version = 1 if self._known else 0

    def _is_outdated(self, name: str, state: State) -> bool:
        """Whether a run must be read: a run without an end may have lost its writer while its files stayed."""
        known = self._known.get(name)
        return known is None or known.state != state or known.row.get("status") == "running"

    def work_out_costs(self, seconds: float) -> None:
        """Read calls for this time, those of the newest runs first. Do nothing if another thread does that already."""
        if not self._costs_lock.acquire(blocking=False):
            return
        try:
            until = time.monotonic() + seconds
            with self._lock:
                self.refresh()
                waiting = [one for one in self._known.values() if one.needs_costs]
            waiting.sort(key=lambda one: _start_of(one.row))
            while waiting and time.monotonic() < until:
                known = waiting.pop()
                costs = costs_of(self.directory / known.row["id"])
                with self._lock:  # a run that was read again meanwhile has another entry, whose turn comes
                    self._version += 1
                    known.costs, known.version = costs, self._version
        finally:
            self._costs_lock.release()

    def to_json(self, since: str | None = None) -> Json:
        """Return the list, or what changed since a version of it."""
        with self._lock:
            self.refresh()
            version = self._version_of(since)
            rows = [one for one in self._known.values() if one.version > version]
            answer: Json = {
                "version": f"{self._epoch}.{self._version}",
                "directory": str(self.directory),
                "complete": version == 0,
                "runs": sorted((one.to_json() for one in rows if one.is_readable), key=_start_of, reverse=True),
                "unreadable": [one.row for one in rows if not one.is_readable],
                "without_costs": sum(one.needs_costs for one in self._known.values()),
                "prices": table_name(),
            }
            if version:
                answer["removed"] = [name for name, removed in self._removed.items() if removed > version]
            return answer

    def find(self, query: str) -> Json:
        """Return the ids of the runs that match a query, and how many of them have each status, model, tool, reward.

        Raises QueryError.
        """
        terms = parse_query(query)
        with self._lock:
            self.refresh()
            served = {self.directory / name for name in self._known}
        found = search(self.directory, terms, served.__contains__)
        names = [path.relative_to(self.directory).as_posix() for path in found.paths]
        return {"runs": names, "counts": found.counts_json()}

    def _version_of(self, since: str | None) -> int:
        epoch, _, number = (since or "").partition(".")
        known = epoch == self._epoch and number.isdecimal() and len(number) < 10
        return int(number) if known and int(number) <= self._version else 0

    def _files(self) -> Iterator[tuple[str, State]]:
        """Yield the name of each run, and the state of its files."""
        for found in run_files(self.directory, recursive=self.only is None):
            if self.only is None or not self.only.isdisjoint((found.path.name, journal_path_for(found.path).name)):
                one, other = self._state(found.entry), self._state(found.journal)
                if one is not None and other is not None:
                    yield found.path.relative_to(self.directory).as_posix(), (*one, *other)

    def _state(self, entry: os.DirEntry[str] | None) -> FileState | None:
        """Return the state of a file; None if it is gone, or leads out of the directory: its run is not served then."""
        if entry is None:
            return NO_FILE
        try:
            if entry.is_symlink() and not self._is_within(Path(entry)):
                return None
            state = entry.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size

    def _is_within(self, file: Path) -> bool:
        """Whether a path leads to a file in or below the directory."""
        try:
            real = file.resolve(strict=True)
            return real.is_file() and real.is_relative_to(self.directory.resolve())
        except (OSError, RuntimeError):  # it is gone, or a loop of links, which is an error of either kind
            return False

    def _read(self, name: str, state: State) -> _Known:
        """Read the row of a run, or else what is wrong with its file."""
        path = self.directory / name

        def unreadable(error: Exception) -> _Known:
            return _Known(state, {"id": name, "error": why_unreadable(path, error)}, is_readable=False)

        return try_call(lambda: _Known(state, {**summary_of(path, name), **_size(state)}, is_readable=True), unreadable)


def _size(state: State) -> Json:
    """Return how large the files of a run are together, and when they last changed."""
    modified = datetime.fromtimestamp(max(state[0], state[2]) / 1e9, UTC)
    return {"bytes": state[1] + state[3], "modified": modified.isoformat()}


def why_unreadable(path: Path, error: Exception) -> str:
    """Return in a sentence why a file cannot be read."""
    if isinstance(error, OSError) and error.strerror:
        return f"{path.name}: {error.strerror}"
    if isinstance(error, TraceRecorderError):
        return str(error)
    return f"{path.name} cannot be read: {type(error).__name__}: {error}"


def _start_of(row: Json) -> tuple[str, str]:
    return str(row.get("start_time") or ""), str(row["id"])
