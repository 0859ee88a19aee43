"""The unfinished work of a run."""

from __future__ import annotations

import gc

from trace_recorder.recording.unfinished import UnfinishedWork


class Work:
    """Work that notes whether it was abandoned."""

    is_abandoned = False

    def write_pending(self, *, last: bool = False) -> None:
        """Nothing waits."""

    def wait(self) -> None:
        """Do nothing, because this work has no thread."""

    def abandoned_by_caller(self) -> None:
        """Note it."""
        self.is_abandoned = True

    def end_with_run(self) -> None:
        """Return whether the work may end."""


class Owner:
    """An owner of the work."""


def test_work_that_lost_its_owner_is_abandoned() -> None:
    """The work is abandoned with the next record."""
    unfinished, work, owner = UnfinishedWork(), Work(), Owner()
    unfinished.hold(work)
    kept = unfinished.watch(work, owner)
    del owner
    gc.collect()

    unfinished.settle()
    assert (work.is_abandoned, kept()) == (True, None)


def test_released_work_leaves_nothing_to_what_is_held_next() -> None:
    """Work may have the address in memory of earlier work whose owner was collected."""
    unfinished, work, owner = UnfinishedWork(), Work(), Owner()
    unfinished.hold(work)
    kept = unfinished.watch(work, owner)
    del owner
    gc.collect()
    unfinished.release(work)

    unfinished.hold(work)  # at the same place
    unfinished.settle()
    assert (work.is_abandoned, kept()) == (False, None)
