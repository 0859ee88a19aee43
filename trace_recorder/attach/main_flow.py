"""Whether code runs in the main flow of a program: the main thread, outside of tasks that take turns.

A run of the main flow is the program's own run, such as the run of a script or of a notebook. A run that began anywhere
else may be one of many, such as the run of one request to a web server. The main flow is the code that a script's main
module calls. In an event loop it is the task that `asyncio.run`, `trio.run` or `run_until_complete` waits for, or the
cell of a notebook. Notebooks run each cell in a task of its own.

The answer is read from the stack, because event loops do not say which task is the main one.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

from trace_recorder.signal_handlers import ours

_CELL = ("IPython.core.interactiveshell", "run_cell_async")
"""The module and the function that run a cell of IPython and of its notebooks."""
_WAITING = ("asyncio.base_events", "asyncio.runners", "nest_asyncio")
"""The modules of functions that run an event loop until a task is done. The task is a local variable of theirs."""
_SCHEDULERS = {
    ("asyncio.events", "_run"),
    ("trio._core._run", "unrolled_run"),
    ("twisted.internet.base", "mainLoop"),
}
"""The modules and functions that run pieces of work in turns."""


def is_main_flow() -> bool:
    """Return whether the caller is in the main flow of the program.

    The answer is False in doubt, also if the main thread runs no main module, as in a server that embeds Python.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    task, is_main_task = _asyncio_task(), False
    is_in_turn = task is not _NO_LOOP
    frame: FrameType | None = sys._getframe()
    is_in_main_module = False
    while frame is not None:
        module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
        if (module, function) == _CELL:
            return True
        if (module, function) in _SCHEDULERS:
            if is_main_task:
                return False  # the task that waits for the event loop takes turns itself
            is_in_turn = True
        elif module in _WAITING:
            is_main_task = is_main_task or (task is not None and _has_local(frame, task))
        elif (module, function) == ("__main__", "<module>"):
            is_in_main_module = True
        frame = frame.f_back
    return is_in_main_module and (is_main_task or not is_in_turn or _is_main_task_of_trio())


def _has_local(frame: FrameType, value: object) -> bool:
    return any(local is value for local in frame.f_locals.values())


_NO_LOOP = object()


def _asyncio_task() -> object:
    """Return the current task of asyncio. Return None in a callback of a loop, and `_NO_LOOP` if no loop runs here."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return _NO_LOOP
    try:
        return asyncio.current_task()
    except ours(RuntimeError):
        return _NO_LOOP


def _is_main_task_of_trio() -> bool:
    """Return whether the current task is the one that `trio.run` waits for. It is alone in the innermost nursery."""
    trio = sys.modules.get("trio.lowlevel")
    if trio is None:
        return False
    try:
        root = trio.current_root_task()
        return root is not None and trio.current_task().parent_nursery is root.child_nurseries[-1]
    except ours(RuntimeError):
        return False
