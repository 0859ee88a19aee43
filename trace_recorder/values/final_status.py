"""Decides by an exception or an exit code how a run ended, for `with` blocks, processes and supervised programs.

- Completed: no exception, or SystemExit with 0 or None.
- Interrupted: KeyboardInterrupt, GeneratorExit, or cancellation, because asyncio turns Ctrl-C into a cancellation. A
  SystemExit with the exit code of a signal is an interruption too, and so is a group in which every exception is an
  interruption.
- Failed: any other exception.

If a process ends while its run is still open, the run is interrupted, even if there is no exception
(`status_of_process`). The recorder installs no signal handler. So if a signal kills the process, the journal has no
record of the run's end, and readers report the run as interrupted.
"""

from __future__ import annotations

import sys

from trace_recorder.values.jsonable import describe_error
from trace_recorder.values.structs import Struct
from trace_recorder.values.trajectory import Status

CANCELLATION_CLASSES = frozenset({"CancelledError", "Cancelled"})
"""The exceptions by which asyncio and trio cancel a task."""
_SIGNAL_EXIT_CODES = frozenset({129, 130, 143})
"""The exit codes for SIGHUP, SIGINT and SIGTERM.

Shells report them, and programs that handle these signals exit with them.
"""


class FinalStatus(Struct, frozen=True):
    """How a run ended.

    `success` is False for a failed run. Otherwise it is None, because only the caller knows whether the task succeeded.
    """

    status: Status
    success: bool | None = None
    error: dict[str, str] | None = None


def status_from_exception(error: BaseException | None) -> FinalStatus:
    """Return how a run ended. `error` is the exception that ended it, or None if it ended without an exception."""
    status = _status_from(error)
    if error is None or status != "failed":
        return FinalStatus(status)
    return FinalStatus(status, success=False, error=describe_error(error))


def status_of_process() -> FinalStatus:
    """Return how a run ended that was still open when its process ended.

    If there is an uncaught exception, it decides the status. Otherwise the run is interrupted.

    A process does not know its exit code. In an interactive session, the run is always interrupted, because the session
    continued after the exception.
    """
    error = uncaught_exception()
    if error is None or hasattr(sys, "ps1"):
        return FinalStatus("interrupted")
    return status_from_exception(error)


def uncaught_exception() -> BaseException | None:
    """Return the exception that ends this process: the exception that is being handled, or the last that was printed.

    Debuggers set `sys.last_exc` too, although the process continues.
    """
    error = sys.exception() or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if isinstance(error, BaseException):
        return error
    return None


def status_from_exit_code(code: int) -> Status:
    """Return the status of a run from its exit code. A code of -n means that signal n ended it."""
    if code == 0:
        return "completed"
    if code < 0 or code in _SIGNAL_EXIT_CODES:
        return "interrupted"
    return "failed"


def _status_from(error: BaseException | None) -> Status:
    if error is None:
        return "completed"
    if isinstance(error, BaseExceptionGroup):
        statuses = {_status_from(part) for part in error.exceptions}
        return "interrupted" if statuses == {"interrupted"} else "failed"
    if isinstance(error, SystemExit):
        if isinstance(error.code, int | None):
            return status_from_exit_code(error.code or 0)
        return "failed"
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return "interrupted"
    is_cancelled = not isinstance(error, Exception) and type(error).__name__ in CANCELLATION_CLASSES
    return "interrupted" if is_cancelled else "failed"
