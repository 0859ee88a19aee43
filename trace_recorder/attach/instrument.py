"""Instrumenting: every LLM call of the process is recorded, whoever makes it, without a client being wrapped.

A call belongs to the recorder that is active where it is made, and a wrapped client's to its own. Where calls are
caught is known to `capture/all_clients.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trace_recorder.attach.current import following
from trace_recorder.attach.recorder import TrajectoryRecorder, current
from trace_recorder.capture.all_clients import client_patch
from trace_recorder.capture.transport import guard
from trace_recorder.recording import context as steps
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload


class DefaultTarget:
    """Tells whichever recorder is active where a call is made, and one recorder where none is."""

    def __init__(self, recorder: Callable[[], TrajectoryRecorder]) -> None:
        self._recorder = recorder

    def open_run(self) -> Run | None:
        """The run of the current recorder; else of the given one, in which it begins by itself."""
        recorder: TrajectoryRecorder | None = None
        with guard("find the run of a call"):
            recorder = self._chosen()
        return recorder._lifecycle.open_run("a wrapped client") if recorder else None

    def is_running(self) -> bool:
        """Never bound to one run."""
        return False

    def context(self) -> Mapping[str, Payload]:
        """Of which agent and step a call made now is."""
        return steps.context_of(self._chosen()._lifecycle.run)

    def _chosen(self) -> TrajectoryRecorder:
        named = current.get()
        return named if named is not None and named._lifecycle.is_running() else self._recorder()


def instrument(*, recorder: TrajectoryRecorder | None = None) -> None:
    """Have every LLM call of this process recorded that goes through httpx or httpx2, by clients of any age.

    It belongs to the recorder that is active where it is made; else to `recorder`, whose run begins with the first
    such call; else to the only one that runs. A call of a wrapped client stays its recorder's, and is recorded once.
    Calling this again changes the recorder, and no more. Raises UnsupportedClientError where the library's inside is
    unfamiliar; then nothing is changed.
    """
    client_patch.install(DefaultTarget(lambda: recorder) if recorder is not None else following)


def uninstrument() -> None:
    """Leave every HTTP client as it was before `instrument`; wrapped ones stay so. What is under way is recorded."""
    client_patch.remove()
