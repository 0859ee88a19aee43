"""Loads runs from any file: from our own files, and from the files of other tools.

A file that is not ours is read by its format. Its runs become the lines of journals, which are folded in memory. A file
at an address, such as `s3://bucket/runs/run.json`, is read from a local copy (`storage/remote_files.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trace_recorder.errors import TrajectoryFormatError, UnreadableRunsError
from trace_recorder.guard import try_call
from trace_recorder.reading.own_files import (
    EXPECTED,
    NotOwnError,
    load_journal_of,
    load_lines,
    trajectory_of_document,
)
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.local_copies import local_copy
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.short_forms import call_repr
from trace_recorder.values.trajectory import Trajectory

if TYPE_CHECKING:
    from trace_recorder.formats.foreign_runs.source import Source

_DOCUMENT_BEGIN = b'"task":'


def load(path: str | Path) -> Trajectory:
    """Load the trajectory of a `.json` or a `.jsonl`, whose run may still be running, or of another tool's file.

    The path may be an address, such as `s3://bucket/runs/run.json` (docs/tables.md). docs/import.md lists the tools.
    Parts of their files that a Trajectory cannot have are left out; `trace-recorder import` keeps them. Interactions
    and steps are read when they, `metrics` or `gaps` are first used. So it costs little to read only the task, the
    status and the rewards of many runs. Raises FileNotFoundError, and TrajectoryFormatError if the file is not a
    trajectory, has several, or has a newer version.

    Examples:
        >>> run = load("trajectories/run.json")
        >>> run.task, run.status, len(run.llm_interactions)
        ('count the files', 'completed', 1)
    """
    path = Path(path)
    if remote_address(path) is not None:
        from trace_recorder.storage.remote_files import forget  # noqa: PLC0415 - few paths are addresses

        forget(path)
    return load_only(path)


def load_only(path: Path) -> Trajectory:
    """Load the run of a file as `load` does. A file at an address is in the version that was listed last."""
    runs = list(islice(load_each(path), 2))
    if len(runs) == 1:
        return runs[0]
    count = "several runs" if runs else "no run"
    raise TrajectoryFormatError(
        f"{path} has {count}: `trace-recorder import` writes a journal for each run, and load_all() reads all of them."
    )


def load_each(path: Path) -> Iterator[Trajectory]:
    """Yield the run of a file, or all runs of a shared file, or of another tool's. Raises the exceptions of `load`."""
    if remote_address(path) is None:
        return _load_local(path)
    return _load_remote(path)


def _load_local(path: Path) -> Iterator[Trajectory]:
    if path.is_dir():
        os.scandir(path).close()  # raises OSError if the directory cannot be read
        raise TrajectoryFormatError(f"{path} is a directory. One of the .json files in it is expected.")
    source = _source(path)
    if source.head.startswith((b"PK", b"<!doctype html")):
        from trace_recorder.formats import shared_files  # noqa: PLC0415 - see `_source`

        if shared_files.is_shared(source):
            for shared in shared_files.shared_runs(source):
                yield load_lines(shared.lines, path)
            return
    if source.head.lstrip(b"{ \r\n\t").startswith(_DOCUMENT_BEGIN):  # our own documents may have any length
        source.max_document_bytes = source.max_values = sys.maxsize
    try:
        trajectory = _load_whole_run(source)
    except NotOwnError as error:
        refused = error.with_traceback(None)  # the frames of the traceback would keep the file's content in memory
    else:
        yield trajectory
        return
    from trace_recorder.formats import recognition  # noqa: PLC0415 - see `_source`
    from trace_recorder.formats.foreign_runs.journal_writer import journal_lines  # noqa: PLC0415

    if recognition.format_of(source) is None:
        raise refused
    for run in recognition.read_foreign_runs(source):
        yield load_lines(journal_lines(run), source.path)


def _load_remote(path: Path) -> Iterator[Trajectory]:
    """Yield the runs of a file at an address. The journal of an ended run is enough."""
    with local_copy(path, "run") as local:
        if journal_path_for(local).is_file():
            run = load_journal_of(local)
            if run is not None and run.end_time is not None:
                yield replace(run, path=path)
                return
    with local_copy(path) as local:
        for run in load_each(local):
            yield replace(run, path=path)


def _source(path: Path) -> Source:
    """Return a file that is read within limits. Its module is imported here, because few programs read files."""
    from trace_recorder.formats.foreign_runs.source import Source  # noqa: PLC0415

    return Source(path)


def _load_whole_run(source: Source) -> Trajectory:
    """Load a file that has a whole run: a journal, a document, ATIF, or Trae Agent's document.

    Raises NotOwnError for any other file.
    """
    path = source.path
    trajectory = load_journal_of(path)
    if trajectory is not None:
        return trajectory
    if not source.head:
        raise TrajectoryFormatError(f"{path} is not a trajectory: it is empty.")
    if source.why_no_document is not None:
        raise NotOwnError(f"{path} is not a trajectory: {source.why_no_document}. {EXPECTED}")
    document = source.document
    from trace_recorder.formats.atif.reading import from_atif, is_atif  # noqa: PLC0415 - see `_source`

    if is_atif(document):
        return _imported(from_atif(document, str(path)), "atif", path)
    trajectory = trajectory_of_document(document, path)
    if "schema_version" in document:
        return trajectory
    return _imported(trajectory, "trae-agent", path)


def _imported(trajectory: Trajectory, format_name: str, path: Path) -> Trajectory:
    """Return a run of another tool with its origin and metrics, as `trace-recorder import` writes them."""
    from trace_recorder.formats.foreign_runs.journal_writer import IMPORTED_FROM  # noqa: PLC0415 - see `_source`
    from trace_recorder.formats.recognition import masked_name  # noqa: PLC0415

    identity = trajectory.trajectory_id or path.name.partition(".")[0]
    origin = {"format": format_name, "id": identity, "file": masked_name(path.name)}
    metadata = {**trajectory.metadata, IMPORTED_FROM: origin}
    metrics = trajectory.metrics or metrics_of(trajectory.llm_interactions, trajectory.agent_steps)
    return replace(trajectory, path=path, metadata=metadata, metrics=metrics)


def foreign_format(path: Path) -> str | None:
    """Return the name of the format of another tool's file.

    Return None for our own files, for ATIF and Trae Agent's documents, which have a whole run, and for unknown formats.

    Raises OSError.
    """
    source = _source(path)
    try:
        _load_whole_run(source)
    except NotOwnError:
        from trace_recorder.formats.recognition import format_of  # noqa: PLC0415 - see `_source`

        name = format_of(source)
        if name == "document":
            return None
        return name
    except TrajectoryFormatError:
        return None
    return None


@dataclass(slots=True)
class Runs(Iterator[Trajectory]):
    """An iterator over the runs of files.

    Each run is read when the iteration reaches it. `failures` has the files that could not be read.
    """

    paths: Iterator[Path]
    strict: bool = True
    select: Callable[[Trajectory], bool] | None = None
    """Returns whether a run is selected. If it raises an exception, the file of the run is among the failures."""
    failures: dict[Path, Exception] = field(default_factory=dict)
    _file: Iterator[Trajectory] = field(default_factory=lambda: iter(()))
    _path: Path | None = None
    _read: int = 0

    def __repr__(self) -> str:
        """Return the counts so far, without reading more."""
        state: dict[str, object] = {"path": str(self._path), "strict": self.strict, "read": self._read}
        if self.failures:
            state["failed"] = len(self.failures)
        return call_repr("Runs", state)

    def __next__(self) -> Trajectory:
        run = self._next()
        self._read += 1
        return run

    def _next(self) -> Trajectory:
        for run in self._file:
            return run
        for path in self.paths:
            self._file = self._readable(path)
            for run in self._file:
                return run
        if self.failures and self.strict:
            self.strict = False
            raise UnreadableRunsError(self.failures)
        raise StopIteration

    def _readable(self, path: Path) -> Iterator[Trajectory]:
        """Yield the selected runs of a file. If a run cannot be read, note the failure and stop."""
        runs = (run for run in load_each(path) if self.select is None or self.select(run))
        while (run := try_call(partial(next, runs, None), partial(self.failures.__setitem__, path))) is not None:
            yield run
