"""Writes a document from its journal: fold, render, temporary file, rename.

No data is kept in memory for the next write.

Calls and steps are written one after another into the file, and each item is read from its position in the journal. So
the memory of a write does not grow with the texts of messages and responses. The document covers all complete records
that the journal had when the write read it, and states how many. `document_calls.py` is imported when a journal has the
first record that is not about the run itself, so that the start of a run takes little time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.reading.live_document.document_thread import DEFAULT_LIMITS, DocumentLimits
from trace_recorder.reading.run_facts import NO_CONNECTIONS
from trace_recorder.reading.run_fold import RunFold
from trace_recorder.signal_handlers import ours
from trace_recorder.storage import journal_reader
from trace_recorder.storage.atomic_write import Buffer, SpooledBytes, replace_file
from trace_recorder.storage.items.table import JournalFile
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import Tally
from trace_recorder.values.trajectory import Gap, History, Status

if TYPE_CHECKING:
    from trace_recorder.reading.live_document.document_calls import DocumentCalls

_encode_lines = make_json_writer(",\n", ": ")


class PoorerDocumentError(OSError):
    """The old document is not replaced, because it has values that the journal lacks.

    The message of the exception names these values.
    """


class WholeDocument:
    """Writes the document of one journal, as the journal's file is now.

    The argument `history` is "inline", "delta" or "auto". If it is "auto", the document has deltas if all prompts
    together are larger than `inline_bytes`. The attribute `history` is the chosen form. `records` is how many records
    the document covers. `look` is called between two calls of the run. If `look` raises an exception, the write ends,
    and the old document stays.
    """

    def __init__(
        self,
        journal: Path,
        history: str,
        *,
        status: Status = "running",
        limits: DocumentLimits = DEFAULT_LIMITS,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._limits = limits
        self._status = status
        self._pause = partial(_pause, look)  # not a method, which would make a cycle of references
        self.journal_bytes = 0
        """How many bytes of the journal were read, in complete lines."""
        self.history: History = "inline"
        self._journal = JournalFile(journal)
        self._run_fold = RunFold()
        try:
            self._calls = self._read(measures=history == "auto")
            if history == "delta" or (self._calls is not None and self._calls.have_long_prompts()):
                self.history = "delta"
        except BaseException:
            self._journal.close()
            raise
        self.records = self._run_fold.run.records
        self.damage = self._run_fold.run.damage
        """How many damaged lines the journal has, plus how many ranges of missing lines."""

    def write(self, path: Path, *, sync: bool = False) -> None:
        """Write the document to `path`. Call this method only once, because it closes the journal.

        If OSError is raised, the existing document is unchanged.
        """
        with closing(self._journal), closing(SpooledBytes(path.parent)) as steps:
            replace_file(path, self._content(steps), sync=sync)

    def write_unless_poorer(self, path: Path, aside: Path, *, sync: bool = False, replaced: Iterable[str] = ()) -> None:
        """Write the document to `path`, unless the old document there has values that the new one lacks.

        The members `replaced` are not compared. `aside` is a temporary file. Raises PoorerDocumentError if the new
        document lacks a value, and OSError if a file cannot be written.
        """
        from trace_recorder.reading.document_agreement import describe_losses  # noqa: PLC0415 - a recorder rarely needs it

        with closing(self._journal):
            old = document_json(path)
            try:
                self.write(aside, sync=sync)
                lost = describe_losses(
                    {name: value for name, value in old.items() if name not in {*replaced}}, document_json(aside)
                )
                if lost is not None:
                    raise PoorerDocumentError(lost)
                aside.replace(path)
            finally:
                aside.unlink(missing_ok=True)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, *, measures: bool) -> DocumentCalls | None:
        """Read the complete lines of the journal block by block, and add them to the fold.

        Each block begins at the start of a line. If `measures` is True, the messages are measured. Return the calls,
        tools and steps, or None if all records are about the run itself.
        """
        calls: DocumentCalls | None = None
        offset, size = 0, MAX_UNINTERRUPTED_CHARS
        while data := self._journal.read(size, offset):
            whole = data.rfind(b"\n") + 1
            records = journal_reader.read_records(data[:whole], base=offset)
            if calls is not None:
                calls.add(records)
            else:
                self._run_fold.add(records)
                if self._run_fold.waiting:
                    make_calls = import_document_calls()
                    calls = make_calls(self._run_fold, self._journal, self._limits, self._pause, measures=measures)
            offset += whole
            if len(data) < size:
                break
            size = MAX_UNINTERRUPTED_CHARS if whole else size * 2
            self._pause()
        self.journal_bytes = offset
        return calls

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _content(self, steps: SpooledBytes) -> Iterator[Buffer]:
        """Yield the text of the document. `steps` keeps the texts of the steps until all calls are written."""
        run, calls = self._run_fold.run, self._calls
        first, counts, gaps, connections = None, Tally(), list[Gap](), NO_CONNECTIONS
        if calls is not None:
            first, connections = calls.first_made(), calls.connections()
        outline = run.outline(self._status, first)
        yield b"{\n" + _members(outline.head()) + b',\n"llm_interactions": ['
        if calls is not None:
            counts, gaps = yield from calls.content(self.history, steps)
        yield b'],\n"agent_steps": ['
        for part in steps.content():
            self._pause()
            yield part
        metrics = counts.metrics(run.redactions)
        outline = run.outline(self._status, None, metrics=metrics, gaps=gaps, connections=connections)
        yield from (b"],\n", _members(outline.tail(self.history)), b"\n}\n")


def import_document_calls() -> type[DocumentCalls]:
    """Import the class that reads and writes calls, tools and steps. The first time, this takes some 30 ms.

    `prepare` (`capture/seam.py`) does so before the first captured call.
    """
    from trace_recorder.reading.live_document.document_calls import DocumentCalls  # noqa: PLC0415 - `start` needs none

    return DocumentCalls


def _pause(look: Callable[[], None]) -> None:
    """Let other threads run, and call `look`, which may end the write by an exception."""
    yield_to_others()
    look()


def _members(document: dict[str, Payload]) -> bytes:
    """Encode members of the document's root, each on its own line, without the braces around them."""
    try:
        return _encode_lines(document)[1:-1].encode()
    except ours(UnicodeEncodeError):
        return to_json(document)[1:-1].encode()


def document_json(document: Path) -> dict[str, Payload]:
    """Return the JSON object of a document. Return {} if the file is missing or cannot be read."""
    try:
        value: Payload = json.loads(document.read_bytes())
    except ours(OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return value
