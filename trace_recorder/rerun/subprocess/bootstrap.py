"""Replay inside a process of the program: its LLM calls and recorded tools are answered from the journal.

The journal is read at the first call. `site/sitecustomize.py` of `attach/subprocess/` calls `begin` at the start of the
process. A process that cannot be replayed ends before it calls a model.
"""

from __future__ import annotations

from pathlib import Path

from trace_recorder.dialects.endpoints import Endpoint, polled_response
from trace_recorder.rerun.answers import Answer, Missing
from trace_recorder.rerun.clients import Installed
from trace_recorder.rerun.replayer import Replay
from trace_recorder.rerun.subprocess.handoff import ReplayHandoff
from trace_recorder.rerun.subprocess.process_answers import ProcessAnswers, begin_process
from trace_recorder.values.origins import ReplayOf


def begin() -> None:
    """Replay this process if the environment says so. May raise SystemExit."""
    begin_process(ReplayHandoff, _ProcessReplay, "replayed")


class _SharedReplay(Replay):
    """A replay in which each recorded call is used once among all processes."""

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
    """The replay of this process."""

    def __init__(self, handoff: ReplayHandoff) -> None:
        super().__init__(handoff)
        self.missing: Missing = "error"
        self._handoff = handoff

    def _make(self) -> _SharedReplay:
        return _SharedReplay(self._handoff)

    def install(self) -> None:
        """Answer the requests of every HTTP client in this process, and its tool calls, from now on."""
        Installed(self).everywhere()
        origin = ReplayOf(self._handoff.trajectory_id, Path(self._handoff.journal).name)
        self._stand_in_for_tools(origin, run=self._handoff.tools == "live")

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """Return the recorded answer to one request. Raises ReplayMismatchError if there is no such answer."""
        return self._ask(lambda replay: replay.answer(endpoint, headers, body))

    def polled(self, method: str, path: str) -> Answer | None:
        """Return the final answer to a poll of a recorded response.

        Return None for a request that is not such a poll. Other requests do not cause the journal to be read.
        """
        return self._ask(lambda replay: replay.polled(method, path)) if polled_response(method, path) else None
