"""The process in which runs are recorded: its parent run, the environment of its children, its forks and its end.

While exactly one run is open, the environment variable TRACE_RECORDER_PARENT has the id of that run. A program that is
started during this time links its own runs to that run. At all other times, also while several runs are open, the
variable has its original value. A forked child knows its parent's runs without the variable. The recorder of a run
decides what happens to the run when the process forks or ends. `start_of` makes the first fact of a
journal.
"""

from __future__ import annotations

import atexit
import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from trace_recorder.facts import StartFact
from trace_recorder.locks import new_lock
from trace_recorder.signal_handlers import WeakRegistry
from trace_recorder.storage.journal_reader import SCHEMA, VERSION
from trace_recorder.values.messages import Payload
from trace_recorder.version import __version__

COMMAND_VARIABLES = {"TRACE_RECORDER_FORK": "fork", "TRACE_RECORDER_RUN": "run", "TRACE_RECORDER_PROXY": "proxy"}
"""The commands that record the programs that they run, by the environment variable that each of them sets."""
RECORDED_UNDER = "recorded_under"
"""The member of the metadata of a program's own run that names the command that ran the program."""
PARENT_VARIABLE = "TRACE_RECORDER_PARENT"
"""The environment variable with the id of the open run, for child processes."""
NOT_PICKLED = (
    "A TrajectoryRecorder, or an object that belongs to it, such as a step, cannot be pickled: its run belongs to this "
    "process. Make a recorder in the other process, in a `with` block. Its run names this run as its parent if the "
    "process was started while no other run was open. If several runs are open, give the process the environment that "
    "recorder.child_environment() returns."
)


def command_metadata() -> dict[str, Payload]:
    """Return the metadata of a run that the program's own recorder records, and not the command that runs it."""
    commands = (command for variable, command in COMMAND_VARIABLES.items() if os.environ.get(variable))
    command = next(commands, None)
    if command is None:
        return {}
    return {RECORDED_UNDER: f"trace-recorder {command}"}


class ProcessObserver(Protocol):
    """An object whose methods are called when the process forks or ends."""

    def after_fork(self) -> None:
        """Called in the child process after a fork."""

    def at_exit(self) -> None:
        """Called when the interpreter exits. Daemon threads may still be running."""


observers: WeakRegistry[ProcessObserver] = WeakRegistry()
run_listeners: list[Callable[[Path], None]] = []
"""Functions that are called when a run begins in this process, or in a fork of this process.

They are also called if a run cannot begin because its files cannot be created. Their argument is the path of the run's
document. These functions must not raise exceptions.
"""
_lock = new_lock()
_open: dict[str, bool] = {}
"""The open runs by their ids, and for each whether a command made its recorder, and not the program."""
_had_concurrent_runs = False
_published: str | None = None
_inherited: str | None = None


def parent_run() -> str | None:
    """Return the id of the run in which another process started this process, or None.

    The environment states the id.
    """
    value = os.environ.get(PARENT_VARIABLE) or None
    if value is not None and value == _published:
        return _inherited
    return value


def had_concurrent_runs() -> bool:
    """Return whether two runs of the program were ever open at the same time, here or before the fork of this process.

    The run of a command is not counted.
    """
    return _had_concurrent_runs


def add_open_run(run: str, document: Path, *, is_of_command: bool = False) -> None:
    """Add a run that has begun in this process to the open runs, and call the listeners."""
    global _had_concurrent_runs  # noqa: PLW0603 - there is one process
    with _lock:
        _open[run] = is_of_command
        _had_concurrent_runs = _had_concurrent_runs or [*_open.values()].count(False) > 1
        _publish()
    report_run(document)


def report_run(document: Path) -> None:
    """Call the listeners with the path of the document of a run that has begun, or whose files cannot be created."""
    for listener in run_listeners:
        listener(document)


def remove_open_run(run: str) -> None:
    """Remove a run that has ended from the open runs."""
    with _lock:
        _open.pop(run, None)
        _publish()


def _publish() -> None:
    """Set the environment variable to the id of the open run.

    If no run is open, or several are, restore the original value.
    """
    global _inherited, _published  # noqa: PLW0603 - there is one process
    _inherited = parent_run()
    _published = next(iter(_open)) if len(_open) == 1 else None
    value = _published or _inherited
    if value is None:
        os.environ.pop(PARENT_VARIABLE, None)
    elif os.environ.get(PARENT_VARIABLE) != value:
        os.environ[PARENT_VARIABLE] = value


def _after_fork() -> None:
    global _lock, _published  # noqa: PLW0603
    _lock = new_lock()
    _published = None  # the child has inherited the variable that its parent set
    _open.clear()
    for observer in list(observers):
        observer.after_fork()


@atexit.register
def _exit() -> None:
    for observer in list(observers):
        observer.at_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_STARTED = time.time()


def start_of(trajectory_id: str, pid: int, parent: str | None, **members: Payload) -> StartFact:
    """Return the first fact of a run that this process records.

    `parent` is the id of the run that was open when the process was forked, if any. `members` are the members that the
    caller states.
    """
    return StartFact(
        schema=SCHEMA,
        version=VERSION,
        trajectory_id=trajectory_id,
        host=socket.gethostname(),
        pid=pid,
        process_start=_STARTED,
        recorder=__version__,
        python=platform.python_version(),
        platform=sys.platform,
        parent=parent or parent_run() or None,
        **members,
    )
