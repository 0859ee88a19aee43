"""Writes runs of other tools as journals and documents of this package.

The first record states the source of a run: the format, the file and its SHA-256. A run that was imported before from
the same file is kept if the file is unchanged. If the file has changed, the run is replaced. If something was appended
to the earlier run, such as a reward, both runs are kept.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Literal

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import FinalizeFact, StartFact
from trace_recorder.formats.any_file import load
from trace_recorder.formats.foreign_runs.journal_writer import IMPORTED_FROM, journal_lines
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of, masked_name, read_foreign_runs
from trace_recorder.formats.shared_files import is_shared, shared_runs
from trace_recorder.formats.trace_services import (
    FetchError,
    ListedIds,
    ListedTrace,
    TraceFetchError,
    TraceService,
    refuse_service,
)
from trace_recorder.guard import try_call
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.reading.own_files import load_lines
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.paths import absolute_path, create_whole_journal, journal_path_for
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.trajectory import Status

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS = 100
_TAIL_BYTES = 64 * 1024
SHARED = "share"
"""The format of a run that another `trace_recorder` has shared: our own journal."""
MAX_FAILURES = 3
"""`import_traces` ends after this many unreadable traces in a row, because the fault is then not in a single trace."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of importing one run: the path of its document, and whether the document was written.

    If the run is unreadable, `why` is the reason.
    """

    path: Path
    done: Literal["written", "replaced", "unchanged", "unreadable"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run of another tool that was read: its format and id, and the lines of its journal, with secrets masked.

    If another process has read the run, `lines` is a list. Otherwise `lines` is an iterator, which can be read only
    once.
    """

    format: str
    identity: str
    source: Members
    status: Status
    lines: Iterable[bytes]


def read_file(source: Source) -> Iterator[ReadRun]:
    """Yield the runs of a file. Raises TrajectoryFormatError if the file cannot be read."""
    if is_shared(source):
        for shared in shared_runs(source):
            status = load_lines(shared.lines, source.path).status
            digest = hashlib.sha256(b"".join(shared.lines)).hexdigest()
            yield ReadRun(SHARED, default_redactor(shared.name), {"sha256": digest}, status, shared.lines)
        return
    for run in runs_in(source):
        run.source["file"] = "/".join(map(masked_name, source.path.absolute().as_posix().split("/")))
        run.source["sha256"] = _digest([source.path, *sorted(source.read_too)])
        yield _read_run(run)


def runs_in(source: Source) -> Iterator[ForeignRun]:
    """Yield the runs of a file.

    Raises OSError, and TrajectoryFormatError if the file has no runs or is our own journal.
    """
    if format_of(source) is None:
        load(source.path)
        raise TrajectoryFormatError(f"{source.path} is a run of trace_recorder already: copy its two files instead.")
    yield from read_foreign_runs(source)


def _read_run(run: ForeignRun) -> ReadRun:
    run.identity = default_redactor(run.identity)  # the id becomes the name of a file
    return ReadRun(run.format, run.identity, run.source, run.status, journal_lines(run))


def import_traces(service: TraceService, directory: Path, seen: dict[str, str] | None = None) -> Iterator[Imported]:
    """Write each trace of a service into a directory, one after another, and yield the result of each.

    If an earlier import was stopped, this import continues where that import ended. A trace is not fetched again if the
    directory has the version that the service lists. `seen` maps the ids of known traces to their versions. A trace is
    skipped if `seen` has the listed version. The version of each imported trace is added to `seen`. A trace that cannot
    be read is yielded as "unreadable", and the import continues. Raises FetchError if the service refuses, or if
    `MAX_FAILURES` traces in a row cannot be read. Raises TrajectoryPathError or OSError if a run cannot be written.
    Runs that were written before the error stay.
    """
    if seen is None:
        seen = {}
    failures = 0
    listed, progress = service.traces(), ListedIds(service.address)
    while (trace := try_call(partial(next, listed, None), partial(refuse_service, service))) is not None:
        progress.new_ids([trace.identity])
        if trace.version and seen.get(trace.identity) == trace.version:
            continue
        existing = _imported_before(service, trace, directory)
        if existing is None:
            imported = _fetch(service, trace, directory)
        else:
            imported = Imported(existing, "unchanged")
        if imported is None:
            failures = 0
            continue
        if imported.done == "unreadable":
            failures += 1
        else:
            failures = 0
            seen[trace.identity] = trace.version
        yield imported
        if failures == MAX_FAILURES:
            raise FetchError(f"{service.address}: {failures} traces in a row cannot be read; the import ends.")


def _fetch(service: TraceService, trace: ListedTrace, directory: Path) -> Imported | None:
    """Fetch a trace and write its run. Return None if the trace is empty."""
    try:
        run = try_call(partial(service.run, trace), partial(refuse_service, service, trace=trace.identity))
    except TraceFetchError as error:
        return Imported(directory / _name(service.format, trace.identity), "unreadable", str(error))
    if run is None:
        return None
    run.format, run.identity = service.format, trace.identity
    run.source |= {"file": service.address, "version": trace.version}
    run.source["sha256"] = hashlib.sha256(b"".join(journal_lines(run))).hexdigest()
    return write_run(_read_run(run), directory)


def _imported_before(service: TraceService, trace: ListedTrace, directory: Path) -> Path | None:
    """Return the path of the document if this version of a trace was imported before.

    Return None if this version was not imported, or if the service states no version.
    """
    for candidate in _candidates(directory, service.format, service.address, trace.identity):
        journal = journal_path_for(candidate)
        origin = _origin_of(journal)
        if origin is None:
            return None
        if (origin.get("file"), origin.get("id")) == (service.address, trace.identity):
            is_same = trace.version and origin.get("version") == trace.version
            if is_same and _is_written(candidate, journal):
                return candidate
    return None


def _name(format_name: str, identity: str) -> str:
    return _NOT_IN_NAMES.sub("-", f"{format_name}-{identity}")[:_MAX_NAME_CHARS].rstrip(".") + ".json"


def write_run(run: ReadRun, directory: Path) -> Imported:
    """Write a run into a directory, unless it is already there. Raises TrajectoryPathError or OSError."""
    if run.format == SHARED:
        return _write_shared(run, directory)
    for candidate in _candidates(directory, run.format, str(run.source["file"]), run.identity):
        journal = journal_path_for(candidate)
        if not (os.path.lexists(journal) or os.path.lexists(candidate)):
            break
        origin = _origin_of(journal)
        if origin is None or origin.get("file") != run.source["file"] or origin.get("id") != run.identity:
            continue
        if origin.get("sha256") == run.source["sha256"]:
            if _is_written(candidate, journal):
                return Imported(candidate, "unchanged")
            _write_document(candidate, run)
            return Imported(candidate, "written")
        if _ends_as_imported(journal):
            replace_file(journal, run.lines)
            _write_document(candidate, run)
            return Imported(candidate, "replaced")
    path = create_whole_journal(absolute_path(candidate), run.lines)
    _write_document(path, run)
    return Imported(path, "written")


def _write_shared(run: ReadRun, directory: Path) -> Imported:
    """Write a run of a shared file under its name, or under a numbered name if another run has the name.

    A run that was imported before is unchanged, also if something was appended to it since.
    """
    name = _NOT_IN_NAMES.sub("-", run.identity).strip(".-")[:_MAX_NAME_CHARS] or "run"
    lines = [*run.lines]
    for document in (directory / f"{stem}.json" for stem in chain([name], (f"{name}-{number}" for number in count(2)))):
        journal = journal_path_for(document)
        if not (os.path.lexists(journal) or os.path.lexists(document)):
            break
        if _begins_with(journal, lines):
            if not document.exists():
                _write_document(document, run)
            return Imported(document, "unchanged")
    path = create_whole_journal(document.absolute(), lines)
    _write_document(path, run)
    return Imported(path, "written")


def _begins_with(journal: Path, lines: list[bytes]) -> bool:
    """Return whether a journal begins with these lines."""
    try:
        with journal.open("rb") as file:
            return all(file.read(len(line)) == line for line in lines)
    except ours(OSError):
        return False


def _is_written(document: Path, journal: Path) -> bool:
    """Whether the document was written after its journal. A process may have been killed between the two writes."""
    try:
        return document.stat().st_mtime_ns >= journal.stat().st_mtime_ns
    except ours(OSError):
        return False


def _candidates(directory: Path, format_name: str, file: str, identity: str) -> Iterator[Path]:
    """Yield the paths that the document of a run may have.

    The first path has the id in its name. The second path also has a digest of the file and the id. Two ids may give
    the same name, for example two ids in Chinese. Each further path also has a number.
    """
    document = directory / _name(format_name, identity)
    digest = hashlib.sha256(f"{file}\0{identity}".encode("utf-8", "replace")).hexdigest()[:12]
    yield document
    yield document.with_name(f"{document.stem}-{digest}.json")
    yield from (document.with_name(f"{document.stem}-{digest}.{number}.json") for number in count(1))


def _write_document(document: Path, run: ReadRun) -> None:
    WholeDocument(journal_path_for(document), "auto", status=run.status).write(document)


def _origin_of(journal: Path) -> Members | None:
    """Return the source that the first record of a journal states, or None if the run was not imported."""
    try:
        with journal.open("rb") as file:
            first = next(read_records(file.readline()), None)
    except ours(OSError):
        return None
    if not isinstance(first, Record) or not isinstance(first.fact, StartFact):
        return None
    origin = first.fact.metadata.get(IMPORTED_FROM)
    if not isinstance(origin, dict):
        return None
    return origin


def _ends_as_imported(journal: Path) -> bool:
    """Whether the last record of a journal is the end of the run.

    Otherwise something was appended, such as a reward.
    """
    with journal.open("rb") as file:
        file.seek(max(0, journal.stat().st_size - _TAIL_BYTES))
        last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    return any(isinstance(line, Record) and isinstance(line.fact, FinalizeFact) for line in read_records(last))


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
