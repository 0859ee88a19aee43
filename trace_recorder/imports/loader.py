"""Loads trajectories from one file, from a file with several runs, or from many files one after another.

The journal is the truth: if a `.json` has a `.jsonl` beside it, the `.jsonl` is read. The run may still be running, and
its journal may end at any byte. The document is read only if there is no journal. `foreign/` reads files of other
tools, and `atif/` reads ATIF.

The module is not named `load`, so that no import can mistake it for the function.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import NoReturn, Protocol

from trace_recorder.derive.document import from_document
from trace_recorder.derive.fold import Fold
from trace_recorder.derive.run_facts import MISSING_LINES
from trace_recorder.errors import TrajectoryFormatError, UnreadableRunsError
from trace_recorder.guard import try_call
from trace_recorder.storage import file_system, journal_reader
from trace_recorder.storage.byte_order_marks import stream_without_mark, without_mark
from trace_recorder.storage.paths import document_path_for, journal_path_for
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.short_forms import call_repr
from trace_recorder.values.trajectory import Gap, Status, Trajectory

_BEGIN = b'{"seq":1,"time":"'
"""The first bytes of every journal. A journal may be cut off after any of them."""
_DOCUMENT_BEGIN = b'"task":'
_LINE_BEGIN = journal_reader.LINE_BEGIN.encode()
_LARGE_BYTES = 1024 * 1024
"""A file with more bytes than this is searched for a record before it is read as a whole."""
_NO_JOURNAL = (
    "{} is not a journal: its first line is not a record of this package. "
    "A .json or .jsonl that a TrajectoryRecorder wrote is expected."
)


class _BoundedFile(Protocol):
    """A file that is read within limits: a `Source` of `foreign/source.py`."""

    path: Path

    @property
    def head(self) -> bytes: ...

    @property
    def document(self) -> Payload: ...

    @property
    def why_no_document(self) -> str | None: ...


class NotOwnError(TrajectoryFormatError):
    """A file is neither a journal nor a document. Another tool may have written it."""


def load(path: str | Path) -> Trajectory:
    """Load the trajectory of a `.json` or a `.jsonl`, whose run may still be running, or of another tool's file.

    docs/import.md lists the tools. Parts of their files that a Trajectory cannot have are left out; `trace-recorder
    import` keeps them. The lines of a journal are parsed at once. Interactions and steps are read when they, `metrics`
    or `gaps` are first used. So it costs little to read only the task, the status and the rewards of many runs. Raises
    FileNotFoundError, and TrajectoryFormatError if the file is not a trajectory, has several, or has a newer version.
    """
    runs = list(islice(load_each(Path(path)), 2))
    if len(runs) == 1:
        return runs[0]
    raise TrajectoryFormatError(
        f"{path} has {'several runs' if runs else 'no run'}: "
        "`trace-recorder import` writes a journal for each run, and load_all() reads all of them."
    )


def load_each(path: Path) -> Iterator[Trajectory]:
    """Yield the run of a file, or all runs of another tool's file. Raises the exceptions of `load`."""
    if path.is_dir():
        os.scandir(path).close()  # raises OSError if the directory cannot be read
        raise TrajectoryFormatError(f"{path} is a directory. One of the .json files in it is expected.")
    source = import_module("trace_recorder.imports.foreign.source").Source(path)
    if source.head.lstrip(b"{ \r\n\t").startswith(_DOCUMENT_BEGIN):  # our own documents may have any length
        source.max_document_bytes = source.max_values = sys.maxsize
    try:
        trajectory = load_own(source)
    except NotOwnError as error:
        refused = error.with_traceback(None)  # the frames of the traceback would keep the file's content in memory
    else:
        yield trajectory
        return
    foreign = import_module("trace_recorder.imports.foreign.formats")
    if foreign.format_of(source) is None:
        raise refused
    for run in foreign.read_runs(source):
        yield load_lines(foreign.journal_lines(run), source.path)


def load_own(source: _BoundedFile) -> Trajectory:
    """Load a journal, a document or ATIF. Raises NotOwnError for any other file."""
    path = source.path
    journal_path = journal_path_for(path)
    if journal_path.is_file():
        try:
            return fold_journal(journal_path, path)[0]
        except NotOwnError:
            if journal_path == path:
                raise
    if not source.head:
        raise TrajectoryFormatError(f"{path} is not a trajectory: it is empty.")
    if source.why_no_document is not None:
        raise NotOwnError(
            f"{path} is not a trajectory: {source.why_no_document}. "
            "A .json or .jsonl that a TrajectoryRecorder wrote is expected."
        )
    document = source.document
    atif = import_module("trace_recorder.imports.atif.document")  # imported here, because few programs need it
    if atif.is_atif(document):
        return _imported(atif.from_atif(document, str(path)), "atif", path)
    try:
        trajectory = replace(from_document(document, str(path)), path=path)
    except TrajectoryFormatError as error:
        raise NotOwnError(str(error)) from None
    if trajectory.status == "running":  # a document alone does not show whether its run is still running
        trajectory = replace(trajectory, status="unknown")
    return _imported(trajectory, "trae-agent", path) if "schema_version" not in document else trajectory


def _imported(trajectory: Trajectory, format_name: str, path: Path) -> Trajectory:
    """Return a run of another tool with its origin and metrics, as `trace-recorder import` writes them."""
    formats = import_module("trace_recorder.imports.foreign.formats")
    identity = trajectory.trajectory_id or path.name.partition(".")[0]
    origin = {"format": format_name, "id": identity, "file": formats.masked_name(path.name)}
    metadata = {**trajectory.metadata, formats.IMPORTED_FROM: origin}
    metrics = trajectory.metrics or metrics_of(trajectory.llm_interactions, trajectory.agent_steps)
    return replace(trajectory, path=path, metadata=metadata, metrics=metrics)


def foreign_format(path: Path) -> str | None:
    """Return the name of the format of another tool's file.

    Return None for our own files, for ATIF and Trae Agent's documents, which `load_own` reads, and for unknown formats.

    Raises OSError.
    """
    source = import_module("trace_recorder.imports.foreign.source").Source(path)
    try:
        load_own(source)
    except NotOwnError:
        name: str | None = import_module("trace_recorder.imports.foreign.formats").format_of(source)
        return None if name == "document" else name
    except TrajectoryFormatError:
        return None
    return None


def load_lines(lines: Iterable[bytes], path: Path) -> Trajectory:
    """Load a trajectory from the lines of a journal that is not in a file. Error messages name `path`."""
    fold = Fold()
    offset = 0
    for line in lines:
        fold.add(journal_reader.read(line, offset))
        offset += len(line)
    return _read_on_demand(fold, "unknown", path, path)


def fold_journal(path: Path, requested: Path | None = None) -> tuple[Trajectory, Fold]:
    """Read a journal.

    Return its trajectory, and its fold for callers that need more. `requested` is the file that the caller named, if
    that file is not the journal. The facts of the run itself are read at once. Its interactions and steps are read when
    they are first used.
    """
    if path.stat().st_size > _LARGE_BYTES and not _may_have_records(path):
        raise NotOwnError(_NO_JOURNAL.format(path))
    fold = Fold()
    data = without_mark(path.read_bytes())
    fold.add(journal_reader.read(data))
    refuse_others(fold, data, path)
    status = status_without_end(path, fold)
    fold.run.gaps += cut_off_gaps(path, fold)
    return _read_on_demand(fold, status, path, requested or path), fold


def _read_on_demand(fold: Fold, status: Status, path: Path, requested: Path) -> Trajectory:
    """Return the trajectory of a fold to which no record will be added.

    The facts of the run itself are read at once. Its calls and steps are read when they are first used. Errors name
    `path`. The `path` of the trajectory is `requested`.
    """
    refuse = partial(_refuse, path)
    interactions, steps = (partial(try_call, read, refuse) for read in (fold.interaction_fields, fold.step_fields))
    return Trajectory.read_on_demand(
        {**try_call(fold.run.fields_without_calls, refuse, status), "path": requested},
        dict.fromkeys(("llm_interactions", "provider", "model"), interactions)
        | dict.fromkeys(("agent_steps", "metrics", "gaps"), steps),
    )


def _may_have_records(path: Path) -> bool:
    """Return whether a file has only NUL bytes, or the beginning of a record anywhere. The file is read in parts."""
    is_blank, last = True, b""
    with stream_without_mark(path.open("rb")) as file:
        while part := file.read(_LARGE_BYTES):
            if _LINE_BEGIN in last + part:
                return True
            is_blank = is_blank and not part.strip(b"\0")
            last = part[-len(_LINE_BEGIN) :]
    return is_blank


def status_without_end(path: Path, fold: Fold) -> Status:
    """Return the status of a run whose journal has no end record. The lock of its writer decides the status."""
    host = None if fold.run.start is None else fold.run.start.host
    alive = file_system.writer_is_alive(path, host)
    return "unknown" if alive is None else "running" if alive else "interrupted"


def folded(fold: Fold, status: Status, path: Path) -> Trajectory:
    """Return the trajectory of a fold. Raises TrajectoryFormatError if the fold's records are damaged."""
    return try_call(fold.trajectory, partial(_refuse, path), status)


def _refuse(path: Path, error: Exception) -> NoReturn:
    raise TrajectoryFormatError(f"{path} is a damaged journal: {type(error).__name__}: {error}") from error


def cut_off_gaps(path: Path, fold: Fold) -> list[Gap]:
    """Return a gap if a journal has no end record and no writer, but its document states that the run has ended."""
    if fold.run.end is not None or fold.run.ends_in_damage or file_system.is_locked(path):
        return []
    try:
        document: Payload = json.loads(document_path_for(path).read_bytes())
        status = document.get("status")
    except (OSError, ValueError, RecursionError, AttributeError):
        return []
    if status not in {"completed", "failed", "interrupted"}:
        return []
    return [Gap(None, MISSING_LINES, f"its end is missing, but the document beside it states that the run is {status}")]


def refuse_others(fold: Fold, data: bytes, path: Path) -> None:
    """Raise NotOwnError if a file that begins with `data` is not a journal.

    Raise TrajectoryFormatError if the journal has a newer version.
    """
    if fold.run.start is None:
        if not (fold.run.records or data.startswith(_BEGIN) or _BEGIN.startswith(data) or not data.strip(b"\0")):
            raise NotOwnError(_NO_JOURNAL.format(path))
        return
    version = fold.run.start.version
    if version > journal_reader.VERSION:
        raise TrajectoryFormatError(
            f"{path} is a journal of version {version}, and this trace_recorder reads up to {journal_reader.VERSION}. "
            "Install a newer trace_recorder to read it."
        )


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
        counts = {"read": self._read, **({"failed": len(self.failures)} if self.failures else {})}
        return call_repr("Runs", {"path": str(self._path), "strict": self.strict, **counts})

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
