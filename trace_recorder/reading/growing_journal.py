"""Reads a journal that may still be growing.

Each reading reads only the records that were added since the reading before.

The last line may be incomplete. Such a line is read when the rest of it is written, or when its writer is gone. If the
file became shorter or was replaced, it is another journal: `read_more` raises ReplacedError, and the caller starts
again.
"""

from __future__ import annotations

import os
from pathlib import Path

from trace_recorder.reading.fold import Fold
from trace_recorder.reading.own_files import cut_off_gaps, folded, refuse_others, status_without_end
from trace_recorder.reading.relations.prompt_relations import PromptRelations, continue_relations
from trace_recorder.storage import journal_reader
from trace_recorder.storage.file_system import is_locked
from trace_recorder.values.trajectory import Status, Trajectory

__all__ = ["GrowingJournal", "ReplacedError"]


class ReplacedError(Exception):
    """The file is no longer the journal that was read so far."""


class GrowingJournal:
    """A growing journal, and the fold of the records that were read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fold = Fold()
        self._relations = PromptRelations()
        self._offset = 0
        self._identity: tuple[int, int] | None = None
        self._head = b""
        self._is_torn = False
        self._status: Status = "unknown"

    @property
    def status(self) -> Status:
        """The status at the last reading.

        If the journal has no end record, the lock of its writer decides the status.
        """
        if self.fold.run.end is None:
            return self._status
        return self.fold.run.end.status

    @property
    def _has_end(self) -> bool:
        return self.fold.run.end is not None

    def read_more(self) -> bool:
        """Read the added records, and find out whether the writer is still running.

        Return whether the records or the status changed. Raises OSError, TrajectoryFormatError if the file is not a
        journal, and ReplacedError if it is another journal now.
        """
        state_before = self._offset, self.status
        # A program that adds records to an ended run takes the lock, too, so an end record counts more than the lock.
        alive = False if self._has_end else is_locked(self.path)
        with self.path.open("rb") as file:
            state = os.fstat(file.fileno())
            self._check_identity(state)
            file.seek(self._offset)
            data = file.read()
        self._add(data, is_final=alive is False)
        refuse_others(self.fold, self._head, self.path)
        if not self._has_end:
            self._status = status_without_end(self.path, self.fold)
        return (self._offset, self.status) != state_before

    def _check_identity(self, state: os.stat_result) -> None:
        identity = state.st_dev, state.st_ino
        if self._identity not in {None, identity} or state.st_size < self._offset:
            raise ReplacedError(str(self.path))
        self._identity = identity

    def _add(self, data: bytes, *, is_final: bool) -> None:
        """Add the complete lines of new data.

        If `is_final` is True, the writer is gone, and an incomplete last line is added, too. If more data follows such
        a line later, the line is a damaged line in the middle of the file. The fold must get damaged lines in their
        order, so ReplacedError is raised, and the caller starts again.
        """
        if data and self._is_torn:
            raise ReplacedError(str(self.path))
        self._head = self._head or data[:64]
        end = data.rfind(b"\n") + 1
        if is_final:
            end = len(data)
        records = [*journal_reader.read_records(data[:end], self._offset)]
        self.fold.add(records)
        if records:
            last = records[-1]
            self._is_torn = isinstance(last, journal_reader.BadLine) and last.torn
        self._offset += end

    def trajectory(self) -> Trajectory:
        """Return the run as far as it has been read."""
        gaps = self.fold.run.gaps
        self.fold.run.gaps = [*gaps, *cut_off_gaps(self.path, self.fold)]
        try:
            trajectory = folded(self.fold, self._status, self.path)
        finally:
            self.fold.run.gaps = gaps
        continue_relations(self._relations, trajectory)
        return trajectory
