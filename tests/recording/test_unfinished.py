"""The unfinished work of a run."""

from __future__ import annotations

import gc

from trace_recorder.recording.unfinished import UnfinishedWork


class Work:
    """Work that notes whether it was abandoned."""

    is_abandoned = False

    def write_pending(self, *, last: bool = False) -> None:
        """Do nothing, because no write is pending."""

    def wait(self) -> None:
        """Do nothing, because this work has no thread."""

    def abandoned_by_caller(self) -> None:
        """Note the call."""
        self.is_abandoned = True

    def end_with_run(self) -> None:
        """Return whether the work may end."""


class Owner:
    """An owner of the work."""


def test_work_without_its_owner_is_abandoned() -> None:
    """If the owner was collected, the work is abandoned with the next record."""
    unfinished, work, owner = UnfinishedWork(), Work(), Owner()
    unfinished.hold(work)
    kept = unfinished.watch(work, owner)
    del owner
    gc.collect()

    unfinished.settle()
    assert (work.is_abandoned, kept()) == (True, None)


def test_released_work_does_not_affect_later_work() -> None:
    """Later work may have the same address in memory as work whose owner was collected."""
    unfinished, work, owner = UnfinishedWork(), Work(), Owner()
    unfinished.hold(work)
    kept = unfinished.watch(work, owner)
    del owner
    gc.collect()
    unfinished.release(work)

    unfinished.hold(work)  # at the same address
    unfinished.settle()
    assert (work.is_abandoned, kept()) == (False, None)
