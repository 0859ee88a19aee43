"""The files of tables: a directory for each table, with a Parquet file for each part.

    tables/runs/part-00000.parquet    tables/calls/part-00000.parquet    …

A part is one file of each table. All files of a part have the same runs, and each run is in one part. The file of the
first table gets its name last, and loses it first. So the files of the first table show which parts are complete. Their
metadata have the states of the runs' files when these were read, so that an export can be brought up to date.
"""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from trace_recorder.catalog.value_tables import FilesState
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.paths import document_path_for
from trace_recorder.storage.run_files import NO_FILE, journal_name, real_journal
from trace_recorder.tables.columns import TableName

FORMS: Mapping[str, tuple[TableName, ...]] = {
    "tables": ("runs", "calls", "steps", "tool_calls", "messages", "rewards"),
    "scout": ("transcripts",),
}
"""The tables of each form of the export format `parquet`. The first table of a form has one row for each run."""
COLUMNS_KEY = b"trace_recorder.columns"
"""The member of a file's metadata with the names, types and meanings of its columns."""
DIRECTORY_KEY = b"trace_recorder.directory_digest"
"""The member of a file's metadata with a digest of the working directory of the export.

The digest does not reveal the path.
"""
_STATES_KEY = b"trace_recorder.states"
"""The member of the metadata of a first table's file with the `FilesState` of each run by its path, as JSON."""
_NO_FILES = FilesState(*NO_FILE, *NO_FILE)
_PARENT = f"..{os.sep}"
"""The beginning of a relative path to a file outside of the working directory."""


def part_files(directory: Path, table: TableName) -> list[Path]:
    """Return the Parquet files of a table, in the order of their parts."""
    return sorted((directory / table).glob("part-*.parquet"))


def is_ours(path: Path) -> bool:
    """Return whether an export of this package wrote a Parquet file. Raises OSError, also if the file is damaged."""
    return COLUMNS_KEY in _metadata(path)


def remove_part(directory: Path, tables: Sequence[TableName], name: str) -> None:
    """Remove the files of a part. If the process is killed meanwhile, the remaining files count as unfinished."""
    for table in tables:
        (directory / table / name).unlink(missing_ok=True)


def remove_unfinished_files(directory: Path, tables: Sequence[TableName]) -> bool:
    """Remove the files that an interrupted export left. Return whether there were any.

    These are temporary files, and the files of a part for which the first table has no file. The caller holds the lock
    of the tables.
    """
    whole = {path.name for path in part_files(directory, tables[0])}
    unfinished: set[Path] = set()
    for table in tables:
        unfinished.update((directory / table).glob(".part-*.tmp"))
        unfinished.update(path for path in part_files(directory, table) if path.name not in whole)
    for path in unfinished:
        path.unlink()
    return bool(unfinished)


# ── the runs of parts ────────────────────────────────────────────────────────────────────────────────────────────────


def files_state(run: Path) -> FilesState:
    """Return the state of a run's files. A run at an address has no files here."""
    document = str(run)
    directory, separator, name = document.rpartition(os.sep)
    journal = directory + separator + journal_name(name)
    if document == journal:
        document = str(document_path_for(run))
    return FilesState(*_state_of_file(document), *_state_of_file(journal))


def _state_of_file(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path for each file takes longer than the call
    except (OSError, ValueError):  # the error is reported when the run is read
        return NO_FILE
    return status.st_mtime_ns, status.st_size


class WrittenRun(NamedTuple):
    """A run whose rows are in a part.

    `state` is None if the run has to be read again in any case, because it was still being recorded.
    """

    part: str
    path: str
    state: FilesState | None


class Outdated(NamedTuple):
    """What tables lack, and what they have too much.

    `missing` are runs that have to be read, also because they have `changed`. The files of the runs in `gone` are not
    there. `emptied` are the names of parts whose runs have all changed or are gone.
    """

    missing: list[Path]
    changed: list[WrittenRun]
    gone: list[WrittenRun]
    emptied: list[str]


def compare_parts(directory: Path, table: TableName, runs: Sequence[Path], sources: Sequence[Path] = ()) -> Outdated:
    """Compare the runs in the files of a form's first table with `runs`, by the states of their files.

    A run is gone if it was in or below a directory of `sources`, and its files are not there. The paths in tables are
    relative to the working directory of the export. A run is recognised in another working directory if that of the
    export is above the run. Raises FileExistsError if a path begins with `..`, and the working directory of the export
    is unknown.
    """
    parts = {file.name: _runs_in(file) for file in part_files(directory, table)}
    written = {key: run for runs_of_part in parts.values() for key, run in runs_of_part.items()}
    here = directory_digest(Path.cwd())
    known = [written.pop((here, str(run)), None) for run in runs]  # most runs have the same path as before
    by_place: dict[str, WrittenRun] = {}
    if written:
        places = _RunPlaces([*runs, *(source / "_" for source in sources)])
        by_place = _by_place(written, places, directory)
        known = [
            same or by_place.pop(places.place_of(str(run)) or "", None) for run, same in zip(runs, known, strict=True)
        ]
    missing, changed = [], []
    for run, before in zip(runs, known, strict=True):
        if before is None:
            missing.append(run)
        elif before.state is None or before.state != files_state(run):
            missing.append(run)
            changed.append(before)
    below = tuple(f"{os.path.realpath(source)}{os.sep}" for source in sources if remote_address(source) is None)
    gone = [run for place, run in by_place.items() if place.startswith(below) and files_state(Path(place)) == _NO_FILES]
    stale = Counter(run.part for run in (*changed, *gone))
    return Outdated(missing, changed, gone, [part for part, runs_of in parts.items() if len(runs_of) == stale[part]])


_Written = dict[tuple[bytes | None, str], WrittenRun]
"""Runs by their paths and the digests of the working directories to which the paths are relative."""


def _runs_in(part: Path) -> _Written:
    states, base = states_in(part), _metadata(part).get(DIRECTORY_KEY)
    if states is None:
        raise FileExistsError(f"{part} does not say which runs it has: give another -o, or --force to replace it")
    return {(base, path): WrittenRun(part.name, path, state) for path, state in states.items()}


def _by_place(written: _Written, places: _RunPlaces, directory: Path) -> dict[str, WrittenRun]:
    by_place: dict[str, WrittenRun] = {}
    for (base, path), run in written.items():
        place = places.place_of(path, base)
        if place is not None:
            by_place[place] = run
        elif path.startswith(_PARENT):
            reason = f"{directory} has runs with paths such as {path}, from another working directory"
            raise FileExistsError(f"{reason}: use --resume in that directory, or --force")
    return by_place


States = dict[str, FilesState | None]
"""The states of the files of runs when they were read, by the paths of the runs.

A state is None if the run has to be read again in any case, because it was still being recorded.
"""


def states_in(path: Path) -> States | None:
    """Return the states of the runs in a file of a form's first table. For other files, return None."""
    text = _metadata(path).get(_STATES_KEY)
    if text is None:
        return None
    return {run: state and FilesState(*state) for run, state in json.loads(text).items()}


def states_metadata(states: States) -> dict[bytes, bytes]:
    """Return the member of a file's metadata from which `states_in` returns the states."""
    return {_STATES_KEY: json.dumps(states, separators=(",", ":")).encode()}


def _metadata(path: Path) -> Mapping[bytes, bytes]:
    """Return the members of a Parquet file's metadata. Raises OSError, also if the file is damaged."""
    try:
        return import_module("pyarrow.parquet").read_metadata(path).metadata or {}
    except ValueError as error:  # pyarrow's ArrowInvalid
        raise OSError(errno.EINVAL, "this Parquet file is damaged; delete it, or export again", str(path)) from error


class _RunPlaces:
    """Finds the places of runs: the real path of a run's journal, or the address of a run.

    A digest of a working directory is recognised if it is the current one, or if it is above one of `runs`.
    """

    def __init__(self, runs: Sequence[Path]) -> None:
        self._real_directory = lru_cache(maxsize=1000)(os.path.realpath)
        self._bases = {directory_digest(Path.cwd()): ""}
        for parent in {os.path.dirname(run) for run in runs}:  # noqa: PTH120 - a Path for each run is slow
            for place in (Path(os.path.abspath(parent)), Path(self._real_directory(parent))):  # noqa: PTH100 - with links
                for base in (place, *place.parents):
                    self._bases.setdefault(directory_digest(base), str(base))

    def place_of(self, path: str, base: bytes | None = None) -> str | None:
        """Return the place of a path, which is relative to the current working directory or to one with this digest.

        Return None if that directory is unknown. The place of an address is the address itself.
        """
        if remote_address(path) is not None:
            return path
        if base is not None and not os.path.isabs(path):  # noqa: PTH117 - as above
            if base not in self._bases:
                return None
            path = os.path.join(self._bases[base], path)  # noqa: PTH118 - as above
        return real_journal(path, self._real_directory)


@lru_cache(maxsize=1000)
def directory_digest(directory: Path) -> bytes:
    """Return a digest of the path of a directory."""
    return blake2b(os.fsencode(directory), digest_size=8).hexdigest().encode()
