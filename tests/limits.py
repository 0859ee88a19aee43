"""Recorders with changed limits, so that little content is enough to reach them."""

from __future__ import annotations

from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.recording.limits import Limits

AT_ONCE = DocumentLimits(cost_multiple=0, min_pause_seconds=0)
"""Limits with which the thread writes the document of a captured call as soon as it can."""


def limited(**limits: float | DocumentLimits) -> type[TrajectoryRecorder]:
    """Return a recorder class with these limits, and the defaults for all other limits."""

    class Limited(TrajectoryRecorder):
        _limits = Limits(**limits)  # type: ignore[arg-type]

    return Limited
