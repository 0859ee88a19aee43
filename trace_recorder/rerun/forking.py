"""A fork: a run that repeats another one up to one of its calls, and goes on live from there.

    with trace_recorder.fork("trajectories/run.json", at="llm_7", edit=use_another_model) as branch:
        run_my_agent(branch.wrap(OpenAI()))

What was recorded before that call is given as in a replay. That call, and whatever follows, is made. All of it is
recorded in a run of its own; its first record names the parent run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trace_recorder.attach.lifecycle import RecorderTarget
from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.capture.seam import Binding
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.recording.stand_ins import Outcome
from trace_recorder.rerun.answers import Answer
from trace_recorder.rerun.differences import explained
from trace_recorder.rerun.fork_clients import InstalledFork
from trace_recorder.rerun.fork_point import ForkPoint
from trace_recorder.rerun.matching import Live, Match
from trace_recorder.rerun.outgoing import Changes, Edit, Outgoing
from trace_recorder.rerun.recorded import RecordedExchange, RecordedTool
from trace_recorder.rerun.replayer import Replay, not_asked_for, report_unused
from trace_recorder.storage.redaction.headers import secrets
from trace_recorder.storage.redaction.redactor import Redactor
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.origins import ReplayedFrom


class Fork(Replay):
    """Repeats a run up to a call, goes on live, and records all of it in `recorder`.

    The call is `at="llm_7"`, or the first of `at_step=3`; it is the first that is made. That call and all that follow
    may be changed: `model` takes the place of the model that the call asks for, wherever it is asked for; `system` that
    of the system prompt; `edit`, a function of the JSON body, returns the body that is sent. `answer` is given for the
    call, which is not made then: a response's JSON, or where the call streams, the text of the stream. Tools give their
    recorded results as far as they had ended before the call; from then on they run.

    `recorder` is one that has not been started; without a recorder, the new file is next to the file of the parent run.
    `ignore`, `match`, `speed`, `instrument` and `redact` are those of `replay`. A program that sends another request
    before the call gets a ReplayMismatchError, as in a replay; so does a block that ends before the call was reached.

    Raises TrajectoryFormatError where there is no journal, ValueError where it has no such call.
    """

    def __init__(  # noqa: PLR0913 - a name for each thing that a user may decide
        self,
        path: str | Path,
        *,
        at: str | None = None,
        at_step: int | None = None,
        model: str | None = None,
        system: str | None = None,
        edit: Edit | None = None,
        answer: Mapping[str, Any] | str | None = None,
        recorder: TrajectoryRecorder | None = None,
        ignore: Iterable[str] = (),
        match: Match | None = None,
        speed: float | None = None,
        instrument: bool = False,
        redact: Redactor | None = default_redactor,
    ) -> None:
        super().__init__(path, ignore=ignore, match=match, speed=speed, instrument=instrument, redact=redact)
        self.point = ForkPoint(self.recording, at, at_step)
        self.is_live = False
        self._changes = Changes(model, system, edit)
        self._changes.replace_model_of(self.point.exchange.endpoint, self.recording.request(self.point.exchange))
        self._by_hand = None if answer is None else answer_by_hand(answer, self.point)
        self.recorder = recorder or TrajectoryRecorder(
            task=self.point.task, directory=self.recording.path.parent, redact=redact
        )
        self._installed = InstalledFork(self, lambda: Binding(RecorderTarget(self.recorder), None))

    @property
    def origin(self) -> None:
        """Return None: a run that is recorded in the block continues the parent, and does not repeat it."""
        return

    @property
    def unused(self) -> list[str]:
        """Return the recorded calls before the fork that were not used yet."""
        return [one.interaction_id for one in self._missing()]

    def __enter__(self) -> Self:
        self.recorder._lifecycle.fork_from(self.point.origin)
        self._blocks.enter_context(self.recorder)
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._installed.remove()
        problem = self._problem() if error is None else None
        if problem is not None:
            self._blocks.__exit__(type(problem), problem, None)
            raise problem
        self._blocks.__exit__(kind, error, at)

    def _problem(self) -> ReplayMismatchError | None:
        """Return the first mismatch if the program has hidden it; None if there was none."""
        name = self.recording.path.name
        if self.mismatch is not None:
            return self.mismatch
        if not self.is_live:
            return ReplayMismatchError(report_not_reached(name, self.point))
        unused = self.unused
        return ReplayMismatchError(report_unused(f"{name}, up to {self.point},", unused)) if unused else None

    def decide(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | Outgoing:
        """Return the answer to one request, or what is sent for it. Raises ReplayMismatchError before the fork."""
        with self._lock:
            self._redaction.learn(secrets(headers)[0])
            live = Live(endpoint, self._read(body))
            exchange = self._requests.take(live, self._is_given)
            by_hand = self._go_live(live) if exchange is None else None
        if exchange is not None:
            return self._recorded(exchange)
        return by_hand or self._changes.applied(endpoint, body)

    def _go_live(self, live: Live) -> Answer | None:
        """Go live; return the given `answer` if this is the first live call and there is one."""
        if not self.is_live:
            missing = self._missing()
            if missing and not self._requests.knows(live):
                raise self.refused(explained(live, self.recording, missing))
            self._changes.replace_model_of(live.endpoint, live.body)
            self.is_live = True
        by_hand, self._by_hand = self._by_hand, None
        return by_hand if by_hand and self._claim(self.point.exchange.begin.seq) else None

    def _missing(self) -> list[RecordedExchange]:
        behind = [one for one in self._requests.left if self.point.is_behind(one)]
        return not_asked_for(behind, self.tools.given)

    def _is_given(self, one: RecordedExchange) -> bool:
        """Whether a call is answered as recorded; once live, what was made inside of a tool is not."""
        behind = self.point.is_behind(one)
        return behind and (not self.is_live or bool(not_asked_for([one], self.tools.given)))

    def tool_outcome(self, name: str, arguments: Mapping[str, object]) -> Outcome | None:
        """Return the outcome of a tool; None if it is to be run. Raises ReplayMismatchError before the fork."""
        with self._lock:
            outcome = self.tools.find(name, arguments, self.point.is_behind_tool)
            if outcome is None and not self._runs(name, arguments):
                raise self.refused(str(self.tools.mismatch(name, arguments)))
        return outcome

    def _runs(self, name: str, arguments: Mapping[str, object]) -> bool:
        """Whether a tool is run that has no recorded result before the fork."""
        if self.is_live or self.tools.knows(name, arguments):
            return True
        return not self._missing() and not self._missing_tools()

    def _missing_tools(self) -> list[RecordedTool]:
        return [one for one in self.tools.left if self.point.is_behind_tool(one)]


def report_not_reached(name: str, point: object) -> str:
    """Say that a fork of a recording never came to its call."""
    return f"the fork of {name} ended before {point}: nothing was asked for live."


def answer_by_hand(answer: Mapping[str, Any] | str, point: ForkPoint) -> Answer:
    """Make the given `answer`. Raises ValueError if the call needs one of the other kind."""
    if isinstance(answer, str) != point.exchange.streams:
        wanted = "streams: answer= is the text of its stream" if point.exchange.streams else "wants JSON: answer= is it"
        raise ValueError(f"{point} {wanted}, and not a {type(answer).__name__}")
    origin = ReplayedFrom(point.origin.trajectory_id, point.origin.interaction_id, by_hand=True)
    if not isinstance(answer, str):
        return Answer(200, {"content-type": "application/json"}, json.dumps(answer).encode(), origin=origin)
    kind = "text/event-stream" if "data:" in answer else "application/x-ndjson"
    return Answer(200, {"content-type": kind}, chunks=((0.0, answer.encode()),), origin=origin)
