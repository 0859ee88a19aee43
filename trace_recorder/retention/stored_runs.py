"""Reads what has to be known of each run before runs are deleted: its files, its age, and the runs that it refers to.

If an index has a run, the run is not read. Otherwise the beginning and the end of its files are read, and the whole run
only for a query about its calls.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from trace_recorder.catalog.index import is_own_run
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.planning import RunOnDisk, known_runs, runs_on_disk
from trace_recorder.catalog.query import Term
from trace_recorder.catalog.rows import current_summary, summary_of
from trace_recorder.catalog.run_values import seconds_of
from trace_recorder.catalog.value_tables import FilesState
from trace_recorder.reading.own_files import load_own
from trace_recorder.storage.paths import (
    crc_of_name,
    document_path_for,
    journal_path_for,
    run_of_journal,
    stale_files,
)
from trace_recorder.storage.run_files import journal_name
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory


class RunFile(NamedTuple):
    """A file of a run, and its state when the run was examined."""

    path: Path
    state: os.stat_result

    @property
    def identity(self) -> tuple[Path, int, int, int, int]:
        """The values that change if the file is replaced or written."""
        return self.path, self.state.st_dev, self.state.st_ino, self.state.st_size, self.state.st_mtime_ns


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in a directory, with the facts that decide whether it may be deleted.

    `path` is the document, or the journal if there is no document. `files` are those of both that exist. `temporary`
    are the files that processes left which ended while they wrote the run.
    """

    path: Path
    trajectory_id: str | None
    task: str | None
    status: str
    start_time: str | None
    end_time: str | None
    refers_to: frozenset[str]
    """The ids of the runs that this run forks or replays, or in which its process was started."""
    files: tuple[RunFile, ...]
    temporary: tuple[RunFile, ...] = ()

    @property
    def size(self) -> int:
        """The size of all files of the run, in bytes."""
        return sum(file.state.st_size for file in (*self.files, *self.temporary))

    @property
    def moment(self) -> float | None:
        """The time from which the age of the run counts, in seconds since 1970.

        This is the end of the run, or its start if the end is not on file. None if neither is known.
        """
        ended, _ = seconds_of(self.end_time)
        if ended is not None:
            return ended
        return seconds_of(self.start_time)[0]

    def is_unchanged(self) -> bool:
        """Return whether the run still has exactly these files, and none of them was written since."""
        now = _files((document_path_for(self.path), journal_path_for(self.path)))
        return [file.identity for file in now] == [file.identity for file in self.files]


class RunReading:
    """A run that is read if necessary, and then once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def summary(self) -> Trajectory:
        """The run, perhaps without its calls and steps."""
        return current_summary(self._path) or self.whole

    @cached_property
    def whole(self) -> Trajectory:
        """The whole run."""
        return load_own(self._path)


@dataclass(slots=True)
class RunPlaces:
    """The directories of the paths that a command was given.

    `whole` are directories whose runs are all selected, also those in directories below. Of each directory in `parts`,
    only the runs with these names of journals are selected. The others may refer to them.
    """

    whole: list[Path] = field(default_factory=list)
    parts: dict[Path, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[Path]) -> RunPlaces:
        """Return the directories of paths. Raises FileNotFoundError for a path that does not exist."""
        places = cls()
        parents: dict[str, Path] = {}
        for path in paths:
            if path.is_dir():
                places.whole.append(path)
            else:
                path.stat()
                parent = parents.setdefault(os.path.realpath(path.parent), path.parent)
                places.parts.setdefault(parent, set()).add(journal_name(path.name))
        return places

    def roots(self) -> Iterator[tuple[Path, set[str] | None]]:
        """Yield each directory with the names of the selected journals, or None if all runs are selected."""
        yield from ((directory, None) for directory in self.whole)
        yield from self.parts.items()


class RunReader:
    """Reads the runs of a directory, and decides which of them match a query."""

    def __init__(self, directory: Path, index: Path | None, *, recursive: bool) -> None:
        self._directory = directory
        self._index = index
        self._recursive = recursive
        self._known: dict[tuple[Term, ...], Mapping[bytes, tuple[FilesState, str | None]]] = {}
        self._matchers: dict[tuple[Term, ...], Matcher] = {}
        self._temporary: dict[Path, dict[str, list[RunFile]]] = {}

    def runs(self) -> Iterator[RunOnDisk]:
        """Yield the runs on disk. Raises OSError if the directory cannot be read."""
        return runs_on_disk(self._directory, recursive=self._recursive)

    def read(self, run: RunOnDisk) -> StoredRun | None:
        """Read a run. Return None if the file is not ours. Raises OSError, and the exceptions of `load_own`."""
        path = run.files.path
        paths = (document_path_for(path), journal_path_for(path))
        files = _files(paths)  # before the run is read, so that a later change is noticed
        is_known, kept = self._in_index(run, ())
        if is_known and kept is not None:
            summary: Mapping[str, Payload] = json.loads(kept)[0]
        elif is_own_run(path):
            summary = summary_of(path, "")
        else:
            return None
        trajectory_id = _text(summary["trajectory_id"])
        temporary = self._temporary_files(run.files.place)
        names = (*map(crc_of_name, paths), trajectory_id or "")
        return StoredRun(
            path,
            trajectory_id,
            _text(summary["task"]),
            str(summary["status"]),
            _text(summary["start_time"]),
            _text(summary["end_time"]),
            frozenset(_references(summary) - {trajectory_id or ""}),
            files,
            tuple(file for name in names for file in temporary.get(name, ())),
        )

    def matches(self, run: RunOnDisk, reading: RunReading, terms: tuple[Term, ...]) -> bool:
        """Return whether a run matches. Raises the exceptions of `load_own` if the run has to be read."""
        if not terms:
            return True
        is_known, kept = self._in_index(run, terms)
        if is_known:
            return kept is not None
        matcher = self._matchers.setdefault(terms, Matcher(terms))
        if matcher.needs_calls:
            return matcher(reading.whole)
        return matcher(reading.summary)

    def _in_index(self, run: RunOnDisk, terms: tuple[Term, ...]) -> tuple[bool, str | None]:
        """Return whether an index knows a run.

        The second value is the row of the run in the viewer's list as JSON, or None if the run does not match.
        """
        if terms not in self._known:
            self._known[terms] = known_runs(self._directory, terms, self._index, "summary")
        state, kept = self._known[terms].get(run.name, (None, None))
        return state == run.state, kept

    def _temporary_files(self, place: Path) -> dict[str, list[RunFile]]:
        """Return the temporary files in a directory whose processes have ended.

        The key is the CRC of the name for which a file was written, or the id of the run in a new journal.
        """
        if place not in self._temporary:
            self._temporary[place] = {}
            for stale in stale_files(place):
                with suppress(OSError):  # another process has removed it
                    key = stale.crc or run_of_journal(stale.path) or ""
                    self._temporary[place].setdefault(key, []).extend(_files([stale.path]))
        return self._temporary[place]


def _files(paths: Sequence[Path]) -> tuple[RunFile, ...]:
    files = []
    for path in paths:
        with suppress(FileNotFoundError):
            files.append(RunFile(path, path.lstat()))
    return tuple(files)


def _references(summary: Mapping[str, Payload]) -> set[str]:
    """Return the ids of the runs to which a run refers."""
    ids = {summary.get("parent")}
    for origin in ("forked_from", "replay_of"):
        members = summary.get(origin)
        if isinstance(members, dict):
            ids.add(members.get("trajectory_id"))
    return {identity for identity in ids if isinstance(identity, str)}


def _text(value: Payload) -> str | None:
    if isinstance(value, str):
        return value
    return None
