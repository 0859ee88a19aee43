"""The runs that are shared without their texts, made once: for the summary, and then for the file.

Each share has one key for its digests. A run is kept in a temporary directory of the share until the file is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from trace_recorder.sharing.runs import RunToShare
from trace_recorder.storage.content_tiers.text_digests import new_key
from trace_recorder.storage.content_tiers.textless_journal import TextlessJournal, TextlessRecord

MOST_KEPT_BYTES = 256 * 1024 * 1024
"""Runs are kept while their own journals have at most this many bytes together. Further runs are made again."""


class JournalState(NamedTuple):
    """The size of a journal, and the time of its last change: both stay if nobody writes it."""

    size: int
    changed_ns: int


class MadeJournal(NamedTuple):
    """A journal without texts, how many lines it lacks because they are no records, and the state of the run then."""

    journal: Path
    damaged: int
    state: JournalState


class TextlessRuns:
    """The journals without texts that are in a directory. `made` has them by the paths of the runs' own journals."""

    def __init__(self, directory: Path, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._bytes = 0
        self._numbers = count()
        self.key = new_key()
        self.made: dict[Path, MadeJournal] = {}

    def records(self, run: RunToShare) -> Iterator[TextlessRecord]:
        """Yield the records of a run without their texts, and keep them if there is room. Raises OSError."""
        state = state_of(run.journal)
        textless = TextlessJournal(run.journal, self.key)
        if self._bytes + state.size > self._most_bytes:
            yield from textless.records()
            return
        self._bytes += state.size
        journal = self._directory / f"textless-{next(self._numbers)}.jsonl"
        with journal.open("wb") as file:
            for record in textless.records():
                file.write(record.line)
                yield record
        self.made[run.journal] = MadeJournal(journal, textless.damaged, state)


def state_of(journal: Path) -> JournalState:
    """Return the state of a journal. Raises OSError."""
    status = journal.stat()
    return JournalState(status.st_size, status.st_mtime_ns)
