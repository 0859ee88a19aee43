"""The guard: failures of recording stop here and never reach the agent.

`try_call` has the package's only blind `except`. `ignore_failures` is for failures that nobody needs to know. `Guard`
is used wherever recording runs inside the agent's calls. The agent continues after a failure. The failure is counted,
logged if it is the first of its kind, and kept until it can be written to the journal as a gap. KeyboardInterrupt,
cancellation and other exits are not failures of recording, so they are raised in the agent. Exceptions of the agent's
own signal handlers are raised too, because such handlers may run during recording.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from types import TracebackType
from typing import TypeVar, TypeVarTuple

from trace_recorder.clocks import now
from trace_recorder.signal_handlers import raised_by_signal_handler, suppress

logger = logging.getLogger("trace_recorder")

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


def try_call(
    function: Callable[[*Arguments], Result], on_error: Callable[[Exception], Result], *arguments: *Arguments
) -> Result:
    """Call a function that may raise anything, such as a user's `__repr__`. If it raises, return `on_error(error)`."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - the only one: other people's code may raise anything
        if raised_by_signal_handler(error):
            raise
        return on_error(error)


ignore_failures = suppress(Exception)
"""Ignores every failure in a block, for failures that are reported elsewhere or need no report.

    with ignore_failures:
        …

It has no state, so that any thread may use it.
"""

_LIMITS = {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM}
"""The errors of a system that has no more open files, disk space or memory to give. They concern all runs at once."""
limit_counts: Counter[int | None] = Counter()
"""How often each of these errors occurred in this process."""


def log_limit(what: str, error: BaseException, level: int = logging.WARNING) -> bool:
    """Return whether a failure comes from a limit of the system, such as a full disk. If so, log it.

    Such a failure meets every run of the process. So only the first, the tenth, the hundredth and so on is logged, as
    one sentence with the count.
    """
    number = getattr(error, "errno", None)
    if isinstance(error, MemoryError):
        number = errno.ENOMEM
    if number not in _LIMITS:
        return False
    limit_counts[number] += 1
    count = limit_counts[number]
    if count == 10 ** (len(str(count)) - 1):
        message = "could not %s: %s (the agent is not affected; failure %d of this kind in this process)"
        with ignore_failures:
            why = str(error) or type(error).__name__  # a text: a handler may keep it, and an error keeps its frames
            logger.log(level, message, what, why, count)
    return True


_MAX_BLOCKS = 100
"""A guard keeps at most this many context managers, one for each action. The guard drops the least recently used."""


@dataclass(slots=True)
class Failure:
    """A failure of recording: when and how often it happened, what failed, and why.

    The failure happened `count` times. The gaps in the journal report `reported` of them.
    """

    time: str
    what: str
    why: str
    count: int = 1
    reported: int = 0

    def describe(self) -> str:
        """Return the reason of the failure, and how often the failure happened since it was last reported."""
        new = self.count - self.reported
        if self.reported:
            return f"{self.why} ({new} more)"
        if new > 1:
            return f"{self.why} ({new} times)"
        return self.why


class Guard:
    """Catches failures of recording, so that they do not reach the agent. If `strict` is True, the failures are raised.

        with guard.protect("record a request"):
            …

    `protect` returns a context manager. Calls with equal arguments return the same object. The argument completes the
    sentence "could not …". Use costs_record=False for an action that can fail without the loss of a record, such as
    writing the document. The journal then gets one gap when the failure first happens, and one gap with the number of
    repetitions when the failure no longer happens.

    If `quotes_errors` is False, only the class of an error is logged, because its message may quote the agent's texts.

    `failures` has the newest 1,000 failures that are not on file yet. `count` is the number of all failures. The
    methods take no lock, because any thread may fail at any point. They need no lock, because operations of a deque
    are atomic. `count` may be too low if two threads fail at the same time.
    """

    def __init__(self, *, strict: bool = False, quotes_errors: bool = True) -> None:
        self.strict = strict
        self._quotes_errors = quotes_errors
        self.count = 0
        self.failures: deque[Failure] = deque(maxlen=1000)
        self._last: Failure | None = None
        self._logged: set[str] = set()
        self.protect: Callable[..., _Guarded] = lru_cache(_MAX_BLOCKS)(partial(_Guarded, self))

    def record_failure(self, what: str, error: BaseException, *, costs_record: bool = True) -> None:
        """Count a failure, and queue it for the journal.

        Log the failure if it is the first with this action and this class of error.
        """
        why = type(error).__name__
        if self._quotes_errors:
            with ignore_failures:
                why = f"{type(error).__name__}: {error}"
        why = why.encode("utf-8", "backslashreplace").decode()
        self.count += 1
        self.queue_failure(what, why, costs_record=costs_record)
        if log_limit(what, error):
            return
        kind = f"{what}: {type(error).__name__}"
        if kind not in self._logged and len(self._logged) < 100:
            self._logged.add(kind)
            message = "could not %s: %s (the agent is not affected; logged once)"
            with ignore_failures:
                logger.warning(message, what, why, exc_info=error if self._quotes_errors else None)

    def queue_failure(self, what: str, why: str, *, costs_record: bool = True) -> None:
        """Queue a failure for the journal. A repetition of a failure that costs no record is only counted."""
        last = self._last
        if last is not None and (last.what, last.why) == (what, why):
            if last.reported:
                last.time = now()
            last.count += 1
            return
        failure = Failure(now(), what, why)
        if not costs_record:
            self.note_recovery()
            self._last = failure
        self.failures.append(failure)

    def note_recovery(self, what: str | None = None) -> None:
        """Stop counting the repetitions of a failure that costs no record, and queue their count for the journal.

        If `what` is given, do so only if `what` is the action that failed.
        """
        last = self._last
        if last is None or what not in {None, last.what}:
            return
        self._last = None
        if 0 < last.reported < last.count:
            self.failures.append(last)

    def discard_failures(self) -> None:
        """Discard the failures that are not on file yet.

        A forked child calls this, because its parent writes these failures.
        """
        self._last = None
        self.failures.clear()


class _Guarded(AbstractContextManager["_Guarded", bool]):
    def __init__(self, guard: Guard, what: str, *, costs_record: bool = True) -> None:
        self._guard = guard
        self._what = what
        self._costs_record = costs_record

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None:
            if not self._costs_record and self._guard._last is not None:
                self._guard.note_recovery(self._what)
            return False
        if not isinstance(error, Exception) or raised_by_signal_handler(error):
            return False
        self._guard.record_failure(self._what, error, costs_record=self._costs_record)
        return not self._guard.strict
