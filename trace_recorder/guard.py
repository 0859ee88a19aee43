"""The guard: what goes wrong in recording stays here, and never reaches the agent.

`attempt` holds the package's only blind `except`. `Guard` stands wherever recording touches the agent: it lets the
agent go on, logs a failure once a kind, counts it, and keeps it as a gap until it can be written. Ctrl-C,
cancellation and other exits are not failures of recording and pass; so does what a signal's handler raised, whatever
it is. A failure that costs no record, such as of the document, is a gap when it begins, and one that counts the rest.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from inspect import CO_VARARGS
from types import CodeType, FrameType, TracebackType
from typing import TypeVar

from trace_recorder.clocks import now

logger = logging.getLogger("trace_recorder")

Result = TypeVar("Result")


def try_call(function: Callable[[], Result], otherwise: Callable[[Exception], Result]) -> Result:
    """Call what may raise anything, such as a property or a `__repr__` of the user's; else call `otherwise`."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - the one place: code that is not ours may raise anything
        if raised_by_signal_handler(error):
            raise
        return otherwise(error)


def stack_has_room(frames: int) -> bool:
    """Whether the stack has room for so many frames more."""
    try:
        sys._getframe(sys.getrecursionlimit() - frames)
    except ValueError:
        return True
    return False


def raised_by_signal_handler(error: BaseException) -> bool:
    """Whether a handler of a signal raised this: it is the agent's own, and came while recording by chance.

    A handler is given the frame that it interrupts. One that has let go of that is known while it is installed.
    """
    passed: set[CodeType | None] = set()
    at = error.__traceback__
    try:
        while at is not None and (last := at).tb_next is not None:
            at = last.tb_next  # the first frame is the one that catches
            code = at.tb_frame.f_code
            if code.co_argcount >= 2 or code.co_flags & CO_VARARGS:  # as a handler has; few others need to be compared
                if _receives_frame(at.tb_frame, last.tb_frame):
                    return True
                passed.add(code)
        return bool(passed) and not passed.isdisjoint(_installed_handlers())
    except RecursionError:  # the stack is full, which is more likely to be what was raised
        return False


def _receives_frame(called: FrameType, caller: FrameType) -> bool:
    """Whether a function has the frame that called it among its arguments, as only a signal's handler has."""
    code = called.f_code
    names = code.co_varnames[: code.co_argcount + bool(code.co_flags & CO_VARARGS) + code.co_kwonlyargcount]
    values = called.f_locals
    given = [values.get(name) for name in names]
    return any(one is caller or (type(one) is tuple and any(two is caller for two in one)) for one in given)


def _installed_handlers() -> set[CodeType | None]:
    return {_code_of(signal.getsignal(number)) for number in _SIGNALS} - {None}


def _code_of(handler: object) -> CodeType | None:
    """The code that runs when a handler is called: a function, a method, a partial, or an object that can be called."""
    handler = getattr(handler, "func", handler)
    called = getattr(type(handler), "__call__", None)  # noqa: B004 - it is the method that is wanted
    for candidate in (handler, getattr(handler, "__func__", None), called):
        code = getattr(candidate, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


_SIGNALS = tuple(signal.valid_signals())


@dataclass(slots=True)
class Failure:
    """Something that could not be recorded: what, why, when, how often; and how often of that is on file."""

    time: str
    what: str
    why: str
    count: int = 1
    reported: int = 0

    def describe(self) -> str:
        """Why, and how often since it was told."""
        new = self.count - self.reported
        if self.reported:
            return f"{self.why} ({new} more)"
        return f"{self.why} ({new} times)" if new > 1 else self.why


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
        self._last: Failure | None = None
        self._logged: set[str] = set()

    def __call__(self, what: str, *, costs_record: bool = True) -> _Guarded:
        """Guard a block; `what` completes "could not …"."""
        return _Guarded(self, what, costs_record)

    def record_failure(self, what: str, error: BaseException, *, costs_record: bool = True) -> None:
        """Count a failure, keep it for the file, and log it if it is the first of its kind."""
        why = try_call(lambda: f"{type(error).__name__}: {error}", lambda _: type(error).__name__)
        why = why.encode("utf-8", "backslashreplace").decode()
        self.count += 1
        self.queue_failure(what, why, costs_record=costs_record)
        kind = f"{what}: {type(error).__name__}"
        if kind not in self._logged and len(self._logged) < 100:
            self._logged.add(kind)
            message = "could not %s: %s (the agent is not affected; logged once)"
            try_call(lambda: logger.warning(message, what, why, exc_info=error), lambda _: None)

    def queue_failure(self, what: str, why: str, *, costs_record: bool = True) -> None:
        """Keep a failure for the file; where none of them costs a record, those that follow one are counted with it."""
        last = self._last
        if last is not None and (last.what, last.why) == (what, why):
            last.time, last.count = (now() if last.reported else last.time), last.count + 1
            return
        failure = Failure(now(), what, why)
        if not costs_record:
            self.note_recovery()
            self._last = failure
        self.failures.append(failure)

    def note_recovery(self, what: str | None = None) -> None:
        """Hear that a failure which costs no record is over, if it was of `what`: how often it came can be told."""
        last = self._last
        if last is None or what not in {None, last.what}:
            return
        self._last = None
        if 0 < last.reported < last.count:
            self.failures.append(last)

    def discard_failures(self) -> None:
        """Leave what is not on file yet to another process, in which it happened."""
        self._last = None
        self.failures.clear()


def is_recording() -> bool:
    """Whether whoever calls this was called in the middle of recording something, in a thread that may hold locks.

    What the garbage collector ends at such a moment must wait for nobody. The stack is asked, and no counter, which
    Ctrl-C could leave wrong for good. A module that records, and so may hold a lock, says `__records__ = True`; the
    frames of the caller's own module that are on top of the stack do not count.
    """
    frame: FrameType | None = sys._getframe(1)
    caller = sys._getframe(1).f_globals
    while frame is not None and frame.f_globals is caller:
        frame = frame.f_back
    while frame is not None:
        if "__records__" in frame.f_globals:
            return True
        frame = frame.f_back
    return False


class _Guarded:
    __slots__ = ("_costs_record", "_guard", "_what")

    def __init__(self, guard: Guard, what: str, costs_record: bool) -> None:  # noqa: FBT001 - see `Guard`
        self._guard = guard
        self._what = what
        self._costs_record = costs_record

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None:
            if not self._costs_record:
                self._guard.note_recovery(self._what)
            return False
        if not isinstance(error, Exception) or raised_by_signal_handler(error):
            return False
        self._guard.record_failure(self._what, error, costs_record=self._costs_record)
        return not self._guard.strict
