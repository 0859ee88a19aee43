"""`instrument()`: records every LLM call of the process without wrapping a client.

A call goes to the recorder that is active where it is made. A call of a wrapped client goes to the client's recorder.
The HTTP libraries are patched by `capture/all_clients.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from trace_recorder.attach.current import check_recorder, following
from trace_recorder.attach.recorder import TrajectoryRecorder, active
from trace_recorder.capture.all_clients import client_patch
from trace_recorder.capture.seam import guard
from trace_recorder.recording.run import Run


class DefaultTarget:
    """The target of calls that go to the current recorder, or else to the recorder that `recorder` returns."""

    def __init__(self, recorder: Callable[[], TrajectoryRecorder]) -> None:
        self._recorder = recorder

    def open_run(self) -> Run | None:
        """Return the run of the current recorder, or else of the other recorder. Begin the other's run if necessary."""
        recorder: TrajectoryRecorder | None = None
        with guard.protect("find the run of a call"):
            recorder = self._choose_recorder()
        return recorder._lifecycle.open_run("a wrapped client") if recorder else None

    def run_in_progress(self) -> Run | None:
        """Return the open run of the current recorder, or of the only running one. Never begin a run."""
        return following.run_in_progress()

    def is_running(self) -> bool:
        """Return False, because this target is not bound to one run."""
        return False

    def _choose_recorder(self) -> TrajectoryRecorder:
        recorder = active()
        return recorder if recorder is not None and recorder._lifecycle.is_running() else self._recorder()


def instrument(*, recorder: TrajectoryRecorder | None = None) -> None:
    """Record every LLM call of this process, by new and existing clients of the libraries in docs/attach.md.

    A call goes to the recorder that is active where it is made. Otherwise it goes to `recorder`, whose run begins with
    the first such call. Otherwise it goes to the only running recorder. A call of a wrapped client is recorded once, by
    its own recorder. A second call of this function only changes `recorder`. Raises UnsupportedClientError, with
    nothing changed, if a library has an unknown structure.
    """
    check_recorder(recorder)
    client_patch.install(DefaultTarget(lambda: recorder) if recorder is not None else following)


def uninstrument() -> None:
    """Undo `instrument`. Wrapped clients stay wrapped, and open calls are recorded to their end."""
    client_patch.remove()
