"""The unfinished work of a run."""

from __future__ import annotations

import gc

from trace_recorder.recording.unfinished import UnfinishedWork


class Work:
    """Work that notes whether it was abandoned."""

    is_abandoned = False

    def write_pending(self, *, last: bool = False) -> None:
        """Do nothing, because this work has no pending record."""

    def wait(self) -> None:
        """Do nothing, because this work has no thread."""

    def abandoned_by_caller(self) -> None:
        """Note that the work was abandoned."""
        self.is_abandoned = True

    def end_with_run(self) -> None:
        """Return whether the work may end with the run."""


class Owner:
    """An object that owns the work."""


def test_work_without_its_owner_is_abandoned() -> None:
    """Work whose owner was garbage collected is abandoned at the next record."""
    unfinished, work, owner = UnfinishedWork(), Work(), Owner()
    unfinished.hold(work)
    kept = unfinished.watch(work, owner)
    del owner
    gc.collect()

    unfinished.settle()
    assert (work.is_abandoned, kept()) == (True, None)


def test_released_work_does_not_affect_later_work() -> None:
    """New work at the memory address of released work is not confused with it."""
    unfinished, work, owner = UnfinishedWork(), Work(), Owner()
    unfinished.hold(work)
    kept = unfinished.watch(work, owner)
    del owner
    gc.collect()
    unfinished.release(work)

    unfinished.hold(work)  # at the same address
    unfinished.settle()
    assert (work.is_abandoned, kept()) == (False, None)
