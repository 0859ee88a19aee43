"""What a replayed and a forked process have in common: what answers is made once, and mismatches are reported.

What is answered, and by what, is in `bootstrap.py` for a replay and in `fork_bootstrap.py` for a fork.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from trace_recorder.capture.unseen_clients import WHAT_IS_ANSWERED, UnseenConnection, audit_connections
from trace_recorder.errors import ReplayMismatchError, TraceRecorderError
from trace_recorder.recording import process
from trace_recorder.recording.stand_ins import Outcome, run_it, stand_in_for_tools
from trace_recorder.rerun.answers import refused_connection
from trace_recorder.rerun.subprocess.handoff import SharedRecording
from trace_recorder.signal_handlers import ours
from trace_recorder.values.origins import ReplayOf


class HasTools(Protocol):
    """A replay or a fork, as far as tools ask it."""

    def tool_outcome(self, name: str, arguments: Mapping[str, object]) -> Outcome | None:
        """Return what a tool gives, or None if it runs."""


Made = TypeVar("Made", bound=HasTools)
Result = TypeVar("Result")


class ProcessAnswers(ABC, Generic[Made]):
    """Answers one process by a replay or a fork, which is made with the first call."""

    def __init__(self, handoff: SharedRecording) -> None:
        self.speed = handoff.speed
        self._reports = handoff
        self._lock = threading.Lock()
        self._made: Made | None = None
        process.observers.add(self)

    @abstractmethod
    def _make(self) -> Made:
        """Make what answers."""

    @abstractmethod
    def install(self) -> None:
        """Answer the HTTP clients and the tools of this process from now on."""

    def _ask(self, ask: Callable[[Made], Result]) -> Result:
        """Ask what answers. Raises ReplayMismatchError if it has no answer, and reports that to the supervisor."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            made = self._made
        try:
            return ask(made)
        except ReplayMismatchError as mismatch:
            self._reports.report_mismatch(str(mismatch))
            raise

    def _stand_in_for_tools(self, origin: ReplayOf | None = None, *, run: bool = False) -> None:
        def ask(name: str, arguments: Mapping[str, object]) -> Outcome | None:
            return self._ask(lambda it: it.tool_outcome(name, arguments))

        self._stand_in = stand_in_for_tools(run_it if run else ask, origin)
        self._stand_in.__enter__()

    def refused(self, text: str) -> ReplayMismatchError:
        """Return a mismatch to raise, after reporting it."""
        self._reports.report_mismatch(text)
        return ReplayMismatchError(text)

    def watch_connections(self) -> None:
        """Refuse connections to models that are not answered from the recording, from now on, unless they are allowed.

        Where calls are made already, as in a fork behind its point, they are reported instead.
        """
        if not self._reports.allow_live:
            audit_connections(self._connecting)

    def _makes_calls(self) -> bool:
        """Whether calls are sent to their providers by now."""
        return False

    def _connecting(self, connection: UnseenConnection) -> None:
        if self._makes_calls():
            self._reports.report_mismatch(f"{connection}: its calls are live, and not recorded. {WHAT_IS_ANSWERED}")
            return
        raise refused_connection(self.refused(_refusal(connection, Path(self._reports.journal).name))) from None

    def after_fork(self) -> None:
        """Called in the child after `os.fork`: another thread of the parent may have held the lock, so all is new."""
        self._lock = threading.Lock()
        self._made = None

    def at_exit(self) -> None:
        """Nothing is left to do: the records that were used are on file."""


def _refusal(connection: UnseenConnection, name: str) -> str:
    return (
        f"{connection.library} was kept from connecting to {connection.host}, where models are. Its calls cannot be "
        f"answered from {name}. {WHAT_IS_ANSWERED} With --allow-live, others may connect."
    )


_begun: list[ProcessAnswers[HasTools]] = []


def begin_process(make: Callable[[], ProcessAnswers[Made] | None], done: str) -> None:
    """Install what `make` returns, unless that is None; `done` completes "this process cannot be …".

    Raises SystemExit if that fails: the process must not call a model then.
    """
    try:
        answers = make()
        if answers is not None:
            _begun.append(answers)  # type: ignore[arg-type]  # it is only kept
            answers.install()
            answers.watch_connections()
    except ours(TraceRecorderError, OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"trace-recorder: this process cannot be {done}: {error}\n")
        raise SystemExit(1) from None
