"""In a process of the program's: its LLM calls and its recorded tools are answered from the journal.

The journal is read with the first call. `site/sitecustomize.py` of `attach/subprocess/` calls `begin` at the
process's start. A process that cannot be replayed ends before it calls a model.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping

from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.errors import ReplayMismatchError, TraceRecorderError
from trace_recorder.recording import process
from trace_recorder.recording.stand_ins import Outcome, stand_in_for_tools
from trace_recorder.rerun.clients import Installed
from trace_recorder.rerun.replayer import Replay
from trace_recorder.rerun.subprocess.handoff import ReplayHandoff
from trace_recorder.rerun.transport import Answer, Missing

_replays: list[_ProcessReplay] = []


def begin() -> None:
    """Replay this process as the environment orders it; without an order, nothing happens. May raise SystemExit."""
    try:
        handoff = ReplayHandoff.from_environment(os.environ)
        if handoff is not None:
            replay = _ProcessReplay(handoff)
            _replays.append(replay)
            replay.install()
    except (TraceRecorderError, OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"trace-recorder: this process cannot be replayed: {error}\n")
        raise SystemExit(1) from None


class _SharedReplay(Replay):
    """A replay in which each recorded call is used once among all processes."""

    def __init__(self, handoff: ReplayHandoff) -> None:
        self._handoff = handoff
        super().__init__(handoff.journal, ignore=handoff.ignore, speed=handoff.speed, tools=handoff.tools)

    def _claim(self, number: int) -> bool:
        return self._handoff.claim(number)


class _ProcessReplay:
    """The replay of this process, made with the first call; each mismatch is reported to the supervisor."""

    def __init__(self, handoff: ReplayHandoff) -> None:
        self.speed = handoff.speed
        self.missing: Missing = "error"
        self._handoff = handoff
        self._lock = threading.Lock()
        self._made: _SharedReplay | None = None
        process.observers.add(self)

    def install(self) -> None:
        """Answer every HTTP client of this process, and its tools, from now on."""
        Installed(self).everywhere()
        if self._handoff.tools == "recorded":
            self._stand_in = stand_in_for_tools(self._tool)
            self._stand_in.__enter__()

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """Return the recorded answer to one request. Raises ReplayMismatchError if there is none."""
        try:
            return self._replay().answer(endpoint, headers, body)
        except ReplayMismatchError as mismatch:
            self._handoff.report_mismatch(str(mismatch))
            raise

    def refused(self, said: str) -> ReplayMismatchError:
        """A mismatch to raise, which is reported."""
        self._handoff.report_mismatch(said)
        return ReplayMismatchError(said)

    def _tool(self, name: str, arguments: Mapping[str, object]) -> Outcome | None:
        try:
            return self._replay().tool_outcome(name, arguments)
        except ReplayMismatchError as mismatch:
            self._handoff.report_mismatch(str(mismatch))
            raise

    def _replay(self) -> _SharedReplay:
        with self._lock:
            if self._made is None:
                self._made = _SharedReplay(self._handoff)
            return self._made

    def after_fork(self) -> None:
        """Called in the child after a fork: its parent's locks may be held for good, so it makes a new replay."""
        self._lock = threading.Lock()
        self._made = None

    def at_exit(self) -> None:
        """The records that were used are on file already."""
