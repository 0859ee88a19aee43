"""One open run: writes its records and has its document updated.

Every fact passes through `append`, `append_body` or `append_lists`. Each of these masks secrets, writes to the journal
while it holds the run's lock, and then has the document written. The callers make the facts: the recorder, its steps
and tools, and `capture/`. A run belongs to the process that opened it.

`storage/fact_writer.py` makes records of facts. `_lock` is held while a record is written, and during each call of the
item encoder and the journal, which have no locks of their own. Masking, `ItemEncoder.prepare` and `changes_of` need no
lock. The caller may hold the lock of its response. The document and deferred records are written after `_lock` is
released, because they take other locks ("Locks and their order", docs/architecture.md). A signal handler may call any
method in the middle of another method, in the same thread.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NoReturn, get_args
from zlib import crc32

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS
from trace_recorder.clocks import monotonic_seconds, now
from trace_recorder.errors import AlreadyFinalizedError
from trace_recorder.facts import Fact, FinalizeFact, Itemized, StartFact
from trace_recorder.guard import Guard, ignore_failures
from trace_recorder.locks import new_lock
from trace_recorder.reading.live_document.writer import DocumentWriter
from trace_recorder.recording.given_names import GivenNames
from trace_recorder.recording.limits import Limits
from trace_recorder.recording.process import NOT_PICKLED
from trace_recorder.recording.repeated_elements import RepeatedElements
from trace_recorder.recording.run_texts import RunTexts
from trace_recorder.recording.unfinished import UnfinishedWork
from trace_recorder.signal_handlers import suppress
from trace_recorder.storage import paths
from trace_recorder.storage.fact_writer import FactWriter, fact_text, record_of
from trace_recorder.storage.items.conversation_prefix import ListChanges
from trace_recorder.storage.items.encoder import MIN_PREPARED_BYTES, Encoded
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_lines import NewRecord, encode_record
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.values.final_status import FinalStatus
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import replace

CAPTURED_CALL_KINDS = frozenset(
    {
        *("llm_request", "llm_stream", "llm_response", "llm_error"),
        *("websocket_start", "websocket_frames", "websocket_end"),
    }
)
"""The kinds of the records of captured calls. After such a record, the document thread updates the document later."""
_KINDS_BEFORE_CALL_END = frozenset({"llm_request", "llm_stream", "websocket_start", "websocket_frames"})

IdKind = Literal["llm", "step", "agent", "tool", "mcp", "websocket"]

_RUN_TEXT_KINDS = ("start", "annotation")
MOST_CALL_NAMES = 64
"""A run remembers the masked names of at most this many models."""
RECREATE_RETRY_SECONDS = 1.0
"""A failed attempt to recreate a removed journal is repeated after this time, because copying may take long."""


class Run:
    """The open files of one run. All records pass through this class. Its methods raise OSError, so callers guard them.

    Capture uses `redaction` for the texts that it writes in parts.
    """

    def __init__(
        self, journal: Journal, document: Path, redaction: Redaction, guard: Guard, *, history: str, limits: Limits
    ) -> None:
        self.trajectory_id = uuid.uuid4().hex
        self.guard = guard
        self.limits = limits
        self.pid = os.getpid()
        self.began = monotonic_seconds()
        self.closed = self._document_complete = self.abandoned = self.has_calls = self.has_calls_by_hand = False
        self._begin: StartFact | None = None
        self._journal = journal
        self.redaction = redaction
        self._learned: tuple[list[str], list[str]] = [], []
        self._lock = new_lock()
        self._facts, self._elements = FactWriter(redaction), RepeatedElements()
        self._texts = RunTexts()
        self._names = GivenNames(redaction)
        self.call_names: dict[tuple[str, str | None], dict[str, Payload]] = {}
        """The provider and the model of captured calls, with the masked members that name them. `learn` empties it."""
        self._numbers = {kind: itertools.count(1) for kind in get_args(IdKind)}
        self._exiting = False
        self._recreate_after = 0.0
        self.unfinished = UnfinishedWork()
        self.document = document
        self._closing_thread = 0
        protect = guard.protect("write the document", costs_record=False)
        sync, in_place = journal.sync, journal.is_in_place
        self._writer = DocumentWriter(
            journal.path, document, history, protect, sync=sync, in_place=in_place, limits=limits.document
        )

    def __reduce__(self) -> NoReturn:
        """Raise TypeError, because a run, or an object that has one, such as a step, cannot leave its process."""
        raise TypeError(NOT_PICKLED)

    def start(self, fact: StartFact) -> None:
        """Write the first record: the schema version, the process, and the caller's description of the run."""
        self._begin = fact
        with self._lock:
            self._prepare()
        self._after_record(fact.kind)

    def append(
        self, fact: Fact, written: Callable[[], None] | None = None, *, at_once: bool = True, is_ours: bool = False
    ) -> None:
        """Write one record, then the document.

        Secrets in the foreign members of the fact are masked. Its member `redacted` is the number of secrets that were
        masked in its own members. `written` is called when the record is on file, even if Ctrl-C interrupts this method
        right after the write. If `at_once` is False, or the record belongs to a captured call, the document thread
        writes the document later. If `is_ours` is True, the foreign members are the recorder's own words, and are
        not masked.
        """
        if self.abandoned:
            return  # checked before the lock is taken: a thread of the parent may have held it at the fork
        kind, text = fact.kind, fact_text(fact, "nothing" if is_ours else "foreign members")
        record: NewRecord | None = None
        if text.length > MAX_UNINTERRUPTED_CHARS and kind in CAPTURED_CALL_KINDS:
            text = self._facts.mask(text)  # without the lock, so that other threads can record
            record = encode_record(record_of(text))
        with self._lock:
            if self._begin is not None or self.closed or self.guard.failures:
                self._prepare()
            if record is None:
                text = self._facts.mask(text)
                record = record_of(text)
            seq = self._journal.next_seq
            try:
                self._journal.append_all([record], now())
            finally:
                if written is not None and self._journal.next_seq > seq:
                    written()
            if kind in _RUN_TEXT_KINDS:
                self._texts.keep(seq, text.foreign)
            # after a record of a captured call, the next request recreates the journal
            if self._journal.is_removed and kind not in CAPTURED_CALL_KINDS:
                self._recreate_journal()
        self._after_record(kind, at_once=at_once)

    def append_body(self, fact: Itemized, body: bytes, changes: ListChanges | None = None) -> None:
        """Write a fact with this JSON object as its `body`. Elements of its lists become items. Raises NotJsonError.

        `changes` is the result of `changes_of` if the body was compared already.
        """
        items = self._facts.items
        # large strings are found without the lock, so that other threads can record
        prepared = None
        if len(body) > MIN_PREPARED_BYTES:
            prepared = items.prepare(body, changes)
        self._append_with_items(fact, lambda: items.encode(body, prepared))

    def append_lists(self, fact: Itemized, lists: Mapping[str, object]) -> None:
        """Write a fact with lists of messages and tools as its `body`. Only their new elements are copied."""
        elements = {name: self._elements.elements_of(value) for name, value in lists.items()}
        items = self._facts.items
        self._append_with_items(fact, lambda: items.encode_lists(elements))
        self._elements.remember(elements.values())

    def _append_with_items(self, fact: Itemized, encode: Callable[[], Encoded]) -> None:
        if self.abandoned:
            return
        records: list[NewRecord] | None = None
        with self._lock:
            if self._begin is not None or self.closed or self.guard.failures:
                self._prepare()
            encoded = encode()
            texts = self._facts.take_apart(fact, encoded)
            if sum([text.length for text in texts]) <= MAX_UNINTERRUPTED_CHARS:
                records = self._facts.records(texts)
                encoded.mark_written(self._journal.append_all(records, now()))
                if self._journal.is_removed:
                    self._recreate_journal()
        if records is None:  # masking a long text takes long, so the lock is not held
            records = [encode_record(record) for record in self._facts.records(texts)]
            with self._lock:
                self._prepare()
                encoded.mark_written(self._journal.append_all(records, now()))
                if self._journal.is_removed:
                    self._recreate_journal()
        self._after_record(fact.kind)

    def changes_of(self, body: bytes) -> ListChanges | None:
        """Compare a request with earlier ones. Return None if it probably changes none of them."""
        return self._facts.items.changes_of(body)

    def _after_record(self, kind: str, *, at_once: bool = True) -> None:
        """Write the records that were deferred, and the document if it is due. Call this without the run's lock."""
        if self.unfinished.deferred or self.unfinished.abandoned_ids:
            self.unfinished.settle()
        if self._exiting:  # no thread can be started any more to write the document
            is_due = kind not in _KINDS_BEFORE_CALL_END
        else:
            is_due = self._writer.is_due(self._journal.end, at_once=at_once and kind not in CAPTURED_CALL_KINDS)
        if is_due:
            self._write_document()

    def _write_document(self) -> None:
        """Write the document now. Close the run's files if a signal handler has ended the run meanwhile."""
        try:
            self._writer.save()
        finally:
            if self._closing_thread == threading.get_ident() and not self._writer.is_writing_here():
                self._closing_thread = 0
                self.close_files()

    def _prepare(self) -> None:
        """Write the run's first record and its failures, if they are not on file yet. Raises AlreadyFinalizedError."""
        if self.closed:
            raise AlreadyFinalizedError("this record belongs to a run that has been finalized")
        if self._begin is not None:  # the first record must come before all others
            self._append_required(self._begin, replace(self._begin, task=None, metadata={}))
            self._begin = None
        if self.guard.failures:
            self._write_gaps()

    def _recreate_journal(self) -> None:
        """Recreate a removed journal, with the records that were written to the open file after the removal.

        While this fails, new records go to the removed file too, which is still open. A new attempt is made once a
        second.
        """
        if monotonic_seconds() < self._recreate_after:
            return
        self._recreate_after = monotonic_seconds() + RECREATE_RETRY_SECONDS
        what = "keep the journal where it was"
        with self.guard.protect(what, costs_record=False):
            paths.make_directory(self._journal.path.parent, sync=self._journal.sync)
            self._journal.recreate()
            self._recreate_after = 0.0
            why = f"{self._journal.path} was removed, and was created again with all its records"
            self.guard.record_failure(what, FileNotFoundError(why), costs_record=False)
        self._write_gaps()

    def _append_required(self, fact: StartFact | FinalizeFact, bare: Fact) -> None:
        """Write a record that every journal needs.

        If its text cannot be masked, the text of `bare` is written instead.
        """
        text = None
        with self.guard.protect(f"mask the text of the {fact.kind} record"):
            text = self._facts.mask(fact_text(fact))
        if text is None:
            text = self._facts.mask(fact_text(bare, "nothing"))
        seq = self._journal.next_seq
        self._journal.append(*record_of(text), now())
        if fact.kind in _RUN_TEXT_KINDS:
            self._texts.keep(seq, text.foreign)

    def _write_gaps(self) -> None:
        failures = self.guard.failures
        while failures:
            failure = failures[0]
            times = failure.count
            gap = self._facts.record_of_failure(failure.time, failure.what, failure.describe())
            self._journal.append(*gap, now())
            failure.reported = times
            failures.popleft()

    def learn(self, keys: list[str], cookies: list[str]) -> None:
        """Mask these values from now on, and in the earlier records about the run itself."""
        if (keys, cookies) == self._learned:
            return
        new = self.redaction.learn(keys, cookies)
        self._learned = keys, cookies
        self.call_names = {}
        if new and not self.abandoned:
            with self._lock:
                for redaction in self._texts.mask_again(self._facts.mask):
                    if not self.closed:
                        self._journal.append(*record_of(redaction), now())

    def named(self, **names: object) -> dict[str, Payload]:
        """Copy names that the user gave, with the secrets in them masked. `redacted` is the number of masks."""
        return self._names.mask(names)

    def next_id(self, kind: IdKind = "llm") -> str:
        """Return a new id, unique in this run: of an interaction, a step, an agent, a tool, or a connection."""
        self.has_calls = self.has_calls or kind == "llm"
        return f"{kind}_{next(self._numbers[kind])}"

    @property
    def is_long(self) -> bool:
        """Whether writing the document takes too long to be done in an event loop."""
        return self.journal_bytes > self.limits.document.at_once_bytes

    def save(self) -> None:
        """Write the document now."""
        if not self.abandoned:
            self._write_document()

    def leave_document(self, has_time: Callable[[], bool]) -> None:
        """Write no document until the caller, who has ended the run by `finish`, calls `close_files`.

        When `has_time` returns False, the last document is not written either: its file stays as it is.
        """
        self._writer.leave_until_close(has_time)

    def finish(self, ending: FinalStatus, final_result: object = None) -> None:
        """Write the last record and document, and close the files. Later records raise AlreadyFinalizedError."""
        if self.abandoned:
            return
        self.unfinished.settle()
        for work in self.unfinished.all():
            work.wait()
            work.end_with_run()
        self.unfinished.clear()
        with self._lock:
            if self.closed:
                return
            self._end(ending, final_result)
            self.closed = True
        if self._writer.is_writing_here():
            self._write_separately()
            self._closing_thread = threading.get_ident()
        elif not self._writer.is_left:
            self.close_files()

    def close_files(self) -> bool:
        """Write the last document, and close the files, after `finish`. Return whether there was time to do so."""
        had_time = self._writer.close()
        self._document_complete = True
        with self.guard.protect("close the journal"):
            self._journal.close()
        if self.guard.failures:
            with ignore_failures:
                self._write_late_gaps()
        # to free memory while the recorder lives
        self._facts, self._elements = FactWriter(self.redaction), RepeatedElements()
        return had_time

    @property
    def journal_bytes(self) -> int:
        """The size of the journal, by which the cost of its document can be compared."""
        return self._journal.end

    def _write_late_gaps(self) -> None:
        """Record failures to close the files. Such a failure may be the error of an earlier write."""
        self._journal.reopen()
        try:
            self._write_gaps()
            self._writer.save()
        finally:
            self._journal.close()

    def _write_separately(self) -> None:
        """Write the last document to a temporary file of its own.

        A signal handler that interrupted this thread in a write of the document calls this. The interrupted write may
        never continue.
        """
        with self.guard.protect("write the document", costs_record=False):
            self._writer.write_aside(self.document.with_name(f".{self.pid}.{crc32(b'aside'):08x}.tmp"))

    def exit(self, ending: FinalStatus) -> None:
        """Write a last record and the document, because the interpreter exits, but keep the files open.

        Daemon threads may still record after that. The system releases the journal's lock when the process ends.
        """
        if self.closed and not (self.abandoned or self._document_complete):  # an interrupt came during the closing
            self.close_files()
        if self.abandoned or self.closed:
            return
        self.unfinished.end_abandoned()
        for work in self.unfinished.all():
            work.wait()
            work.write_pending(last=True)
        with self._lock:
            self._exiting = True
            self._end(ending)
        self._writer.save()

    def _end(self, ending: FinalStatus, final_result: object = None) -> None:
        with self.guard.protect("record the end of the run"):
            self.guard.note_recovery()
            # after an interruption, a directory that the agent removed is not made again
            is_interrupted = ending.status == "interrupted"
            self._recreate_after = math.inf if is_interrupted else 0.0
            self._prepare()
            seconds = round(monotonic_seconds() - self.began, 6)
            end = FinalizeFact(
                status=ending.status,
                success=ending.success,
                execution_time=seconds,
                final_result=to_jsonable(final_result),
                error=None if ending.error is None else to_jsonable(ending.error),
            )
            self._append_required(end, replace(end, final_result=None, error=None))
            if self._journal.is_removed:
                self._recreate_journal()
            self._write_gaps()

    def abandon(self) -> None:
        """Close this fork's handle of the journal, and write nothing more. The parent process keeps its lock."""
        self.closed = self.abandoned = True
        with suppress(OSError):
            self._journal.close()
