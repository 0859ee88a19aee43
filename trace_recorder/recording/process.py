"""The process in which runs are recorded: whose child it is, what its children are told, how it forks and ends.

While one run is open, and only one, the environment variable TRACE_RECORDER_PARENT holds its id, so that a program
that is started then links its own runs to it; before and after, and while there are several, of which nobody could
tell which it was, the variable is as it was found. A forked child knows its parent's runs without it. What a
recorder does when the process forks or ends is its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from trace_recorder.recording.weak_registry import WeakRegistry

PARENT_VARIABLE = "TRACE_RECORDER_PARENT"
"""The environment variable by which a process tells its children the id of its trajectory."""


class ProcessObserver(Protocol):
    """What is told when the process forks or ends."""

    def after_fork(self) -> None:
        """Hear, in a forked child, that this is another process now."""

    def at_exit(self) -> None:
        """Hear that the interpreter ends; daemon threads may go on for a while."""


observers: WeakRegistry[ProcessObserver] = WeakRegistry()
run_listeners: list[Callable[[Path], None]] = []
"""Called with the document of each run that begins in this process, and in its forks. They raise nothing."""
_lock = threading.RLock()
_open: dict[str, None] = {}
_published: str | None = None
_inherited: str | None = None


def parent_run() -> str | None:
    """The run of another process from which this one was started, as the environment says."""
    value = os.environ.get(PARENT_VARIABLE) or None
    return _inherited if value is not None and value == _published else value


def run_began(run: str, document: Path) -> None:
    """Hear that a run has begun in this process."""
    with _lock:
        _open[run] = None
        _publish()
    for listener in run_listeners:
        listener(document)


def run_ended(run: str) -> None:
    """Hear that it has ended."""
    with _lock:
        _open.pop(run, None)
        _publish()


def _publish() -> None:
    """Have the environment name the only open run; else have it as it was found."""
    global _inherited, _published  # noqa: PLW0603 - of the process there is one
    _inherited = parent_run()
    _published = next(iter(_open)) if len(_open) == 1 else None
    value = _published or _inherited
    if value is None:
        os.environ.pop(PARENT_VARIABLE, None)
    elif os.environ.get(PARENT_VARIABLE) != value:
        os.environ[PARENT_VARIABLE] = value


def _after_fork() -> None:
    global _lock, _published  # noqa: PLW0603
    _lock = threading.RLock()
    _published = None  # what the parent showed is what its child finds
    _open.clear()
    for observer in list(observers):
        observer.after_fork()


@atexit.register
def _exit() -> None:
    for observer in list(observers):
        observer.at_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
