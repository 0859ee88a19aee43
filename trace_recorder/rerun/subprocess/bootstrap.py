"""Replay inside a process of the program: its LLM calls and recorded tools are answered from the journal.

The journal is read at the first call, and mismatches are reported to the supervisor. `site/sitecustomize.py` of
`attach/subprocess/` calls `begin` at the start of the process. A process that cannot be replayed ends before it calls a
model. `fork_bootstrap.py` does the same for the fork of a run. Both files use `ProcessAnswers`.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from trace_recorder.capture.unseen_clients import WHAT_IS_ANSWERED, UnseenConnection, audit_connections
from trace_recorder.dialects.endpoints import Endpoint, Poll
from trace_recorder.errors import ReplayMismatchError, TraceRecorderError
from trace_recorder.locks import Lock
from trace_recorder.recording import process
from trace_recorder.recording.stand_ins import Outcome, let_tool_run, stand_in_for_tools
from trace_recorder.rerun.answers import Answer, Missing, refused_connection
from trace_recorder.rerun.clients import ReplayTransports
from trace_recorder.rerun.replayer import Replay
from trace_recorder.rerun.subprocess.handoff import ReplayHandoff, SharedRecording
from trace_recorder.signal_handlers import ours
from trace_recorder.values.origins import ReplayOf, RunOrigin


class HasTools(Protocol):
    """The part of a replay or a fork that tools need."""

    def tool_outcome(self, name: str, arguments: Mapping[str, object]) -> Outcome | None:
        """Return the outcome of a tool, or None if the tool is to be run."""


Instructions = TypeVar("Instructions", bound=SharedRecording)
Made = TypeVar("Made", bound=HasTools)
Result = TypeVar("Result")


class ProcessAnswers(ABC, Generic[Made]):
    """The answers for one process. The replay or the fork that gives the answers is made at the first call."""

    def __init__(self, handoff: SharedRecording) -> None:
        self.speed = handoff.speed
        self._reports = handoff
        self._lock = Lock()
        self._made: Made | None = None
        process.observers.add(self)

    @abstractmethod
    def _make(self) -> Made:
        """Make the replay or the fork."""

    @abstractmethod
    def install(self) -> None:
        """Answer the HTTP clients and the tools of this process from now on."""

    def _ask(self, ask: Callable[[Made], Result]) -> Result:
        """Call `ask` with the replay or the fork, and return the result.

        If there is no answer, report the mismatch to the supervisor, and raise ReplayMismatchError.
        """
        with self._lock:
            if self._made is None:
                self._made = self._make()
            made = self._made
        try:
            return ask(made)
        except ReplayMismatchError as mismatch:
            self._reports.report_mismatch(str(mismatch))
            raise

    def _stand_in_for_tools(self, origin: RunOrigin | None = None, *, run: bool = False) -> None:
        def ask(name: str, arguments: Mapping[str, object]) -> Outcome | None:
            return self._ask(lambda made: made.tool_outcome(name, arguments))

        self._stand_in = stand_in_for_tools(let_tool_run if run else ask, origin)
        self._stand_in.__enter__()

    def refused(self, message: str) -> ReplayMismatchError:
        """Report a mismatch to the supervisor, and return the exception to raise."""
        self._reports.report_mismatch(message)
        return ReplayMismatchError(message)

    def watch_connections(self) -> None:
        """From now on, refuse connections to models by clients that are not answered from the recording.

        If `allow_live` is set, do nothing. After the first live call of a fork, such connections are reported and not
        refused.
        """
        if not self._reports.allow_live:
            audit_connections(self._connecting)

    def _makes_calls(self) -> bool:
        """Return whether calls are now sent to their providers."""
        return False

    def _connecting(self, connection: UnseenConnection) -> None:
        if self._makes_calls():
            self._reports.report_mismatch(f"{connection}: its calls are live, and not recorded. {WHAT_IS_ANSWERED}")
            return
        raise refused_connection(self.refused(_refusal(connection, Path(self._reports.journal).name))) from None

    def after_fork(self) -> None:
        """Replace the lock in the child after `os.fork`, because another thread of the parent may have held it."""
        self._lock = Lock()
        self._made = None

    def at_exit(self) -> None:
        """Do nothing, because the notes about used records are on file already."""


def _refusal(connection: UnseenConnection, name: str) -> str:
    return (
        f"{connection.library} was kept from connecting to {connection.host}, which serves models. Its calls cannot be "
        f"answered from {name}. {WHAT_IS_ANSWERED} With --allow-live, other clients may connect."
    )


_kept_alive: list[object] = []


def begin_process(
    kind: type[Instructions], make: Callable[[Instructions], ProcessAnswers[Made]], participle: str
) -> None:
    """Begin a replay, or a fork of a run, in this process if the environment has instructions of this kind.

    `participle` completes the message "this process cannot be …". Raises SystemExit if the process cannot be replayed
    or forked, because then it must not call a model.
    """
    try:
        handoff = kind.from_environment(os.environ)
        if handoff is not None:
            answers = make(handoff)
            _kept_alive.append(answers)
            answers.install()
            answers.watch_connections()
    except ours(TraceRecorderError, OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"trace-recorder: this process cannot be {participle}: {error}\n")
        raise SystemExit(1) from None


def begin() -> None:
    """Begin the replay in this process if the environment has instructions for a replay. May raise SystemExit."""
    begin_process(ReplayHandoff, _ProcessReplay, "replayed")


class _SharedReplay(Replay):
    """A replay that shares its recorded calls with other processes. Each call is used by one process."""

    def __init__(self, handoff: ReplayHandoff) -> None:
        self._handoff = handoff
        super().__init__(
            handoff.journal,
            ignore=handoff.ignore,
            match=handoff.match,
            speed=handoff.speed,
            tools=handoff.tools,
        )

    def _claim(self, number: int) -> bool:
        return self._handoff.claim(number)


class _ProcessReplay(ProcessAnswers[_SharedReplay]):
    """The answers of a replay for this process."""

    def __init__(self, handoff: ReplayHandoff) -> None:
        super().__init__(handoff)
        self.missing: Missing = "error"
        self._handoff = handoff

    def _make(self) -> _SharedReplay:
        return _SharedReplay(self._handoff)

    def install(self) -> None:
        """Answer the requests of every HTTP client in this process, and its tool calls, from now on."""
        transports = ReplayTransports(self)
        transports.everywhere()
        transports.answer_websockets()
        origin = ReplayOf(self._handoff.trajectory_id, Path(self._handoff.journal).name)
        self._stand_in_for_tools(origin, run=self._handoff.tools == "live")

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """Return the recorded answer to one request. Raises ReplayMismatchError if there is no such answer."""
        return self._ask(lambda replay: replay.answer(endpoint, headers, body))

    def polled(self, poll: Poll) -> Answer | None:
        """Return the final answer to a poll, or None if the recording has no such response."""
        return self._ask(lambda replay: replay.polled(poll))
