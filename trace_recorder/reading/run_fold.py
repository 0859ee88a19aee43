"""The part of the fold that takes the facts of the run itself. All other facts wait.

A journal may have no other facts, such as at the start of a run. This part then makes its document, without the readers
of calls. `fold.py` reads the facts that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_recorder.facts import (
    AnnotationFact,
    Fact,
    FinalizeFact,
    GapFact,
    RedactionFact,
    RemovalFact,
    RewardFact,
    StartFact,
    UnreadFact,
)
from trace_recorder.guard import try_call
from trace_recorder.reading.run_facts import RunFacts
from trace_recorder.storage.journal_reader import BadLine, Record


@dataclass(slots=True, kw_only=True)
class RunFold:
    """Takes facts one after another.

    - `run`: the facts of the run itself
    - `waiting`: the records of all other facts, which were added and not read yet
    """

    run: RunFacts = field(default_factory=RunFacts)
    waiting: list[Record] = field(default_factory=list)
    _current: Record | None = None
    """The record that is being used."""

    def add(self, records: Iterable[Record | BadLine]) -> None:
        """Add records one after another. A record of an unknown kind is skipped, because a later version wrote it."""
        self._each_usable(self._add, iter(records))

    def _each_usable(
        self, use: Callable[[Iterator[Record | BadLine]], bool], records: Iterator[Record | BadLine]
    ) -> None:
        """Call `use` until it has used all records. If a record cannot be used, add a gap, and go on with the next."""
        while not try_call(use, self._skip_current, records):
            continue

    def _skip_current(self, error: Exception) -> bool:
        """Add a gap for the current record.

        If there is no current record, the iterator of records raised `error`: raise it again.
        """
        record, self._current = self._current, None
        if record is None:
            raise error
        self.run.add_unusable(record, error)
        return False

    def _add(self, records: Iterator[Record | BadLine]) -> bool:
        """Add records. Return True after the last record. Raises an exception if a record cannot be used."""
        run = self.run
        for record in records:
            if not isinstance(record, Record):  # the other way round takes longer: a struct's class is an ABC
                run.add_bad_line(record)
                continue
            self._current = record
            run.records += 1
            fact = record.fact
            if record.seq == run.last_seq + 1 and not run.damaged_since and fact.redacted is None:
                run.last_seq += 1
            else:
                run.count(record)
            if record.faults:
                run.add_faults(record)
            if (take := _OF_RUN.get(type(fact))) is not None:
                take(run, record, fact)
            else:
                self.waiting.append(record)
            self._current = None
        return True


_OF_RUN: Mapping[type[Fact], Callable[[RunFacts, Record, Any], None]] = {
    StartFact: RunFacts.add_start,
    AnnotationFact: RunFacts.add_annotation,
    RedactionFact: RunFacts.apply_redaction,
    RemovalFact: RunFacts.add_removal,
    RewardFact: RunFacts.add_reward,
    GapFact: RunFacts.add_gap,
    FinalizeFact: RunFacts.add_end,
    UnreadFact: RunFacts.add_unread,
}
"""The facts of the run itself, each with the method that takes them. All other facts wait until they are read."""
