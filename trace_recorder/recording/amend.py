"""Appends records to the journal of an ended run, such as a reward or the exit code of the run's process.

Existing records are not changed. New records follow the last one, and have the next numbers. Meanwhile this process
holds the lock that the run's writer held. A run is refused if its writer is, or may be, still running. After the new
records, the document is written again from the whole journal. The existing document is kept if the new document would
contain less, for example because a line of the journal is damaged.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from trace_recorder.clocks import now
from trace_recorder.errors import RecorderStateError
from trace_recorder.facts import AnnotationFact, Fact, FinalizeFact, RewardFact, StartFact
from trace_recorder.reading.live_document.whole_document import PoorerDocumentError, WholeDocument, document_json
from trace_recorder.reading.own_files import fold_journal
from trace_recorder.storage.content_tiers.tiers import Content, redaction_for
from trace_recorder.storage.fact_writer import FactWriter
from trace_recorder.storage.file_system import BINARY, lock
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.paths import document_path_for, journal_path_for, temporary_path
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.jsonable import member_name, to_jsonable
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Status


def append_rewards(path: Path, rewards: Iterable[Mapping[str, Payload]]) -> None:
    """Append rewards to the journal of an ended run, and write the run's document again.

    `path` is the run's journal or document. A reward has `name` and `value`, and may have `weight`, `step_number` and
    `explanation`. Secrets in the explanation are masked. On return both files are written. Raises RecorderStateError if
    the run is, or may be, still running, or has no journal. Also raises RecorderStateError if the new document would
    contain less than the existing one; then the rewards are only in the journal. Raises the exceptions of `load`, and
    OSError if a file cannot be written.
    """
    with _open_to_amend(path) as writer:
        for reward in rewards:
            members = {"weight": 1.0, "step_number": None, "explanation": None, **reward}
            _append(writer, RewardFact(**{name: to_jsonable(value) for name, value in members.items()}))


def rebuild_document(path: Path, *, force: bool = False) -> Path:
    """Write the document of an ended run again, from the run's journal, and return the document's path.

    If `force` is True, the document is written even if it will contain less than the existing document. Raises the same
    exceptions as `append_rewards`.
    """
    document, journal_path = document_path_for(path), journal_path_for(path)
    if not journal_path.is_file():
        raise RecorderStateError(
            f"{path} has no journal next to it ({journal_path.name}) from which it can be rebuilt."
        )
    with _open_and_lock(journal_path) as (_, status):
        problem = _write_document(journal_path, document, status, force=force)
    if problem is not None:
        raise RecorderStateError(problem)
    return document


def append_annotation(path: Path, key: str, value: Payload) -> None:
    """Append an annotation to the journal of an ended run, with secrets masked. `value` is a JSON value.

    The document is written again. Raises the same exceptions as `append_rewards`.
    """
    with _open_to_amend(path) as writer:
        _append(writer, AnnotationFact(key=member_name(key), value=to_jsonable(value)))


def append_end(path: Path, exit_code: int, status: Status | None = None, error: Payload = None) -> None:
    """Append the exit code of a run's process as an annotation. If `status` is given, append a `finalize` record too.

    The `success` in that record is False if the status is "failed", and null for any other status. Raises the same
    exceptions as `append_rewards`.
    """
    exit_annotation = AnnotationFact(key="exit_code", value=exit_code)
    if status is None:
        with _open_to_amend(path) as writer:
            _append(writer, exit_annotation)
        return
    with _open_to_amend(path, replaced=("final_result", "success", "error")) as writer:
        _append(writer, exit_annotation)
        end = FinalizeFact(
            status=status,
            success=False if status == "failed" else None,
            execution_time=_seconds(writer.path),
            final_result=None,
            error=to_jsonable(error),
        )
        _append(writer, end)


def _seconds(path: Path) -> Payload:
    """Return how many seconds a run took, or the seconds until now if its journal has no end."""
    _, fold = fold_journal(path)
    if fold.run.end is not None:
        return fold.run.end.execution_time
    if fold.run.start is None:
        return 0.0
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(fold.run.start_time)).total_seconds())


@contextlib.contextmanager
def _open_to_amend(path: Path, replaced: Iterable[str] = ()) -> Iterator[Journal]:
    """Open the journal of an ended run. After the block, write the document again.

    `path` is the run's journal or document. `replaced` names the members of the document that the new records replace.
    """
    document, journal_path = document_path_for(path), journal_path_for(path)
    if not journal_path.is_file():
        raise RecorderStateError(
            f"{path} has no journal next to it ({journal_path.name}). Later records are appended to a journal, so a "
            "document alone cannot be amended."
        )
    with _open_and_lock(journal_path) as (writer, status):
        yield writer
        problem = _write_document(journal_path, document, status, replaced)
    if problem is not None:
        raise RecorderStateError(f"The new records are in {journal_path.name}. {problem}")


def _write_document(
    journal_path: Path, document: Path, status: Status, replaced: Iterable[str] = (), *, force: bool = False
) -> str | None:
    """Replace the document with a new one, which is made from the whole journal.

    If the new document lacks a value that the existing document has, keep the existing document, and return a message.
    """
    history = "auto"
    if document_json(document).get("history") == "delta":
        history = "delta"
    new_document = WholeDocument(journal_path, history, status=status)
    if force:
        new_document.write(document)
        return None
    try:
        new_document.write_unless_poorer(document, temporary_path(document), replaced=replaced)
    except PoorerDocumentError as error:
        return (
            f"{document} is unchanged, because its journal has less than the document: {error}. `trace-recorder "
            "validate` reports what is damaged. `trace-recorder recover --force` writes the document nevertheless."
        )
    return None


def _append(writer: Journal, fact: Fact) -> None:
    """Write a fact, with the secrets in all of its members masked and counted, and as much content as the run has."""
    redaction = redaction_for(_content_of(writer.path), default_redactor)
    writer.append(*FactWriter(redaction).record(fact, "all members"), now())


def _content_of(journal_path: Path) -> Content:
    with journal_path.open("rb") as file:
        first = next(read_records(file.readline()), None)
    if isinstance(first, Record) and isinstance(first.fact, StartFact):
        return first.fact.content or "full"
    return "full"


@contextlib.contextmanager
def _open_and_lock(path: Path) -> Iterator[tuple[Journal, Status]]:
    """Open and lock the journal of an ended run, to append to it. Yield the writer and the run's status."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | BINARY)
    writer = Journal(fd, path)
    try:
        if lock(fd) is False:  # on a file system without locks, `_status` decides whether the run has ended
            raise RecorderStateError(f"{path} is still being written. Amend the run when it has ended.")
        status = _status(path)
        data = path.read_bytes()
        writer.next_seq = 1 + max(
            (record.seq for record in read_records(data) if isinstance(record, Record)), default=0
        )
        if not writer.is_in_place():
            raise RecorderStateError(f"{path} was moved meanwhile; nothing was written. Try again.")
        if data and not data.endswith(b"\n"):  # end a torn line, so that the next record has its own line
            os.write(fd, b"\n")
        yield writer, status
    finally:
        writer.close()


def _status(path: Path) -> Status:
    """Return the status of a run whose journal we have locked.

    If the journal has no end but was written on this host, its writer has ended, and the run is "interrupted".
    """
    trajectory, fold = fold_journal(path)
    if fold.run.end is not None:
        return trajectory.status
    if fold.run.start is None:
        raise RecorderStateError(
            f"{path} has no readable beginning, so it is unknown which run it is, and whether the process of the run "
            "has ended. `trace-recorder validate` reports what is damaged."
        )
    if trajectory.status == "unknown":
        raise RecorderStateError(
            f"{path} has no end, and its writer was on another host, where the run may still be open. Amend it there."
        )
    return "interrupted"
