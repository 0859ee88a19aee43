"""The guard: what goes wrong in recording stays here, and never reaches the agent.

`attempt` holds the package's only blind `except`. `Guard` stands wherever recording touches the agent: it lets the
agent go on, logs a failure once a kind, counts it, and keeps it as a gap until it can be written. Ctrl-C,
cancellation and other exits are not failures of recording and pass.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from trace_recorder.journal import now

logger = logging.getLogger("trace_recorder")

Result = TypeVar("Result")


def attempt(function: Callable[[], Result], otherwise: Callable[[Exception], Result]) -> Result:
    """Call what may raise anything, such as a property or a `__repr__` of the user's; else call `otherwise`."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - the one place: code that is not ours may raise anything
        return otherwise(error)


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that could not be recorded: what, why, and when."""

    time: str
    what: str
    why: str


class Guard:
    """Keeps failures of recording away from the agent; with `strict` they are raised instead.

        with guard("record a request"):
            …

    `failures` are those that are not on file yet, the newest 1,000; `count` is of all of them.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.count = 0
        self.failures: deque[Failure] = deque(maxlen=1000)
        self._logged: set[str] = set()

    def __call__(self, what: str) -> _Guarded:
        """Guard a block; `what` completes "could not …"."""
        return _Guarded(self, what)

    def note(self, what: str, error: BaseException) -> None:
        """Count a failure, keep it for the file, and log it if it is the first of its kind."""
        why = attempt(lambda: f"{type(error).__name__}: {error}", lambda _: type(error).__name__)
        why = why.encode("utf-8", "backslashreplace").decode()
        self.count += 1
        self.failures.append(Failure(now(), what, why))
        kind = f"{what}: {type(error).__name__}"
        if kind not in self._logged and len(self._logged) < 100:
            self._logged.add(kind)
            message = "could not %s: %s (the agent is not affected; logged once)"
            attempt(lambda: logger.warning(message, what, why, exc_info=error), lambda _: None)


class _Depth(threading.local):
    """How many guarded blocks this thread is in."""

    blocks = 0


_depth = _Depth()


def is_recording() -> bool:
    """Whether this thread is in the middle of recording something, and may hold locks for it.

    What the garbage collector ends at such a moment must wait for nobody.
    """
    return _depth.blocks > 0


class _Guarded:
    __slots__ = ("_guard", "_what")

    def __init__(self, guard: Guard, what: str) -> None:
        self._guard = guard
        self._what = what

    def __enter__(self) -> None:
        _depth.blocks += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        _depth.blocks -= 1
        if not isinstance(error, Exception):
            return False
        self._guard.note(self._what, error)
        return not self._guard.strict
