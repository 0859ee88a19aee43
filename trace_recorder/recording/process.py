"""The process in which runs are recorded: its parent run, the environment of its children, its forks and its end.

While exactly one run is open, the environment variable TRACE_RECORDER_PARENT has the id of that run, and
TRACE_RECORDER_SESSION has its session. A program that is started during this time links its own runs to that run, and
its runs are in the same session. At all other times, also while several runs are open, the variables have their
original values. A forked child knows its parent's runs without the variables. The recorder of a run
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
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.structs import Struct
from trace_recorder.version import __version__

COMMAND_VARIABLES = {"TRACE_RECORDER_FORK": "fork", "TRACE_RECORDER_RUN": "run", "TRACE_RECORDER_PROXY": "proxy"}
"""The commands that record the programs that they run, by the environment variable that each of them sets."""
RECORDED_UNDER = "recorded_under"
"""The member of the metadata of a program's own run that names the command that ran the program."""
PARENT_VARIABLE = "TRACE_RECORDER_PARENT"
"""The environment variable with the id of the open run, for child processes."""
SESSION_VARIABLE = "TRACE_RECORDER_SESSION"
"""The environment variable with the session of runs that state none: from the user, or from the open run."""
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
_had_concurrent_runs = False


class _OpenRun(Struct, frozen=True):
    """An open run. `is_of_command` is whether a command made its recorder, and not the program."""

    session: str | None
    is_of_command: bool


_open: dict[str, _OpenRun] = {}
"""The open runs by their ids."""


class _PublishedVariable(Struct):
    """An environment variable whose value this process replaces for its children."""

    name: str
    published: str | None = None
    inherited: str | None = None

    def original(self) -> str | None:
        """Return the value that another process or the program itself has set, or None."""
        value = os.environ.get(self.name) or None
        if value is not None and value == self.published:
            return self.inherited
        return value

    def publish(self, value: str | None) -> None:
        """Set the variable. If `value` is None, restore the original value."""
        self.inherited = self.original()
        self.published = value
        value = value or self.inherited
        if value is None:
            os.environ.pop(self.name, None)
        elif os.environ.get(self.name) != value:
            os.environ[self.name] = value


_parent, _session = _PublishedVariable(PARENT_VARIABLE), _PublishedVariable(SESSION_VARIABLE)


def parent_run() -> str | None:
    """Return the id of the run in which another process started this process, or None.

    The environment states the id.
    """
    return _parent.original()


def session_of_environment() -> str | None:
    """Return the session that the environment states, or None."""
    return _session.original()


def variables_of(run: str) -> dict[str, str]:
    """Return the environment variables for a program that an open run starts."""
    session = None
    open_run = _open.get(run)
    if open_run is not None:
        session = open_run.session
    return without_none(**{PARENT_VARIABLE: run, SESSION_VARIABLE: session})


def had_concurrent_runs() -> bool:
    """Return whether two runs of the program were ever open at the same time, here or before the fork of this process.

    The run of a command is not counted.
    """
    return _had_concurrent_runs


def add_open_run(run: str, document: Path, session: str | None = None, *, is_of_command: bool = False) -> None:
    """Add a run that has begun in this process to the open runs, and call the listeners."""
    global _had_concurrent_runs  # noqa: PLW0603 - there is one process
    with _lock:
        _open[run] = _OpenRun(session, is_of_command)
        if not _had_concurrent_runs:  # from then on, a new run looks at no other run
            _had_concurrent_runs = sum(not each.is_of_command for each in _open.values()) > 1
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
    """Set the environment variables to the id and the session of the open run.

    If no run is open, or several are, restore the original values.
    """
    run = session = None
    if len(_open) == 1:
        [(run, open_run)] = _open.items()
        session = open_run.session
    _parent.publish(run)
    _session.publish(session)


def _after_fork() -> None:
    global _lock  # noqa: PLW0603
    _lock = new_lock()
    _parent.published = _session.published = None  # the child has inherited the variables that its parent set
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
        host=None if members.get("content") else socket.gethostname(),
        pid=pid,
        process_start=_STARTED,
        recorder=__version__,
        python=platform.python_version(),
        platform=sys.platform,
        parent=parent or parent_run() or None,
        **members,
    )
