"""The run of calls and marks that no context assigns to a run.

Threads of a pool, executors and callbacks have no context, unless somebody copies it. In a script or a notebook, what
they do belongs to the only run there is. In a server it may belong to another user's request. So it belongs to the only
open run if that run began in the main flow of the program, and if no two runs have been open at the same time. In all
other cases it belongs to no run, and the process says so once.
"""

from __future__ import annotations

from trace_recorder.attach.recorder import TrajectoryRecorder, running
from trace_recorder.guard import ignore_failures, logger
from trace_recorder.recording import process

_ADVICE = (
    "Begin the run in the task or thread that makes the call (a FastAPI dependency must be `async def`), copy the "
    "context into the thread, or bind the client with recorder.wrap(client). Ignore this if nobody records the call"
)
_reported: list[str] = []


def only_recorder() -> TrajectoryRecorder | None:
    """Return the recorder of everything that has no context, or None if there is no such recorder."""
    recorders = _running()
    if len(recorders) != 1 or _why_not(recorders) is not None:
        return None
    return recorders[0]


def report(what: str) -> None:
    """Log, once in the process, that something belongs to no run. Log nothing while no run is open.

    `what` names it, such as "an LLM call".
    """
    if _reported:
        return
    why = _why_not(_running())
    if why is not None and not _reported:  # a signal handler may have reported meanwhile
        _reported.append(why)
        message = "%s is not recorded: no recorder is active in its context, and %s. %s. (logged once)"
        with ignore_failures:
            logger.warning(message, what, why, _ADVICE)


def _running() -> list[TrajectoryRecorder]:
    """Return the running recorders that the program made. The recorder of a command takes what has no other one."""
    lifecycles = ((recorder, recorder._lifecycle) for recorder in running)
    return [recorder for recorder, lifecycle in lifecycles if lifecycle.is_running() and not lifecycle.is_of_command]


def _why_not(recorders: list[TrajectoryRecorder]) -> str | None:
    """Return why nothing may be assigned to the only open run, or None if it may, or if no run is open."""
    if len(recorders) > 1:
        return f"{len(recorders)} runs are open"
    if process.had_concurrent_runs():
        return "runs have been open at the same time" if recorders else None
    if recorders and not recorders[0]._lifecycle.began_in_main_flow:
        return "the open run began in a thread or a task of its own"
    return None
