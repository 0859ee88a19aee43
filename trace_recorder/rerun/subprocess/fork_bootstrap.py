"""Fork inside a process of the program: its LLM calls are answered up to a call, and sent from that call on.

All calls are recorded, by the program's own recorders or else by the recorder of the command. The processes share the
parent run: each recorded call is used by one process. As soon as one process has sent a live call, all processes send
their calls. Each process that makes a call has a file of its own, which names the parent run. A process that
cannot be forked ends before it calls a model.
"""

from __future__ import annotations

import json
from pathlib import Path

from trace_recorder.attach.current import defaults, following
from trace_recorder.attach.subprocess.bootstrap import ProcessRecorder
from trace_recorder.capture.seam import Binding
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.rerun.answers import Answer, Outgoing
from trace_recorder.rerun.fork_clients import ForkTransports
from trace_recorder.rerun.forking import Fork
from trace_recorder.rerun.recorded import RecordedExchange, RecordedTool
from trace_recorder.rerun.replayer import calls_outside_tools
from trace_recorder.rerun.subprocess.bootstrap import ProcessAnswers, begin_process
from trace_recorder.rerun.subprocess.handoff import ForkHandoff
from trace_recorder.storage.byte_order_marks import read_text


def begin() -> None:
    """Begin the fork of a run in this process if the environment has instructions for a fork. May raise SystemExit."""
    begin_process(ForkHandoff, _ProcessFork, "forked")


class _SharedFork(Fork):
    """A fork that shares its recorded calls with other processes.

    As soon as one process has sent a live call, all processes send their calls.
    """

    def __init__(self, handoff: ForkHandoff) -> None:
        self._handoff = handoff
        answer = handoff.answer and json.loads(read_text(Path(handoff.answer)))
        super().__init__(
            handoff.journal,
            at=handoff.forked_from().interaction_id,
            model=handoff.model,
            system=handoff.system,
            answer=answer,
            ignore=handoff.ignore,
            match=handoff.match,
            speed=handoff.speed,
        )

    @property
    def is_live(self) -> bool:
        """Whether a process has made a live call."""
        return self._handoff.is_live()

    @is_live.setter
    def is_live(self, value: bool) -> None:
        if value:
            self._handoff.go_live()

    def _claim(self, number: int) -> bool:
        return self._handoff.claim(number)

    def _missing(self) -> list[RecordedExchange]:
        used = self._handoff.used_records()
        tools = [tool for tool in self.recording.tools if tool.seq in used]
        return calls_outside_tools([call for call in super()._missing() if call.seq not in used], tools)

    def _missing_tools(self) -> list[RecordedTool]:
        used = self._handoff.used_records()
        return [tool for tool in super()._missing_tools() if tool.seq not in used]


class _ProcessFork(ProcessAnswers[_SharedFork]):
    """The fork of a run in this process, and the recording of the calls of this process."""

    def __init__(self, handoff: ForkHandoff) -> None:
        super().__init__(handoff)
        self._handoff = handoff
        self._recording = ProcessRecorder(handoff.recording())

    def _make(self) -> _SharedFork:
        return _SharedFork(self._handoff)

    def install(self) -> None:
        """From now on, answer or send the calls of every HTTP client in this process, and record the calls.

        Answer tool calls too. Each run that begins in this process is a fork, also a run of the program's own recorder.
        """
        defaults.of_command = self._recording.recorder
        ForkTransports(self, lambda own: own or Binding(following, None), records_all=True).everywhere()
        self._stand_in_for_tools(self._handoff.forked_from())
        self._recording.end_with_process()

    def _makes_calls(self) -> bool:
        return self._handoff.is_live()

    def decide(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | Outgoing:
        """Return the answer to a request, or the request to send.

        Before the first live call, a request that was not recorded raises ReplayMismatchError.
        """
        return self._ask(lambda fork: fork.decide(endpoint, headers, body))
