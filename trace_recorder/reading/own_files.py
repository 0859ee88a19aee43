"""Loads runs that this package wrote: a journal, or a document that has no journal beside it.

The journal is the truth: if a `.json` has a `.jsonl` beside it, the `.jsonl` is read. The run may still be running, and
its journal may end at any byte. `formats/any_file.py` also loads files of other tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.guard import try_call
from trace_recorder.reading.document import from_document
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.run_facts import MISSING_LINES
from trace_recorder.signal_handlers import ours
from trace_recorder.storage import file_system, journal_reader
from trace_recorder.storage.byte_order_marks import stream_without_mark, without_mark
from trace_recorder.storage.paths import document_path_for, journal_path_for
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Gap, Status, Trajectory

_BEGIN = b'{"seq":1,"time":"'
"""The first bytes of every journal. A journal may be cut off after any of them."""
_DOCUMENT_BEGIN = b'{\n"task": '
"""The first bytes of every document. A document of Trae Agent begins with the same member, but is indented."""
_LINE_BEGIN = journal_reader.LINE_BEGIN.encode()
_LARGE_BYTES = 1024 * 1024
"""A file with more bytes than this is searched for a record before it is read as a whole."""
EXPECTED = "A .json or .jsonl that a TrajectoryRecorder wrote is expected."
"""The last sentence of the errors about a file that is not ours."""
_NO_JOURNAL = "{} is not a journal: its first line is not a record of this package. " + EXPECTED


class NotOwnError(TrajectoryFormatError):
    """A file is neither a journal nor a document. Another tool may have written it."""


def is_own_file(path: Path) -> bool:
    """Return whether a file begins as a journal or as a document of this package. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_BEGIN)).startswith((_BEGIN, _DOCUMENT_BEGIN))


def load_own(path: Path) -> Trajectory:
    """Load the run of a journal, or of a document that has no journal.

    The lines of a journal are parsed at once. Interactions and steps are read when they are first used. Raises
    NotOwnError for any other file, TrajectoryFormatError for a damaged file, and OSError.
    """
    trajectory = load_journal_of(path)
    if trajectory is not None:
        return trajectory
    try:
        document: Payload = json.loads(without_mark(path.read_bytes()))
    except ours(ValueError, RecursionError) as error:
        raise NotOwnError(f"{path} is not a trajectory: it is not JSON ({error}). {EXPECTED}") from None
    return trajectory_of_document(document, path)


def load_journal_of(path: Path) -> Trajectory | None:
    """Load the run of a journal, or of the journal beside a document. Return None if there is no journal."""
    journal_path = journal_path_for(path)
    if not journal_path.is_file():
        return None
    try:
        return fold_journal(journal_path, path)[0]
    except NotOwnError:
        if journal_path == path:
            raise
        return None


def trajectory_of_document(document: Payload, path: Path) -> Trajectory:
    """Return the run of a document without a journal. Raises NotOwnError if the document has another form."""
    try:
        trajectory = replace(from_document(document, str(path)), path=path)
    except TrajectoryFormatError as error:
        raise NotOwnError(str(error)) from None
    if trajectory.status == "running":  # a document alone does not show whether its run is still running
        trajectory = replace(trajectory, status="unknown")
    return trajectory


def load_lines(lines: Iterable[bytes], path: Path) -> Trajectory:
    """Load a trajectory from the lines of a journal that is not in a file. Error messages name `path`."""
    fold = Fold()
    offset = 0
    for line in lines:
        fold.add(journal_reader.read_records(line, offset))
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
    fold.add(journal_reader.read_records(data))
    refuse_others(fold, data, path)
    status: Status = "unknown"
    if fold.run.end is None:
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
        | dict.fromkeys(("agent_steps", "metrics", "gaps", "mcp_servers", "websockets"), steps),
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
    host = None
    if fold.run.start is not None:
        host = fold.run.start.host
    alive = file_system.writer_is_alive(path, host)
    if alive is None:
        return "unknown"
    if alive:
        return "running"
    return "interrupted"


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
    except ours(OSError, ValueError, RecursionError, AttributeError):
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
