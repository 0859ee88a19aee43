"""Which tool ran for which call, and the steps that the agent recorded.

The agent may name the call that a tool runs for. Otherwise the call is found among the unanswered calls of the same
agent, those of the same step first and those of the newest response first: the one with the same name and arguments,
else the only one with the same name. A call with a failed tool may be retried. A tool that matches no call was asked
for by no model; its call id is made up.

Where tools that ran outside of every other step are shown is decided in `tool_steps.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from trace_recorder.derive.message_prefix import IncrementalReading
from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep

Answers = Mapping[str, ToolResult]
"""The results of one interaction's tool calls, by call id."""


def agent_key(data: Mapping[str, Payload]) -> Hashable:
    """Return the key of the agent that a record belongs to: the agent's id, or its name if it has no id."""
    named = data.get("agent_id", data.get("agent"))
    return named if isinstance(named, str) else None


@dataclass(slots=True, eq=False)
class ToolExecution:
    """One execution of a tool.

    - `identity`: the execution id
    - `first_seq`, `time`: the number and the time of its first record
    - `call_data`, `result_data`: the data of its `tool_call` and `tool_result` records
    - `requested_by`: the interaction in which a model asked for it, by the call `requested_call`; None if none did
    - `attached_to`: the interaction it is shown with: `requested_by`, or else the last one of its agent before it
    - `tool_step`: the step it is shown in if it has no other place; None if it ran in a step with a block
    - `has_sub_agent`: whether an agent was started in it
    """

    identity: str
    first_seq: int
    time: str
    call_data: Mapping[str, Payload]
    result_data: Mapping[str, Payload] | None = None
    requested_by: str | None = None
    requested_call: ToolCall | None = None
    attached_to: str | None = None
    tool_step: ToolStep | None = None
    has_sub_agent: bool = False

    @property
    def name(self) -> str:
        """The name of the tool."""
        return as_text(self.call_data.get("name")) or "unnamed"

    @property
    def failed(self) -> bool:
        """Whether it ended with an exception."""
        return self.result_data is not None and self.result_data.get("success") is False

    def call(self) -> ToolCall:
        """Return the call as the model made it, or else as the tool got it."""
        if self.requested_call is not None:
            return self.requested_call
        stated = as_text(self.call_data.get("call_id"))
        return ToolCall(stated or self.identity, self.name, self.call_data.get("arguments", {}), stated is None)

    def result(self, answer: ToolResult | None) -> ToolResult | None:
        """Return the result. `answer` is the result that the model got; while the tool runs, no other is known."""
        if self.result_data is None:
            return answer
        error, gave = self.result_data.get("error"), self.result_data.get("result")
        told = None if answer is None else answer.error if answer.result is None else answer.result
        return ToolResult(
            self.call().call_id,
            self.name,
            self.result_data.get("success"),
            gave,
            _error_text(as_dict(error)) if error else None,
            duration_seconds=self.result_data.get("duration_seconds"),
            sent=None if told == gave else told,
            execution_id=self.identity if self.has_sub_agent else None,
            timestamp=self.time,
        )


def _error_text(error: Mapping[str, Payload]) -> str:
    """Return an error of a tool as text. That of an imported run may have no type."""
    kind, message = error.get("type"), error.get("message")
    return str(message) if kind == "" else f"{kind}: {message}"


@dataclass(slots=True)
class _PendingResponse:
    """The calls of one response that are not answered yet."""

    interaction_id: str
    first_seq: int
    step: str | None
    calls: dict[str, ToolCall]


class PendingCalls:
    """The tool calls for which a tool may still run. Methods are called in the order of the records."""

    def __init__(self) -> None:
        self._open: dict[Hashable, dict[str, _PendingResponse]] = {}
        self._latest: dict[Hashable, str] = {}

    def add(self, one: LLMInteraction, first_seq: int, step: str | None) -> None:
        """Add the calls of an interaction's response. `first_seq` is the number of the interaction's first record."""
        calls = one.response.tool_calls
        by_id = {call.call_id or f"#{number}": call for number, call in enumerate(calls)}
        key = one.agent_id or one.agent
        self._latest[key] = one.interaction_id
        if by_id:
            self._open.setdefault(key, {})[one.interaction_id] = _PendingResponse(
                one.interaction_id, first_seq, step, by_id
            )

    def close(self, interaction_id: str, call_id: str | None = None) -> None:
        """Close a call, or all calls of an interaction: the model got their results."""
        for agent, pending in list(self._open.items()):
            if interaction_id in pending:
                if call_id is not None:
                    pending[interaction_id].calls.pop(call_id, None)
                if call_id is None or not pending[interaction_id].calls:
                    del pending[interaction_id]
                if not pending:
                    del self._open[agent]

    def match(self, execution: ToolExecution) -> None:
        """Find the call that a tool runs for. No other tool can run for it then."""
        found = self._stated(execution) if "call_id" in execution.call_data else self._same(execution)
        if found is not None:
            pending, key = found
            execution.requested_by, execution.requested_call = pending.interaction_id, pending.calls.pop(key)

    def reopen(self, execution: ToolExecution) -> None:
        """Make the call of a failed tool available again, until it is answered."""
        pending = self._open.get(agent_key(execution.call_data), {}).get(execution.requested_by or "")
        if pending is not None and execution.requested_call is not None:
            pending.calls[execution.requested_call.call_id] = execution.requested_call

    def latest(self, execution: ToolExecution) -> str | None:
        """Return the last interaction of the agent that runs a tool."""
        return self._latest.get(agent_key(execution.call_data))

    def _stated(self, execution: ToolExecution) -> tuple[_PendingResponse, str] | None:
        key = execution.call_data["call_id"]
        own = self._candidates(execution)
        others = [pending for of_agent in self._open.values() for pending in reversed(of_agent.values())]
        return next(((pending, key) for pending in (*own, *others) if key in pending.calls), None)

    def _same(self, execution: ToolExecution) -> tuple[_PendingResponse, str] | None:
        arguments = execution.call_data.get("arguments")
        named = [
            (pending, key)
            for pending in self._candidates(execution)
            for key, call in pending.calls.items()
            if call.name == execution.name
        ]
        for pending, key in named:
            if pending.calls[key].arguments == arguments:
                return pending, key
        return named[0] if len(named) == 1 else None

    def _candidates(self, execution: ToolExecution) -> Iterator[_PendingResponse]:
        """The pending responses of a tool's agent: those of its step first, and the newest first."""
        of_agent = reversed(self._open.get(agent_key(execution.call_data), {}).values())
        newest_first = [pending for pending in of_agent if pending.first_seq < execution.first_seq]
        step = execution.call_data.get("step_id")
        return iter(sorted(newest_first, key=lambda pending: pending.step != step))


def tool_calls_and_results(
    interactions: Iterable[LLMInteraction], answers: Mapping[str, Answers], executions: Iterable[ToolExecution]
) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
    """Return the tool calls of some interactions and executions, each once, and their known results."""
    calls: dict[tuple[str, str], tuple[ToolCall, ToolResult | None]] = {}
    for one in interactions:
        for number, call in enumerate(one.response.tool_calls):
            answer = answers.get(one.interaction_id, {}).get(call.call_id)
            calls[one.interaction_id, call.call_id or f"#{number}"] = call, answer
    for execution in executions:
        call = execution.call()
        key = (execution.requested_by, call.call_id) if execution.requested_by else ("", execution.identity)
        calls[key] = call, execution.result(answers.get(execution.requested_by or "", {}).get(call.call_id))
    results = (result for _, result in calls.values() if result is not None)
    return tuple(call for call, _ in calls.values()), tuple(results)


@dataclass(slots=True, eq=False)
class RecordedStep:
    """A step that the agent recorded: what it stated, and, for a step with a block, what ran inside.

    `identity` is the `step_id`, or None for a step that was recorded as a whole, without a block. `first_seq` is the
    number of the step's first record. `messages` are its messages, if they were read with those of other steps.
    """

    stated: AgentStep
    first_seq: int
    identity: str | None = None
    closed: bool = True
    interactions: list[str] = field(default_factory=list)
    executions: list[ToolExecution] = field(default_factory=list)
    messages: IncrementalReading | None = None

    @classmethod
    def begin(cls, record: Record) -> RecordedStep:
        """Make a step with a block from the first record that names it."""
        data = record.data
        of_agent: Payload = {name: data.get(name) for name in ("agent", "agent_id", "parent_agent_id")}
        stated = AgentStep(data["step_number"], record.time, "", **of_agent)
        return cls(stated, record.seq, data["step_id"], closed=False)

    def update(self, given: AgentStep) -> None:
        """Add what the agent stated at the end of the block. It replaces what was stated or gathered before."""
        said = ("state", "messages", "llm_response", "tool_calls", "tool_results", "reflection", "error")
        members = {name: getattr(given, name) for name in (*said, "duration_seconds")}
        self.stated = replace(self.stated, **{name: value for name, value in members.items() if _is_stated(value)})
        self.closed = self.closed or given.duration_seconds is not None

    def is_pending(self) -> bool:
        """Whether its block is open, or a tool of it still runs."""
        return not self.closed or any(execution.result_data is None for execution in self.executions)

    def interaction_ids(self) -> set[str]:
        """Return the ids of the interactions of which it shows something."""
        return {
            *self.interactions,
            *(execution.requested_by for execution in self.executions if execution.requested_by),
        }

    def step(
        self, inside: Sequence[LLMInteraction], answers: Mapping[str, Answers], executions: Iterable[ToolExecution]
    ) -> AgentStep:
        """Make the step. `inside` are its interactions, `executions` the executions of tools that these asked for."""
        if self.identity is None:
            return self.stated
        stated, last = self.stated, self._last_of_agent(inside)
        calls, results = tool_calls_and_results(
            inside, answers, {execution.identity: execution for execution in (*executions, *self.executions)}.values()
        )
        step = replace(
            stated,
            llm_response=stated.llm_response or (last.response if last and last.answered else None),
            tool_calls=stated.tool_calls or calls,
            tool_results=stated.tool_results or results,
            interaction=last,
            interaction_ids=tuple(one.interaction_id for one in inside),
        )
        return replace(step, state=step.state or self._state(step))

    def _last_of_agent(self, inside: Sequence[LLMInteraction]) -> LLMInteraction | None:
        """The last interaction of the step's own agent, or else the last one of any agent."""
        own = [one for one in inside if one.agent_id == self.stated.agent_id] or inside
        return own[-1] if own else None

    def _state(self, step: AgentStep) -> str:
        if step.error is not None:
            return "error"
        if not self.closed:
            return "thinking"
        return "calling_tool" if step.tool_calls else "completed"


def _is_stated(value: Payload) -> bool:
    return value is not None and (isinstance(value, str | float) or len(value) > 0)


@dataclass(slots=True, eq=False)
class ToolStep:
    """What one agent ran outside of every other step, from one of its calls or steps to the next.

    - `opening_seq`: the number of the first record of such a tool, which identifies the step
    - `agent_data`: the data of that record, for the agent's name and ids
    - `first_seq`: its place among the steps: the first record of a tool that had no other place when it ran
    - `placed`: how many tools ran there, wherever they are shown now
    - `closed`: whether no other tool can join it
    - `settled`: whether the live document has settled it
    """

    opening_seq: int
    agent_data: Mapping[str, Payload]
    first_seq: int = 0
    executions: dict[str, ToolExecution] = field(default_factory=dict)
    placed: int = 0
    closed: bool = False
    settled: bool = False

    @property
    def identity(self) -> str:
        """Its name within the run."""
        return f"tools {self.opening_seq}"

    def is_pending(self) -> bool:
        """Whether more may be added to it."""
        return not self.closed or any(execution.result_data is None for execution in self.executions.values())

    def interaction_ids(self) -> set[str]:
        """Return the ids of the interactions of which it shows something."""
        return {execution.requested_by for execution in self.executions.values() if execution.requested_by}

    def step(self, number: int, answers: Mapping[str, Answers]) -> AgentStep:
        """Make the step; it holds at least one tool. Its state is "error" if the last tool failed."""
        executions = sorted(self.executions.values(), key=attrgetter("first_seq"))
        calls, results = tool_calls_and_results((), answers, executions)
        failed = results[-1].error if executions[-1].failed else None
        about: Payload = {name: self.agent_data.get(name) for name in ("agent", "agent_id", "parent_agent_id")}
        return AgentStep(
            step_number=number,
            timestamp=executions[0].time,
            state="error" if executions[-1].failed else "calling_tool",
            tool_calls=calls,
            tool_results=results,
            error=failed,
            **about,
            derived=True,
        )
