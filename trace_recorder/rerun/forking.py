"""A fork: a run that repeats an earlier run up to one of its calls, and sends that call and all later calls.

    with trace_recorder.fork("trajectories/run.json", at="llm_7", edit=use_another_model) as branch:
        run_my_agent(branch.wrap(OpenAI()))

The calls before that call are answered as in a replay. That call and all later calls are "live": they are sent to their
providers. The fork is recorded as a run of its own. Its first record names the earlier run, which is called the parent
run. `Changes` has the changes that a fork makes to live requests: another model, another system prompt, an edit.
`fork_clients.py` makes the changed request for httpx and httpx2, `urllib3_answers.py` for urllib3, and
`aiohttp_answers.py` for aiohttp.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trace_recorder.attach.lifecycle import RecorderTarget
from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.capture.seam import Binding
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.reading.own_files import load_own
from trace_recorder.recording.stand_ins import Outcome
from trace_recorder.rerun.answers import Answer, Outgoing
from trace_recorder.rerun.differences import explain_mismatch
from trace_recorder.rerun.fork_clients import ForkTransports
from trace_recorder.rerun.matching import LiveRequest, Match
from trace_recorder.rerun.recorded import RecordedExchange, RecordedTool, Recording
from trace_recorder.rerun.replayer import Replay, calls_outside_tools, plain_body, report_unused
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.headers import secrets
from trace_recorder.storage.redaction.redactor import Redactor
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ForkedFrom, ReplayedFrom
from trace_recorder.values.trajectory import Trajectory

Edit = Callable[[Any], Any]
"""A function that takes the JSON body of a request and returns the body to send."""


class ForkPoint:
    """The first live call of a fork.

    `at` is the id of a call, such as "llm_7". `at_step` is the number of a step, and stands for the first call of that
    step. Raises ValueError if neither or both are given, and if the recording has no such call.
    """

    def __init__(self, recording: Recording, at: str | None, at_step: int | None) -> None:
        if (at is None) == (at_step is None):
            raise ValueError('fork() takes one of at="llm_7" (a call) and at_step=3 (the first call of a step)')
        run = load_own(recording.path)
        self.task = run.task
        first_attempts = {exchange.interaction_id: exchange for exchange in reversed(recording.exchanges)}
        steps = _steps_of(run)
        calls = [call.interaction_id for call in run.llm_interactions if call.interaction_id in first_attempts]
        if at is not None:
            call_id = next((call for call in calls if call == at), None)
        else:
            call_id = next((call for call in calls if steps.get(call) == at_step), None)
        if call_id is None:
            known = [_call_with_step(call, steps.get(call)) for call in calls[:20]]
            raise ValueError(
                f"{recording.path.name} has no call {at or f'of step {at_step}'}. "
                f"Its calls are: {', '.join(known) or 'none'}"
            )
        self.exchange = first_attempts[call_id]
        self._seq = self.exchange.seq
        self.origin = ForkedFrom(run.trajectory_id or "", recording.path.name, call_id, steps.get(call_id))

    def is_after(self, exchange: RecordedExchange) -> bool:
        """Return whether a recorded call began before the first live call, and has an end on file."""
        return exchange.seq < self._seq and exchange.ending is not None

    def is_after_tool(self, tool: RecordedTool) -> bool:
        """Return whether a tool ended before the first live call.

        A tool that made the first live call had not ended.
        """
        return tool.ended_seq is not None and tool.ended_seq < self._seq

    def __str__(self) -> str:
        return self.exchange.interaction_id


def _call_with_step(call_id: str, step_number: int | None) -> str:
    if step_number is None:
        return call_id
    return f"{call_id} (step {step_number})"


def _steps_of(run: Trajectory) -> dict[str, int]:
    """Return the step number of each call that belongs to a step, recorded or derived."""
    steps: dict[str, int] = {}
    for step in run.agent_steps:
        if step.interaction_ids:
            steps |= dict.fromkeys(step.interaction_ids, step.step_number)
        elif step.interaction:
            steps[step.interaction.interaction_id] = step.step_number
    return steps


class Fork(Replay):
    """A fork: repeats a run up to a call, sends that call and all later calls, and records all calls in `recorder`.

    `at="llm_7"` names the first live call. `at_step=3` stands for the first call of step 3. `model`, `system` and
    `edit` change live calls. `model` replaces the model that the first live call asks for. Later calls that ask for
    that model get `model` too. `system` replaces the system prompt. `edit` is a function that takes the JSON body and
    returns the body to send. `answer` is the answer to the first live call, which is then not sent. It is the JSON of a
    response, or the text of a stream if the call streams. Tools that ended before the first live call give their
    recorded results. Later tools run.

    `recorder` is a recorder that has not been started. Without a recorder, the new file is next to the file of the
    parent run. `ignore`, `match`, `speed`, `instrument` and `redact` have the same meaning as for `replay`. Before the
    first live call, a request that was not recorded raises ReplayMismatchError. If the block does not reach the first
    live call, the end of the block raises ReplayMismatchError.

    Raises TrajectoryFormatError if there is no journal, and ValueError if the journal has no such call.

    Examples:
        >>> with fork("trajectories/run.json", at="llm_1", model="gpt-4o") as branch:
        ...     reply = run_my_agent(branch.wrap(OpenAI()))
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
        self._by_hand: Answer | None = None
        if answer is not None:
            self._by_hand = answer_by_hand(answer, self.point)
        self.recorder = recorder or TrajectoryRecorder(
            task=self.point.task, directory=self.recording.path.parent, redact=redact
        )
        self._installed = ForkTransports(self, lambda _: Binding(RecorderTarget(self.recorder), None))

    @property
    def origin(self) -> None:
        """Return None, because a run that is recorded in the block is not a replay of the parent run."""
        return

    @property
    def unused(self) -> list[str]:
        """Return the ids of the recorded calls before the first live call that no request has used."""
        return [exchange.interaction_id for exchange in self._missing()]

    def __enter__(self) -> Self:
        self.recorder._lifecycle.fork_from(self.point.origin)
        self._blocks.enter_context(self.recorder)
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._installed.remove()
        problem = None
        if error is None:
            problem = self._problem()
        if problem is not None:
            self._blocks.__exit__(type(problem), problem, None)
            raise problem
        self._blocks.__exit__(kind, error, traceback)

    def _problem(self) -> ReplayMismatchError | None:
        """Return the mismatch to raise at the end of the block, or None.

        It is raised if the program caught a mismatch, did not reach the first live call, or left out recorded calls.
        """
        name = self.recording.path.name
        if self.mismatch is not None:
            return self.mismatch
        if not self.is_live:
            return ReplayMismatchError(report_not_reached(name, self.point))
        unused = self.unused
        if not unused:
            return None
        return ReplayMismatchError(report_unused(f"{name}, up to {self.point},", unused))

    def decide(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | Outgoing:
        """Return the answer to a request, or the request to send.

        Before the first live call, a request that was not recorded raises ReplayMismatchError.
        """
        with self._lock:
            self._redaction.learn(secrets(headers)[0])
            live = LiveRequest(endpoint, self._read(plain_body(headers, body)))
            exchange = self._calls.take(live, self._is_answered)
            by_hand = None
            if exchange is None:
                by_hand = self._go_live(live)
        if exchange is not None:
            return self._recorded(exchange)
        return by_hand or self._changes.applied(endpoint, body)

    def _go_live(self, live: LiveRequest) -> Answer | None:
        """Make the fork live at the first request that is not answered.

        Return the user's answer to the first live call, or None to send the request. Raises ReplayMismatchError if the
        program has left out recorded calls and this request was not recorded.
        """
        if not self.is_live:
            missing = self._missing()
            if missing and not self._calls.knows(live):
                raise self.refused(explain_mismatch(live, self.recording, missing))
            self._changes.replace_model_of(live.endpoint, live.body)
            self.is_live = True
        by_hand, self._by_hand = self._by_hand, None
        if by_hand is not None and self._claim(self.point.exchange.seq):
            return by_hand
        return None

    def _missing(self) -> list[RecordedExchange]:
        """Return the unused recorded calls before the first live call.

        Calls inside tools whose recorded results were used are left out.
        """
        before = [exchange for exchange in self._calls.unused if self.point.is_after(exchange)]
        return calls_outside_tools(before, self.tools.used)

    def _is_answered(self, exchange: RecordedExchange) -> bool:
        """Return whether a call gets its recorded answer.

        The recorded call must have begun before the first live call, and its end must be on file. If the fork is live,
        the answers of calls inside a tool are not used once the recorded result of the tool was used.
        """
        if not self.point.is_after(exchange):
            return False
        return not self.is_live or bool(calls_outside_tools([exchange], self.tools.used))

    def tool_outcome(self, name: str, arguments: Mapping[str, object]) -> Outcome | None:
        """Return the recorded outcome of a tool, or None if the tool is to be run.

        Before the first live LLM call, a tool call that was not recorded raises ReplayMismatchError.
        """
        with self._lock:
            outcome = self.tools.find(name, arguments, self.point.is_after_tool)
            if outcome is None:
                # without a recorded result from before the first live call, the tool is run, if that call may come next
                may_run = self.is_live or self.tools.knows(name, arguments)
                if not may_run and (self._missing() or self._missing_tools()):
                    raise self.refused(str(self.tools.mismatch(name, arguments)))
        return outcome

    def _missing_tools(self) -> list[RecordedTool]:
        return [tool for tool in self.tools.unused if self.point.is_after_tool(tool)]


def report_not_reached(name: str, point: object) -> str:
    """Return the message that a fork of a recording did not reach its first live call."""
    return f"the fork of {name} ended before {point}: no live call was made."


def answer_by_hand(answer: Mapping[str, Any] | str, point: ForkPoint) -> Answer:
    """Return the answer that the user gave.

    Raises ValueError if the answer has the wrong type: a call that streams needs a text, and any other call needs a
    JSON object.
    """
    if isinstance(answer, str) != point.exchange.streams:
        needed = "the text of a stream" if point.exchange.streams else "the JSON of a response"
        raise ValueError(f"answer= has to be {needed} for {point}, and is a {type(answer).__name__}")
    origin = ReplayedFrom(point.origin.trajectory_id, point.origin.interaction_id, by_hand=True)
    if not isinstance(answer, str):
        return Answer(200, {"content-type": "application/json"}, json.dumps(answer).encode(), origin=origin)
    kind = "text/event-stream" if "data:" in answer else "application/x-ndjson"
    return Answer(200, {"content-type": kind}, chunks=((0.0, answer.encode()),), origin=origin)


@dataclass(slots=True)
class Changes:
    """The changes to live requests.

    `model` replaces the models in `replaced`, in the body and in the address. A request for any other model keeps its
    model. `system` replaces the system prompt in dialects that have one. `edit` gets the body after the other changes.
    """

    model: str | None = None
    system: str | None = None
    edit: Edit | None = None
    replaced: set[str] = field(default_factory=set)

    def replace_model_of(self, endpoint: Endpoint, body: Payload) -> None:
        """Add the model that this request names to `replaced`. From now on, requests for this model are changed."""
        self.replaced.update(filter(None, (model_of(endpoint, body),)))

    def applied(self, endpoint: Endpoint, body: bytes) -> Outgoing:
        """Return the request to send. A body that is not a JSON object is not changed, but its address may be changed.

        Raises TypeError if `edit` does not return a dict.
        """
        model = self.model if endpoint.model in self.replaced else None
        try:
            value: Payload = json.loads(body)
        except ours(ValueError):
            return Outgoing(body, model)
        if not isinstance(value, dict):
            return Outgoing(body, model)
        changed = self._edited(self._changed(endpoint, value))
        if changed is value:
            return Outgoing(body, model)
        return Outgoing(json.dumps(changed, ensure_ascii=False).encode(), model)

    def _changed(self, endpoint: Endpoint, body: dict[str, Payload]) -> dict[str, Payload]:
        model = body.get("model")
        if self.model is not None and isinstance(model, str) and model in self.replaced:
            body = {**body, "model": self.model}
        dialect = dialect_of(endpoint.api)
        if self.system is None or dialect is None or dialect.with_system is None:
            return body
        return dialect.with_system(body, self.system)

    def _edited(self, body: dict[str, Payload]) -> Payload:
        if self.edit is None:
            return body
        edited = self.edit(body)
        if not isinstance(edited, dict):
            raise TypeError(f"edit= returned {type(edited).__name__}, and has to return the body to send, a dict")
        return dict(edited)


def model_of(endpoint: Endpoint, body: Payload) -> str | None:
    """Return the model that a request names in its address or its body."""
    return endpoint.model or as_text(as_dict(body).get("model"))
