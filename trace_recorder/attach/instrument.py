"""`instrument()`: records every LLM call of the process without wrapping a client.

A call of a client that `recorder.wrap` has bound is recorded by that recorder. The recorder of any other call is found
as for a client of `trace_recorder.wrap` (`current.py`). `capture/all_clients.py` patches the HTTP libraries.
"""

from __future__ import annotations

from trace_recorder.attach.current import check_recorder, defaults, following
from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.capture.all_clients import client_patch


def instrument(*, recorder: TrajectoryRecorder | None = None) -> None:
    """Record every LLM call of this process, by new and existing clients of the libraries in docs/attach.md.

    A call is recorded by the recorder that is active where the call is made. If no recorder is active, `recorder`
    records the call, and its run begins with the first such call. If `recorder` is None, the only running recorder
    records the call. A call of a wrapped client is recorded once, by its own recorder. If `instrument` is called again,
    it only changes `recorder`. Raises UnsupportedClientError, with nothing changed, if a library has an unknown
    structure.

    Examples:
        >>> instrument()
        >>> with TrajectoryRecorder(task="count the files"):
        ...     reply = run_my_agent(OpenAI())
        >>> uninstrument()
    """
    check_recorder(recorder)
    if defaults.of_command is None:  # otherwise the command records every client already
        client_patch.install(following)
    defaults.instrumented = recorder


def uninstrument() -> None:
    """Undo `instrument`. Wrapped clients stay wrapped, and open calls are recorded to their end.

    A process that a command such as `trace-recorder run` records is still recorded.
    """
    defaults.instrumented = None
    if defaults.of_command is None:
        client_patch.remove()
