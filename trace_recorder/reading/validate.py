"""Checks whether the files of a run are complete, well-formed, and consistent with themselves and each other.

`validate` only reads. A finding is an error if data was lost or changed, or contradicts other data. A finding is a note
if nothing is wrong, but a reader may want to know the fact. An example is a journal whose last line is cut off because
the process was killed. `schemas/violations.py` checks the types and members in a file, and the fold checks whether the
records can be used.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import (
    ABSENT,
    KINDS,
    DeltaList,
    Itemized,
    ItemNumbers,
    LLMRequestFact,
    LLMResponseFact,
    LLMStreamFact,
    RedactionFact,
    StartFact,
)
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.document import from_document
from trace_recorder.reading.document_agreement import first_difference
from trace_recorder.reading.exchange_facts import ExchangeFacts
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.run_facts import MISSING_LINES
from trace_recorder.reading.schemas.violations import violations
from trace_recorder.signal_handlers import ours
from trace_recorder.storage import journal_reader, paths
from trace_recorder.storage.byte_order_marks import without_mark
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import VERSION, BadLine, Record
from trace_recorder.storage.redaction.secret_spans import ANY_MASK
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, parse
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError)


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a note.

    `where` is the place, such as "journal, record 17 (llm_request)", and `what` describes the finding.
    """

    severity: Literal["error", "note"]
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Report:
    """The findings for the files of one run, and how many records and interactions were examined."""

    path: Path
    findings: tuple[Finding, ...]
    records: int = 0
    interactions: int = 0

    @property
    def ok(self) -> bool:
        """Whether no finding is an error. Notes are allowed."""
        return all(finding.severity != "error" for finding in self.findings)


def validate(path: str | Path) -> Report:
    """Check that the files of a run are complete and well-formed, and agree with each other.

    `path` is the document or the journal. Nothing is written. The report has `ok`, and `findings`, each with
    `severity`, `where` and `what`. Raises OSError if the file cannot be read. Any fault of the file's content is a
    finding, and not an exception.

    Examples:
        >>> validate("trajectories/run.json").ok
        True
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    journal_path = paths.journal_path_for(path)
    if not journal_path.is_file():
        return Report(path, tuple(_Document().findings(without_mark(path.read_bytes()))))
    data = without_mark(journal_path.read_bytes())
    lines = list(journal_reader.read_records(data))
    records = [line for line in lines if isinstance(line, Record)]
    refused = _refusal_of(lines, records)
    if refused:
        return Report(path, (refused,), len(records))
    fold = Fold()
    findings = [
        *_check_journal(data, lines, records, fold),
        *_check_document(paths.document_path_for(journal_path), fold, lines),
    ]
    return Report(path, tuple(findings), len(records), len(fold.calls))


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _refusal_of(lines: Sequence[Record | BadLine], records: Sequence[Record]) -> Finding | None:
    """Return the finding that prevents any further validation of the journal, or None."""
    if not records and any(not line.torn for line in lines if isinstance(line, BadLine)):
        return Finding("error", "journal", "no line is a record of this package")
    if not records:
        return Finding("error", "journal", "it has no complete record")
    start = records[0].fact
    if isinstance(start, StartFact) and start.version > VERSION:
        why = f"it has version {start.version}, and {VERSION} is the newest that this version knows"
        return Finding("error", "journal", why)
    return None


def _check_journal(
    data: bytes, lines: Sequence[Record | BadLine], records: Sequence[Record], fold: Fold
) -> Iterator[Finding]:
    shaped = {record.offset: list(_check_shape(record, data)) for record in records}
    sound = [record for record in records if not any(each.severity == "error" for each in shaped[record.offset])]
    for line in lines:
        findings: list[Finding] = []
        if isinstance(line, Record):
            findings = shaped[line.offset]
        yield from findings
        yield from _add_to_fold(line, fold, reported=bool(findings))
    yield from _check_sequence(records)
    calls = fold.calls.values()  # now all lists to which later lists refer have been read
    items = _ReadableItems(fold.items)
    for record in sound:
        yield from _check_items(record, items)
    yield from _check_masking(sound)
    by_seq = {record.seq: record for record in records}
    for call in calls:
        if isinstance(call, CallFacts) and call.sent is None:
            place = _place_of(by_seq[call.first_seq])
            yield Finding("error", place, f"the request of {call.interaction_id} is missing")
    yield from _check_streams(sound)
    if fold.run.end is None:
        yield Finding("note", "journal", "the run has no end on file: it is still running, or it was killed")


def _check_shape(record: Record, data: bytes) -> Iterator[Finding]:
    line = journal_reader.json_of_line(data[record.offset : record.offset + record.length])
    yield from (Finding("error", _place_of(record), what) for what in violations("journal", line))
    if record.kind not in KINDS:
        yield Finding("note", _place_of(record), "a record of a kind that this version does not know")


def _add_to_fold(line: Record | BadLine, fold: Fold, *, reported: bool) -> Iterator[Finding]:
    """Add a line to the fold. Yield a finding if the line could not be used."""
    before = len(fold.run.gaps)
    fold.add([line])
    severity: Literal["error", "note"] = "error"
    if isinstance(line, BadLine):
        if line.torn:
            severity = "note"
        yield Finding(severity, f"journal, byte {line.offset}", f"{line.length} bytes: {line.why}")
    elif not reported:
        if line.kind == "gap":
            severity = "note"
        # `_check_sequence` reports missing records.
        gaps = [gap for gap in fold.run.gaps[before:] if gap.what != MISSING_LINES]
        yield from (Finding(severity, _place_of(line), f"{gap.what}: {gap.why}") for gap in gaps)


def _check_sequence(records: Iterable[Record]) -> Iterator[Finding]:
    last = 0
    for record in records:
        if record.seq <= last:
            yield Finding(
                "error", _place_of(record), f"its number is not greater than {last}, the number of the record before it"
            )
        elif record.seq == last + 2:
            yield Finding("error", _place_of(record), f"missing before it: record {last + 1}")
        elif record.seq > last + 2:
            missing = f"records {last + 1} to {record.seq - 1}"
            yield Finding("error", _place_of(record), f"missing before it: {missing}")
        last = record.seq


class _ReadableItems:
    """The items that requests have. Each is looked up once.

    All items below `_end` can be read, and those in `_others`. So a request costs what is new in it, because a journal
    has its items in the order of their numbers.
    """

    def __init__(self, items: ItemTable) -> None:
        self._items = items
        self._end = 0
        self._others: set[int] = set()

    def look_up(self, name: str, part: ItemNumbers | int) -> None:
        """Look up the items of a member of a request. Raises KeyError if an item is missing."""
        if isinstance(part, int):
            numbers: Iterable[int] = filter(self._end.__le__, (part,))
        else:
            listed = self._items.numbers(name, part)  # checks the ranges
            if isinstance(part, DeltaList):
                numbers = filter(self._end.__le__, listed)
            else:
                numbers = chain.from_iterable(range(max(first, self._end), last + 1) for first, last in part)
        for number in {*numbers} - self._others:
            self._items.element(number)
            self._others.add(number)
        while self._end in self._others:
            self._others.remove(self._end)
            self._end += 1


def _check_items(record: Record, items: _ReadableItems) -> Iterator[Finding]:
    """Yield an error if a request cannot be put together from its items."""
    fact = record.fact
    if not isinstance(fact, Itemized) or fact.items is None:
        return
    try:
        for name, part in fact.items.items():
            items.look_up(name, part)
        dict(fact.body)
    except _UNREADABLE:
        yield Finding(
            "error", _place_of(record), "it cannot be put together: a record that it needs is damaged or missing"
        )


def _check_masking(records: Sequence[Record]) -> Iterator[Finding]:
    """Yield a note for each record with a secret that became known only after the record was written.

    The document masks this secret.
    """
    by_seq = {record.seq: record for record in records}
    for record in records:
        if isinstance(record.fact, RedactionFact) and record.fact.of in by_seq:
            what = f"it has a value that became known as a secret later, before record {record.seq}"
            yield Finding("note", _place_of(by_seq[record.fact.of]), f"{what}; the document masks it")


def _check_streams(records: Iterable[Record]) -> Iterator[Finding]:
    """Assemble each stream again, and compare the result with the assembled response on file."""
    exchanges: dict[tuple[str, int], ExchangeFacts] = {}
    has_texts = True
    for record in records:
        fact = record.fact
        match fact:
            case StartFact():
                has_texts = fact.content != "none"
            case LLMRequestFact():
                exchanges[fact.interaction_id, fact.attempt] = ExchangeFacts(
                    fact.attempt, fact, record.time, dialect=fact.api
                )
            case LLMStreamFact():
                exchanges.setdefault((fact.interaction_id, fact.attempt), ExchangeFacts(fact.attempt)).add_part(fact)
            case LLMResponseFact():
                exchange = exchanges.setdefault((fact.interaction_id, fact.attempt), ExchangeFacts(fact.attempt))
                exchange.end(fact)
                if fact.assembled is ABSENT:
                    continue
                what = _fault_of_stream(exchange, fact, has_texts=has_texts)
                if what is not None:
                    yield Finding("error", _place_of(record), what)


def _fault_of_stream(exchange: ExchangeFacts, response: LLMResponseFact, *, has_texts: bool) -> str | None:
    """Return a description of the fault in the stream or in the assembled response of one exchange.

    Return None if there is no fault. If the run has no texts, the events have none, and the response has digests.
    """
    if exchange.stream_bytes() is None and (response.events or response.assembled):
        return "its stream is missing, or cannot be unpacked"
    if exchange.parts and exchange.parts[-1].chunk_ends is not None and exchange.raw_chunks() is None:
        return "the sizes and times of its stream's chunks do not fit the stream"
    if not has_texts or exchange.joined is None or _are_equal(response.assembled, exchange.joined.body):
        return None
    return "the assembled response differs from the response that its stream gives"


def _are_equal(written: Payload, again: Payload) -> bool:
    """Return whether two responses are equal, except for secrets that are masked only in `written`.

    If a secret spans several events of the stream, it is not masked in `again`.
    """
    first, second = json.dumps(written, sort_keys=True), json.dumps(to_jsonable(again), sort_keys=True)
    return first == second or bool(re.fullmatch(".+?".join(map(re.escape, ANY_MASK.split(first))), second, re.DOTALL))


def _place_of(record: Record) -> str:
    return f"journal, record {record.seq} ({record.kind})"


# ── the document ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_document(path: Path, fold: Fold, lines: Sequence[Record | BadLine]) -> Iterator[Finding]:
    """Check the document of a journal.

    It must equal the trajectory of the journal's first `journal_records` records.
    """
    try:
        trajectory = fold.trajectory("unknown")
    except _UNREADABLE as error:
        yield Finding("error", "journal", f"it cannot be read as a trajectory: {type(error).__name__}: {error}")
        return
    if not path.is_file():
        yield Finding("note", "document", f"there is no {path.name} next to the journal")
        return
    document = _Document()
    yield from document.findings(without_mark(path.read_bytes()))
    if document.is_sound:
        yield from _check_agreement(document.value, trajectory, fold, lines)


@dataclass(slots=True)
class _Document:
    """Checks a document without its journal.

    `value` is the JSON of the document. `is_sound` is True if `findings` found no error.
    """

    value: Payload = None
    is_sound: bool = False

    def findings(self, data: bytes) -> Iterator[Finding]:
        if not data:
            yield Finding("error", "document", "it is empty")
            return
        try:
            self.value = parse(data.decode(), MAX_DOCUMENT_DEPTH)
            from_document(self.value, "it")
        except TrajectoryFormatError as error:
            yield Finding("error", "document", str(error))
            return
        except ours(ValueError) as error:
            yield Finding("error", "document", f"it is not JSON: {error}")
            return
        if "schema_version" not in self.value:
            yield Finding("note", "document", "it has no schema_version: it was not written by this package")
            return
        violated = violations("document", self.value)
        self.is_sound = not violated
        yield from (Finding("error", "document", what) for what in violated)


_WITHOUT_END = ("running", "interrupted", "unknown")
"""The possible statuses in the document of a journal without a finalize record.

The status depends on when the document was written.
"""


def _check_agreement(
    document: Mapping[str, Payload], trajectory: Trajectory, fold: Fold, lines: Sequence[Record | BadLine]
) -> Iterator[Finding]:
    """Compare a document with the trajectory of the records that it covers."""
    covered, records = document.get("journal_records", trajectory.journal_records), fold.run.records
    if covered > records:
        yield Finding("error", "document", f"it covers {covered} records, and the journal has {records}")
        return
    if covered < records:
        yield Finding("note", "document", f"it covers {covered} of {records} records; `recover` completes it")
        trajectory = _beginning(lines, covered)
    if trajectory.end_time is None and document["status"] in _WITHOUT_END:
        trajectory = replace(trajectory, status=document["status"])
    place = first_difference(document, trajectory)
    if place is not None:
        yield Finding("error", "document", f"it differs from the journal: {place}")


def _beginning(lines: Sequence[Record | BadLine], count: int) -> Trajectory:
    """Return the trajectory of the first `count` records of a journal."""
    fold = Fold()
    for line in lines:
        if isinstance(line, Record) and fold.run.records == count:
            break
        fold.add([line])
    return fold.trajectory("unknown")
