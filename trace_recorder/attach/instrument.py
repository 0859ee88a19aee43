"""`instrument()`: records every LLM call of the process without wrapping a client.

A call is recorded by the recorder that is active where the call is made. A call of a wrapped client is recorded by the
client's recorder. `capture/all_clients.py` patches the HTTP libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from trace_recorder.attach.current import check_recorder, following
from trace_recorder.attach.recorder import TrajectoryRecorder, active
from trace_recorder.capture.all_clients import client_patch
from trace_recorder.capture.seam import guard
from trace_recorder.recording.run import Run


class DefaultTarget:
    """The target of calls by clients that are not wrapped.

    The current recorder records a call if its run is open. Otherwise the recorder that `recorder` returns records the
    call.
    """

    follows_context: ClassVar[bool] = False

    def __init__(self, recorder: Callable[[], TrajectoryRecorder]) -> None:
        self._recorder = recorder

    def open_run(self) -> Run | None:
        """Return the run of the current recorder if it is open.

        Otherwise return the run of the recorder that `recorder` returns, and begin it if necessary.
        """
        recorder: TrajectoryRecorder | None = None
        with guard.protect("find the run of a call"):
            current = active()
            recorder = current if current is not None and current._lifecycle.is_running() else self._recorder()
        return recorder._lifecycle.open_run("a wrapped client") if recorder else None

    def run_in_progress(self) -> Run | None:
        """Return the open run of the current recorder, or of the only running recorder, or None. Never begin a run."""
        return following.run_in_progress()

    def is_running(self) -> bool:
        """Return False, because this target is not bound to one run."""
        return False

    def is_inferred(self, _: Run, /) -> bool:
        """Return False, because the caller chose the recorder."""
        return False


def instrument(*, recorder: TrajectoryRecorder | None = None) -> None:
    """Record every LLM call of this process, by new and existing clients of the libraries in docs/attach.md.

    A call is recorded by the recorder that is active where the call is made. If no recorder is active, `recorder`
    records the call, and its run begins with the first such call. If `recorder` is None, the only running recorder
    records the call. A call of a wrapped client is recorded once, by its own recorder. If `instrument` is called again,
    it only changes `recorder`. Raises UnsupportedClientError, with nothing changed, if a library has an unknown
    structure.
    """
    check_recorder(recorder)
    client_patch.install(DefaultTarget(lambda: recorder) if recorder is not None else following)


def uninstrument() -> None:
    """Undo `instrument`. Wrapped clients stay wrapped, and open calls are recorded to their end."""
    client_patch.remove()
