"""The way from a journal to its document: fold, render, temporary file, rename. Nothing is kept for the next time.

Calls are rendered one after another into the file, and items are read from the journal by their places. So the memory
that a write needs does not grow with the texts of messages and responses. The whole records of the journal at that
moment are in the document, which says how many they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.derive.fold import Fold
from trace_recorder.derive.live_document.document_text import DocumentText, MessageTexts
from trace_recorder.derive.live_document.limits import DEFAULT_LIMITS, DocumentLimits
from trace_recorder.signal_handlers import ours
from trace_recorder.storage import journal_reader
from trace_recorder.storage.atomic_write import Buffer, replace_file
from trace_recorder.storage.items.disk_backed import JournalFile
from trace_recorder.values.message_table import NumberedMessages
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import History, Status

_PARTS_BETWEEN_PAUSES = 4
"""How many short calls or steps are rendered before other threads may run."""
_PROMPTS_BETWEEN_PAUSES = 256
"""How many prompts are added up before other threads may run."""


class PoorerDocumentError(OSError):
    """The document is left as it is, because the journal has less than it. The text says what."""


class WholeDocument:
    """Writes the document of one journal, as the file is now.

    `history` is the form of the messages, or "auto": deltas if the prompts of all calls and steps are too long in all.
    Afterwards it is the form that was chosen, and `records` is how many records the document covers. `look` is called
    between two calls of the run; what it raises ends the write, and leaves the old document.
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
        self._look = look
        self._texts = MessageTexts()
        self.journal_bytes = 0
        """How many bytes of the journal were read."""
        self._measures = history == "auto"
        self._fold = self._read(JournalFile(journal))
        self.history: History = "delta" if history == "delta" or self._has_long_prompts() else "inline"
        self.records = self._fold.run.records
        self.damage = self._fold.run.damage
        """How many damaged and missing lines the journal has."""

    def write(self, path: Path, *, sync: bool = False) -> None:
        """Write the document, and give it its name. Raises OSError; the old document is unchanged then."""
        replace_file(path, self._content(), sync=sync)

    def write_unless_poorer(self, path: Path, aside: Path, *, sync: bool = False, replaced: Iterable[str] = ()) -> None:
        """Write the document, unless it has less than the one that is there. `replaced` are members that may be gone.

        Raises PoorerDocumentError then, and OSError. `aside` is the path of a temporary file.
        """
        from trace_recorder.derive.losses import describe_losses  # noqa: PLC0415 - a recorder rarely needs it

        old = json_of(path)
        try:
            self.write(aside, sync=sync)
            lost = describe_losses(
                {name: value for name, value in old.items() if name not in {*replaced}}, json_of(aside)
            )
            if lost is not None:
                raise PoorerDocumentError(lost)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, journal: JournalFile, *, has_recorded_steps: bool = False) -> Fold:
        """Fold the whole records of the journal, block by block. Each block begins where a line does."""
        fold = Fold(journal, max_kept_bytes=self._limits.kept_bytes)
        fold.tools.has_recorded_steps = has_recorded_steps
        offset, size = 0, MAX_UNINTERRUPTED_CHARS
        while data := journal.read(size, offset):
            whole = data.rfind(b"\n") + 1
            if not whole or b'"kind":"llm_stream"' in data:  # the parts of a stream may make up a long text
                self._texts.has_long_strings = True
            fold.add_all(journal_reader.read(data[:whole], base=offset))
            if fold.is_stale:
                self._texts = MessageTexts()
                return self._read(journal, has_recorded_steps=True)
            fold.read_pending()
            fold.match_tools()
            if self._measures:
                self._texts.measure_new(fold.table)
            fold.put_away()
            offset += whole
            if len(data) < size:
                break
            size = MAX_UNINTERRUPTED_CHARS if whole else size * 2
            self._pause()
        self.journal_bytes = offset
        return fold

    def _has_long_prompts(self) -> bool:
        """Whether the complete messages of all calls and steps together are longer than they may be inline."""
        if not self._measures:
            return False
        readings = (call.incremental for call in self._fold.calls.values())
        of_calls = (islice(reading.numbers, reading.count) for reading in readings if reading is not None)
        of_steps = (step.stated.messages for step in self._fold.steps)
        numbered = (prompt.numbers for prompt in of_steps if isinstance(prompt, NumberedMessages))
        size = 0
        for number, numbers in enumerate(chain(of_calls, numbered)):
            if number % _PROMPTS_BETWEEN_PAUSES == 0:
                self._pause()
            size += self._texts.size_of(numbers)
            if size > self._limits.inline_bytes:
                return True
        return False

    def _pause(self) -> None:
        """Let other threads run, and ask whether the write is still wanted."""
        yield_to_others()
        self._look()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _content(self) -> Iterator[Buffer]:
        """Yield the text of the document. Other threads may run between two calls or steps."""
        fold, text = self._fold, DocumentText(self.history, self._texts)
        outline = fold.run.outline(self._status, next(fold.interactions(), None))
        parts: list[Buffer] = [b"{\n" + text.members(outline.head()) + b',\n"llm_interactions": [']
        lists: tuple[tuple[Iterator[Any], Callable[[Any], list[Buffer]], bytes], ...] = (
            (fold.interactions(), text.interaction, b'],\n"agent_steps": ['),
            (fold.agent_steps(), text.step, b"],\n"),
        )
        for values, encode, end in lists:
            separator, number = b"\n", 0
            for texts in map(encode, values):  # a loop over the values would keep each until the next one is read
                parts += (separator, *texts)
                texts.clear()
                separator, number = b",\n", number + 1
                size = sum(map(len, parts))
                if number % _PARTS_BETWEEN_PAUSES == 1 or size > MAX_UNINTERRUPTED_CHARS:
                    self._pause()
                    yield from parts if size > MAX_UNINTERRUPTED_CHARS else (b"".join(parts),)
                    parts.clear()
            parts.append(end)
        metrics = text.counts.metrics(fold.run.redactions)
        outline = fold.run.outline(self._status, None, metrics=metrics, gaps=text.gaps)
        yield from (*parts, text.members(outline.tail(self.history)), b"\n}\n")


def json_of(document: Path) -> dict[str, Payload]:
    """Return the value of a document, or {} if it is missing or cannot be read."""
    try:
        value: Payload = json.loads(document.read_bytes())
    except ours(OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
