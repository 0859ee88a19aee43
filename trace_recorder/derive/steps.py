"""Makes the steps of a run from the agent's own records, from LLM calls, and from tools that belong to neither.

A model's tool call may have a `ToolExecution`, which `open_calls.py` finds. The execution is in the step of the LLM
call with that tool call. If no model asked for a tool, its call id is made up. `ToolSteps` has the steps of tools that
are in no other step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from trace_recorder.dialects.dialect import is_in_progress
from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.checked_types import check_identity, texts_of_members
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep

AGENT_MEMBERS = ("agent", "agent_id", "parent_agent_id")
"""The members of a record that identify the agent."""
Answers = Mapping[str, ToolResult]
"""The results of one interaction's tool calls, by call id."""
_NO_TOOLS: tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]] = ((), ())


def agent_key(data: Mapping[str, Payload]) -> Hashable:
    """Return the key of the agent that a record belongs to: the agent's id, or its name if it has no id."""
    named = data.get("agent_id", data.get("agent"))
    return named if isinstance(named, str) else None


@dataclass(slots=True, eq=False)
class ToolExecution:
    """One execution of a tool.

    - `identity`: the execution id
    - `first_seq`, `time`: the number of its first record, and when it began
    - `call_data`, `result_data`: the data of its `tool_call` and `tool_result` records
    - `requested_by`, `requested_call`: the id of the interaction in which a model asked for the tool, and the tool
      call; None if no model asked
    - `attached_to`: the interaction in whose step the tool is: `requested_by`, or else the agent's last interaction
      before the tool
    - `tool_step`: the step that has the tool if no other step does; None if the tool ran in the `with` block of a step
    - `has_sub_agent`: whether an agent was started in the tool
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
        """Whether the tool ended with an exception."""
        return self.result_data is not None and self.result_data.get("success") is False

    def call(self) -> ToolCall:
        """Return the model's tool call, or a made tool call with the tool's arguments if the model asked for none."""
        if self.requested_call is not None:
            return self.requested_call
        call_id = as_text(self.call_data.get("call_id"))
        return ToolCall(call_id or self.identity, self.name, self.call_data.get("arguments", {}), call_id is None)

    def result(self, answer: ToolResult | None) -> ToolResult | None:
        """Return the result of the tool. While the tool runs, return `answer`, the result that the model got."""
        if self.result_data is None:
            return answer
        error, result = self.result_data.get("error"), self.result_data.get("result")
        success, duration = self.result_data.get("success"), self.result_data.get("duration_seconds")
        sent = None if answer is None else answer.error if answer.result is None else answer.result
        return ToolResult(
            self.call().call_id,
            name=self.name,
            success=success if isinstance(success, bool) else None,
            result=result,
            error=_error_text(as_dict(error)) if error else None,
            duration_seconds=duration if isinstance(duration, int | float) else None,
            sent=None if sent == result else sent,
            execution_id=self.identity if self.has_sub_agent else None,
            timestamp=self.time,
            replayed=self.result_data.get("replayed") is True,
        )


def _error_text(error: Mapping[str, Payload]) -> str:
    """Return an error of a tool as text. Leave out an empty type, which the error of an imported run may have."""
    kind, message = error.get("type"), error.get("message")
    return str(message) if kind == "" else f"{kind}: {message}"


def tool_calls_and_results(
    interactions: Iterable[LLMInteraction], answers: Mapping[str, Answers], executions: Iterable[ToolExecution]
) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
    """Return the tool calls of `interactions` and `executions`, each call once, and the known results of the calls."""
    calls: dict[tuple[str, str], tuple[ToolCall, ToolResult | None]] = {}
    for interaction in interactions:
        for number, call in enumerate(interaction.response.tool_calls):
            answer = answers.get(interaction.interaction_id, {}).get(call.call_id)
            calls[interaction.interaction_id, call.call_id or f"#{number}"] = call, answer
    for execution in executions:
        call = execution.call()
        key = (execution.requested_by, call.call_id) if execution.requested_by else ("", execution.identity)
        requested = calls[key][0] if key in calls else call
        calls[key] = requested, execution.result(answers.get(execution.requested_by or "", {}).get(call.call_id))
    results = (result for _, result in calls.values() if result is not None)
    return tuple(call for call, _ in calls.values()), tuple(results)


def step_of(
    number: int, interaction: LLMInteraction, answers: Answers, executions: Collection[ToolExecution] = ()
) -> AgentStep:
    """Make the step of one interaction. `executions` are the tool executions that are attached to the interaction."""
    calls, results = _NO_TOOLS
    if interaction.response.tool_calls or executions:
        calls, results = tool_calls_and_results([interaction], {interaction.interaction_id: answers}, executions)
    response = interaction.response if interaction.answered else None
    return AgentStep(
        step_number=number,
        timestamp=interaction.timestamp,
        state=_state(interaction, answered=response is not None, calls_tools=bool(calls)),
        llm_response=response,
        tool_calls=calls,
        tool_results=results,
        error=f"{interaction.error.type}: {interaction.error.message}" if interaction.error else None,
        agent=interaction.agent,
        agent_id=interaction.agent_id,
        parent_agent_id=interaction.parent_agent_id,
        interaction=interaction,
        derived=True,
    )


def _state(call: LLMInteraction, *, answered: bool, calls_tools: bool) -> str:
    if call.error:
        return "error"
    if not answered or not call.complete:
        return "thinking"
    if calls_tools:
        return "calling_tool"
    return "completed" if call.response.finish_reason or not is_in_progress(call.response) else "thinking"


_STATED_AT_END = (
    "state",
    "messages",
    "llm_response",
    "tool_calls",
    "tool_results",
    "reflection",
    "error",
    "duration_seconds",
)
"""The fields of a step whose values the agent may give when the step ends."""


@dataclass(slots=True, eq=False)
class RecordedStep:
    """A step that the agent recorded. If the step is a `with` block, it has the block's interactions and tools.

    - `stated`: the step with the values that the agent gave
    - `first_seq`: the number of the step's first record
    - `identity`: the `step_id` of the block, or None for a step that was recorded without a block
    - `closed`: whether the block has ended
    - `interactions`: the ids of the block's interactions
    - `executions`: the tools that ran in the block
    """

    stated: AgentStep
    first_seq: int
    identity: str | None = None
    closed: bool = True
    interactions: list[str] = field(default_factory=list)
    executions: list[ToolExecution] = field(default_factory=list)

    @classmethod
    def begin(cls, record: Record) -> RecordedStep:
        """Make the step of a `with` block from the first record that names it.

        Raises TypeError if the id of the step is not a text.
        """
        data = record.data
        check_identity(data["step_id"], "step_id")
        of_agent = texts_of_members(data, AGENT_MEMBERS)
        stated = AgentStep(data["step_number"], record.time, "", **of_agent)
        return cls(stated, record.seq, data["step_id"], closed=False)

    def update(self, step: AgentStep) -> None:
        """Add the values that the agent gave at the end of the block. They replace earlier values."""
        members = {name: getattr(step, name) for name in _STATED_AT_END}
        self.stated = replace(self.stated, **{name: value for name, value in members.items() if _is_stated(value)})
        self.closed = self.closed or step.duration_seconds is not None

    def step(
        self, inside: Sequence[LLMInteraction], answers: Mapping[str, Answers], executions: Iterable[ToolExecution]
    ) -> AgentStep:
        """Make the step.

        `inside` has the interactions of the block, and `executions` has the tools that these interactions asked for.
        """
        if self.identity is None:
            return self.stated
        recorded, last = self.stated, self._last_of_agent(inside)
        calls, results = tool_calls_and_results(
            inside, answers, {execution.identity: execution for execution in (*executions, *self.executions)}.values()
        )
        step = replace(
            recorded,
            llm_response=recorded.llm_response or (last.response if last and last.answered else None),
            tool_calls=recorded.tool_calls or calls,
            tool_results=recorded.tool_results or results,
            interaction=last,
            interaction_ids=tuple(interaction.interaction_id for interaction in inside),
        )
        return replace(step, state=step.state or self._state(step))

    def _last_of_agent(self, inside: Sequence[LLMInteraction]) -> LLMInteraction | None:
        """Return the last interaction of the step's own agent.

        If that agent has none, return the last interaction of any agent.
        """
        own = [interaction for interaction in inside if interaction.agent_id == self.stated.agent_id] or inside
        return own[-1] if own else None

    def _state(self, step: AgentStep) -> str:
        if step.error is not None:
            return "error"
        if not self.closed:
            return "thinking"
        return "calling_tool" if step.tool_calls else "completed"


def _is_stated(value: Payload) -> bool:
    return value is not None and (not isinstance(value, Sequence) or isinstance(value, str) or len(value) > 0)


@dataclass(slots=True, eq=False)
class ToolStep:
    """A step with tools that are in no other step. One agent ran them between two of its calls or recorded steps.

    - `opening_seq`: the number of the record with which the first tool began, which identifies the step
    - `agent_data`: the data of the same record, with the agent's name and ids
    - `first_seq`: the number of the first record of the first tool that was in the step; steps are sorted by this
      number
    - `placed`: for how many tools the step was reserved, including tools that are now in other steps
    - `closed`: whether no more tools are added to the step
    """

    opening_seq: int
    agent_data: Mapping[str, Payload]
    first_seq: int = 0
    executions: dict[str, ToolExecution] = field(default_factory=dict)
    placed: int = 0
    closed: bool = False

    def step(self, number: int, answers: Mapping[str, Answers]) -> AgentStep:
        """Make the step. There must be at least one tool in it. The state is "error" if the last tool failed."""
        executions = sorted(self.executions.values(), key=attrgetter("first_seq"))
        calls, results = tool_calls_and_results((), answers, executions)
        failed = results[-1].error if executions[-1].failed else None
        return AgentStep(
            step_number=number,
            timestamp=executions[0].time,
            state="error" if executions[-1].failed else "calling_tool",
            tool_calls=calls,
            tool_results=results,
            error=failed,
            **texts_of_members(self.agent_data, AGENT_MEMBERS),
            derived=True,
        )


MAX_TOOLS_PER_STEP = 64
"""A tool step has at most this many tools, and the next tool begins a new step.

So a step does not grow without limit if an agent records only tools.
"""
MAX_WAITING_CLAIMS = 256
"""At most this many tool calls of recorded steps wait for their tools, and as many tools wait for a step.

The oldest are forgotten first.
"""


class ToolSteps:
    """The tool steps of a run. Call the methods in the order of the records.

    `steps` are the tool steps that have at least one tool. `has_started` is True if any tool ran outside of all steps
    with a `with` block.
    """

    def __init__(self, *, max_tools: int = MAX_TOOLS_PER_STEP) -> None:
        self._max_tools = max_tools
        self.steps: dict[ToolStep, None] = {}
        self.has_started = False
        self._open: dict[Hashable, ToolStep] = {}
        self._step_of: dict[str, ToolStep] = {}
        self._claims: deque[ToolCall] = deque(maxlen=MAX_WAITING_CLAIMS)
        self._unclaimed: deque[ToolExecution] = deque(maxlen=MAX_WAITING_CLAIMS)

    def close(self, agent: Hashable) -> None:
        """Close the current tool step of an agent, because a call or another step of the agent begins."""
        step = self._open.pop(agent, None)
        if step is not None:
            step.closed = True

    def start(self, identity: str, record: Record) -> None:
        """Reserve a tool step for a tool that runs outside of all steps with a `with` block.

        `record` is the first record of the tool.
        """
        if identity in self._step_of:
            return
        agent = agent_key(record.data)
        step = self._open.get(agent)
        if step is not None and step.placed == self._max_tools:
            self.close(agent)
            step = None
        if step is None:
            step = self._open[agent] = ToolStep(record.seq, record.data)
        step.placed += 1
        self.has_started = True
        self._step_of[identity] = step

    def pop_step(self, identity: str) -> ToolStep | None:
        """Return the step that was reserved for a tool, or None if the tool ran in the `with` block of a step."""
        return self._step_of.pop(identity, None)

    def place(self, execution: ToolExecution, *, elsewhere: bool) -> None:
        """Put a tool into its tool step.

        If `elsewhere` is True, or if a recorded step names the tool, remove the tool from its tool step.
        """
        step = execution.tool_step
        if step is None:
            return
        if not elsewhere and execution.identity not in step.executions:
            elsewhere = self._is_claimed(execution)
        if not elsewhere:
            step.executions[execution.identity] = execution
            step.first_seq = step.first_seq or execution.first_seq
            self.steps[step] = None
        elif execution.identity in step.executions:
            del step.executions[execution.identity]
            if not step.executions:
                del self.steps[step]

    def contains(self, execution: ToolExecution) -> bool:
        """Return whether a tool is in the tool step that was reserved for it."""
        return execution.tool_step is not None and execution.identity in execution.tool_step.executions

    def claim(self, calls: Iterable[ToolCall]) -> None:
        """Take the tool calls that a step without a `with` block names.

        Remove the tools of these calls from the tool steps, because these tools belong to that step.
        """
        for call in calls:
            execution = next(
                (execution for execution in self._unclaimed if self.contains(execution) and _matches(call, execution)),
                None,
            )
            if execution is None:
                self._claims.append(call)
            else:
                self._unclaimed.remove(execution)
                self.place(execution, elsewhere=True)

    def _is_claimed(self, execution: ToolExecution) -> bool:
        call = next((call for call in self._claims if _matches(call, execution)), None)
        if call is None:
            self._unclaimed.append(execution)
            return False
        self._claims.remove(call)
        return True


def _matches(call: ToolCall, execution: ToolExecution) -> bool:
    """Return whether a tool ran for a tool call of a recorded step.

    Compare the ids. If the tool or the call has no id, compare the names and arguments.
    """
    ran = execution.call()
    if call.call_id and not ran.call_id_made_up:
        return call.call_id == ran.call_id
    return (call.name, call.arguments) == (ran.name, ran.arguments)
