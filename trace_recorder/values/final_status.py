"""How a run ended, by the exception that ended it: one rule for blocks, for processes, and for runs from outside.

What leaves the code that a run is recorded of ends it: nothing, or SystemExit of 0 or None, as completed; what somebody
else ended, by Ctrl-C or by cancelling a task, which is how asyncio passes Ctrl-C on, as interrupted; any other
exception as failed. Of signals there is no handler here: a process that one kills leaves a run without an end, which
its reader finds to be interrupted.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from trace_recorder.values.jsonable import describe_error
from trace_recorder.values.trajectory import Status

_CANCELLATION_CLASSES = frozenset({"CancelledError", "Cancelled"})
"""What asyncio and trio end a task with."""
_SIGNAL_EXIT_CODES = frozenset({129, 130, 143})
"""How shells, and programs that handle a signal, exit for SIGHUP, SIGINT and SIGTERM."""


@dataclass(frozen=True, slots=True)
class FinalStatus:
    """How a run ended. Whether its task succeeded is for the caller to say; what failed has not."""

    status: Status
    success: bool | None = None
    error: dict[str, str] | None = None


def status_from_exception(error: BaseException | None) -> FinalStatus:
    """How a run ended that this exception left, or none."""
    status = _status_from(error)
    if error is None or status != "failed":
        return FinalStatus(status)
    return FinalStatus(status, success=False, error=describe_error(error))


def status_of_process() -> FinalStatus:
    """How a process ends that has an open run: an exit code is known to nobody inside, an exception is."""
    error = uncaught_exception()
    return FinalStatus("interrupted") if error is None or hasattr(sys, "ps1") else status_from_exception(error)


def uncaught_exception() -> BaseException | None:
    """The exception that ends this process: on its way in a worker, else noted by the interpreter when it prints it.

    Debuggers note theirs there too, in a process that goes on.
    """
    error = sys.exception() or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def status_from_exit_code(code: int) -> Status:
    """What an exit code says of a run; -n is signal n."""
    if code == 0:
        return "completed"
    return "interrupted" if code < 0 or code in _SIGNAL_EXIT_CODES else "failed"


def _status_from(error: BaseException | None) -> Status:
    if error is None:
        return "completed"
    if isinstance(error, BaseExceptionGroup):
        statuses = {_status_from(one) for one in error.exceptions}
        return "interrupted" if statuses == {"interrupted"} else "failed"
    if isinstance(error, SystemExit):
        return status_from_exit_code(error.code or 0) if isinstance(error.code, int | None) else "failed"
    return "interrupted" if _is_interruption(error) else "failed"


def _is_interruption(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return True
    return not isinstance(error, Exception) and type(error).__name__ in _CANCELLATION_CLASSES
