"""Removes texts from a run after its end: the one way in which a journal is ever changed, at a person's order.

A new journal is written beside the old one, flushed to disk, and takes its name. Then the document is made again from
it. A crash at any moment leaves the old journal or the new one. If it leaves the new journal and the old document, the
next redaction notices that the document lacks the journal's last `removal`, and makes it again. Temporary files
have the names that all of a run's temporary files have, and the next redaction removes them. Both journals are locked
until the document is written, so no other process appends to one of them.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from trace_recorder.clocks import now
from trace_recorder.errors import RecorderStateError, RedactionRuleError
from trace_recorder.facts import RemovalFact
from trace_recorder.reading.document_agreement import describe_losses
from trace_recorder.reading.document_ends import document_ends
from trace_recorder.reading.live_document.whole_document import WholeDocument, document_json
from trace_recorder.reading.own_files import EXPECTED, NotOwnError
from trace_recorder.retention import leftovers
from trace_recorder.retention.derived_files import DerivedFiles
from trace_recorder.retention.leftovers import Leftover
from trace_recorder.retention.redaction_rules import RedactionRules
from trace_recorder.retention.removed_texts import Change, RemovedTexts
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.atomic_write import create_filled, replace_file, write_all
from trace_recorder.storage.fact_writer import fact_text, record_of
from trace_recorder.storage.file_system import Descriptor, close_ignoring_errors, lock, sync_directory, sync_file
from trace_recorder.storage.journal_lines import encode_lines
from trace_recorder.storage.paths import (
    document_path_for,
    journal_path_for,
    remove_temporary_files,
    temporary_path,
)
from trace_recorder.storage.rewritten_journal import RewriteCounts, RewrittenJournal
from trace_recorder.storage.text_edits import JsonToken, apply_edits, edit_json
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Removal, Status

DOCUMENT = "document"
"""The place of texts in a document that its journal does not have, or that has no journal."""


@dataclass(frozen=True, slots=True)
class RedactedRun:
    """What a redaction has changed in a run, or would change: how many places of which kinds of records.

    `removed` decides what is removed from this run. `leftovers` are the places that still have a text. `others` are the
    other runs in its directory and below, and temporary files, that have a text: `redact` names them, and changes none.
    `is_dry` is True if no byte was changed.
    """

    path: Path
    removed: RemovedTexts = field(repr=False, compare=False)
    places: Counter[str] = field(default_factory=Counter)
    leftovers: tuple[Leftover, ...] = ()
    others: tuple[Path, ...] = ()
    is_dry: bool = True

    @property
    def count(self) -> int:
        """How many places there are."""
        return self.places.total()


def redact(  # noqa: PLR0913 - one argument for each kind of rule
    run: str | Path,
    *,
    text: str | Iterable[str] = (),
    pattern: str | re.Pattern[str] | Iterable[str | re.Pattern[str]] = (),
    function: Change | Iterable[Change] = (),
    path: str | Iterable[str] = (),
    dry_run: bool = False,
) -> RedactedRun:
    """Remove texts from the files of an ended run, and from the index and the tables beside it.

    `text` is removed wherever it is, in every encoding that the package knows. `pattern` is a regular expression, and
    `function` gets each text and returns it changed. `path` is an address of a value, such as "llm_3.prompt[2]". Each
    may be one or several. The mask is "[REDACTED:removed]". If `dry_run` is True, count the places, and change no byte.
    The result has the `places` by the kinds of their records, the `leftovers`, which still have a text, and the
    `others`: runs beside this one that have it too. Repeating an interrupted redaction completes it.

    Raises RedactionRuleError for a rule that cannot be used, RecorderStateError if the run is, or may be, still
    written, the exceptions of `load`, OSError, and the exceptions of `function`.

    Examples:
        >>> redact("trajectories/run.json", text="no such text").count
        0
    """
    rules = RedactionRules(
        _listed("text", text, str),
        _listed("pattern", pattern, (str, re.Pattern)),
        _listed("function", function, Callable),
        _listed("path", path, str),
    )
    run = Path(run)
    redacted = redact_files(run, rules, dry_run=dry_run)
    if dry_run:
        return redacted
    derived = DerivedFiles([run], redacted.removed)
    for _ in derived.update():
        continue
    others = (*derived.others(),)
    left = derived.leftovers(others)
    return replace(redacted, leftovers=(*redacted.leftovers, *left), others=others)


def _listed(name: str, values: Any, kinds: Any) -> list[Any]:
    """Return several values of these kinds, or one, as a list. Raises RedactionRuleError for any other value."""
    listed: list[Any] = [values]
    if isinstance(values, Iterable) and not isinstance(values, kinds):
        listed = [*values]
    for value in listed:
        if not isinstance(value, kinds):
            raise RedactionRuleError(
                f"{name} cannot be of type {type(value).__name__}: give one rule, or a list of them"
            )
    return listed


def redact_files(run: Path, rules: RedactionRules, *, dry_run: bool = False) -> RedactedRun:
    """Remove texts from the files of one run, and look for what is left.

    Raises RecorderStateError if the run is, or may be, still written, NotOwnError for a file of another tool,
    RedactionRuleError if the run has no value at an address, OSError, and the exceptions of a function of the user.
    After an exception, the journal is the old one or the new one, and a repeated redaction completes it.
    """
    real = Path(os.path.realpath(run))
    document, journal = document_path_for(real), journal_path_for(real)
    for link in (document, journal):
        if link.is_symlink():
            raise RecorderStateError(
                f"{link} is a link, and would be replaced by a file. Redact the run that it leads to."
            )
    if not journal.is_file():
        return _redact_document(document, rules.removed_from(real), rules, dry_run=dry_run)
    with _locked(journal) as files:
        removed = rules.removed_from(real)
        if not dry_run:
            remove_temporary_files(document)
        redaction = _JournalRedaction(journal, document, removed, rules)
        places = redaction.count()
        if dry_run:
            return RedactedRun(run, removed, places)
        redaction.apply(files)
        checked = removed.without_functions()
        left = [*leftovers.in_name(run, checked), *leftovers.in_journal(journal, checked)]
        if document.is_file():
            left += leftovers.in_document(document, checked)
        return RedactedRun(run, removed, places, tuple(left), is_dry=False)


@contextmanager
def _locked(journal: Path) -> Iterator[ExitStack]:
    """Lock a journal in a block. Yield the files that are closed at its end. Raises RecorderStateError."""
    with ExitStack() as files:
        fd = os.open(journal, os.O_RDONLY)
        files.callback(close_ignoring_errors, fd)
        if lock(fd) is False:
            raise RecorderStateError(
                f"{journal} is still being written, and its writer has the file open. Redact it when the run has ended."
            )
        if not Descriptor(fd).has_name(journal):
            raise RecorderStateError(f"{journal} was replaced meanwhile; nothing was written. Try again.")
        yield files


class _JournalRedaction:
    """The redaction of one journal and its document, while the journal is locked."""

    def __init__(self, journal: Path, document: Path, removed: RemovedTexts, rules: RedactionRules) -> None:
        self._journal = journal
        self._document = document
        self._removed = removed
        self._rules = rules
        self._rewritten = RewrittenJournal(journal, removed)
        self._places: Counter[str] = Counter()
        self._status: Status = "interrupted"
        self._is_document_old = False
        self._ends: dict[str, Payload] = {}
        """The members of the document before its calls and after its steps."""

    def count(self) -> Counter[str]:
        """Return the places of the journal, and of the document if it has more. Raises RecorderStateError."""
        for _ in self._rewritten.lines():
            continue
        counts = self._rewritten.counts
        if not counts.records:
            raise NotOwnError(f"{self._journal} is not a journal of trace_recorder. {EXPECTED}")
        self._status = _status_of_ended(self._journal, counts)
        self._places = +counts.places
        if self._document.is_file():
            self._ends = document_ends(self._document) or {}
            self._is_document_old = len(self._ends.get("removals", ())) != counts.removals
            if not self._places and (self._may_have_more or any(leftovers.in_bytes(self._document, self._removed))):
                self._places = +Counter({DOCUMENT: edited_document(self._document, self._removed).places})
        return self._places

    @property
    def _may_have_more(self) -> bool:
        """Whether the document may have texts that its journal does not have."""
        counts = self._rewritten.counts
        return self._is_document_old or not counts.is_whole or self._ends.get("journal_records") != counts.records

    def apply(self, files: ExitStack) -> None:
        """Replace the journal if it changes, and then the document. `files` gets the new journal, which is locked."""
        if self._places.total() > self._places[DOCUMENT]:
            fd, _ = create_filled(
                temporary_path(self._document), self._fill, lambda filled: filled.replace(self._journal)
            )
            files.callback(close_ignoring_errors, fd)
            sync_directory(self._journal.parent)
        elif not (self._is_document_old or self._places):
            return
        if self._document.is_file():
            self._write_document()

    def _fill(self, fd: int) -> None:
        lock(fd)
        write_all(fd, self._rewritten.lines())
        fact = RemovalFact(rules=self._rules.names, places=self._rewritten.counts.places.total())
        write_all(fd, encode_lines([record_of(fact_text(fact))], self._rewritten.counts.last_seq + 1, now()))
        sync_file(fd)

    def _write_document(self) -> None:
        """Make the document again. If the old one had more than its journal, the old one is edited instead."""
        may_have_more = self._may_have_more
        history = "delta" if self._ends.get("history") == "delta" else "auto"
        new = WholeDocument(self._journal, history, status=self._status)
        if not may_have_more:
            new.write(self._document, sync=True)
            return
        edited = edited_document(self._document, self._removed)
        aside = temporary_path(self._document)
        try:
            new.write(aside, sync=True)
            if describe_losses(edited.value, document_json(aside)) is None:
                aside.replace(self._document)
                sync_directory(self._document.parent)
                return
        finally:
            aside.unlink(missing_ok=True)
        _write_edited(self._document, edited, self._rules)


def _status_of_ended(journal: Path, counts: RewriteCounts) -> Status:
    """Return the status of a run without an end on file. Raises RecorderStateError if it may still be written."""
    if counts.has_end or counts.removals:
        return "interrupted"
    if counts.start is None:
        raise RecorderStateError(
            f"{journal} has no readable beginning, so it is unknown whether its run has ended. `trace-recorder "
            "validate` reports what is damaged."
        )
    if counts.start.host is None:  # an imported run, which no process writes
        return "unknown"
    if counts.start.host != socket.gethostname():
        raise RecorderStateError(
            f"{journal} has no end, and its writer was on another host, where the run may still be open. Redact it "
            "there."
        )
    return "interrupted"


# ── documents without a journal ──────────────────────────────────────────────────────────────────────────────────────


class EditedDocument(NamedTuple):
    """The JSON of a document after its texts were removed, and how many places that are."""

    value: dict[str, Payload]
    places: int


_LISTS = frozenset({"llm_interactions", "agent_steps", "attempts", "tool_results", "gaps", "rewards", "removals"})
_STRUCTURE = frozenset(
    {
        *("trajectory_id", "parent", "status", "history", "start_time", "end_time", "timestamp", "api"),
        *("interaction_id", "interaction_ids", "execution_id", "parent_execution_id", "rules"),
    }
)


def _is_structure(token: JsonToken, _: str) -> bool:
    """Return whether a token of a document is a name of a member of the document itself, an id, or a time."""
    names = [key for key in token.path if isinstance(key, str)]
    return bool(names) and {*names[:-1]} <= _LISTS and (token.is_name or names[-1] in _STRUCTURE)


def edited_document(document: Path, removed: RemovedTexts) -> EditedDocument:
    """Return the JSON of a document without the removed texts. Raises NotOwnError for a file of another tool."""
    text = document.read_bytes().decode("utf-8-sig", "surrogateescape")
    try:
        value = json.loads(text)
    except ours(ValueError, RecursionError) as error:
        raise NotOwnError(f"{document} is not a trajectory: it is not JSON ({error}). {EXPECTED}") from None
    if not (isinstance(value, dict) and "llm_interactions" in value and "schema_version" in value):
        raise NotOwnError(
            f"{document} is a file of another tool, and stays as it is. Import it (`trace-recorder import`), redact "
            "the imported run, and remove this file."
        )
    edits, places = edit_json(text, "", removed, _is_structure)
    if edits:
        value = json.loads(apply_edits(text, edits))
    return EditedDocument(value, places)


def _redact_document(document: Path, removed: RemovedTexts, rules: RedactionRules, *, dry_run: bool) -> RedactedRun:
    edited = edited_document(document, removed)
    places = +Counter({DOCUMENT: edited.places})
    if dry_run:
        return RedactedRun(document, removed, places)
    remove_temporary_files(document)
    if edited.places:
        _write_edited(document, edited, rules)
    checked = removed.without_functions()
    left = (*leftovers.in_name(document, checked), *leftovers.in_document(document, checked))
    return RedactedRun(document, removed, places, left, is_dry=False)


def _write_edited(document: Path, edited: EditedDocument, rules: RedactionRules) -> None:
    removal = Removal(now(), tuple(rules.names), edited.places).to_document()
    value = {**edited.value, "removals": [*edited.value.get("removals", ()), removal]}
    members = [f"{json.dumps(name)}: {to_json(member)}" for name, member in value.items()]
    replace_file(document, [f"{{\n{text}\n}}\n".encode() for text in [",\n".join(members)]], sync=True)
