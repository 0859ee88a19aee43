"""Makes the steps of a run from the agent's own records, from LLM calls, and from tools that belong to neither.

A model's tool call may have a `ToolExecution`, which `open_calls.py` finds. The execution is in the step of the LLM
call with that tool call. If no model asked for a tool, its call id is made up. `tool_steps.py` makes the steps of tools
that are in no other step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects.dialect import is_in_progress
from trace_recorder.facts import InStep, ToolCallFact, ToolResultFact
from trace_recorder.reading.mcp_calls import ServerCall, says_the_same
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import MCPCall, Payload, ToolCall, ToolResult
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep

Answers = Mapping[str, ToolResult]
"""The results of one interaction's tool calls, by call id."""
_NO_TOOLS: tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]] = ((), ())


def agent_key(fact: InStep) -> str | None:
    """Return the key of the agent that a fact belongs to: the agent's id, or its name if it has no id."""
    return fact.agent if fact.agent_id is None else fact.agent_id


@dataclass(slots=True, eq=False)
class ToolExecution:
    """One execution of a tool.

    - `identity`: the execution id
    - `first_seq`, `time`: the number of its first record, and when it began
    - `begun`: its first fact, which is the result if the record of the call is missing
    - `ended`: its result, or None while it runs
    - `requested_by`, `requested_call`: the id of the interaction in which a model asked for the tool, and the tool
      call; None if no model asked
    - `attached_to`: the interaction in whose step the tool is: `requested_by`, or else the agent's last interaction
      before the tool
    - `has_sub_agent`: whether an agent was started in the tool
    - `mcp`: the call of an MCP server that the execution is, or the calls that were made in it
    - `is_at_server`: whether the execution is known only by the messages of an MCP server
    - `joined_by`: how the model's call was found, "id" or "name"
    """

    identity: str
    first_seq: int
    time: str
    begun: ToolCallFact | ToolResultFact
    ended: ToolResultFact | None = None
    requested_by: str | None = None
    requested_call: ToolCall | None = None
    attached_to: str | None = None
    has_sub_agent: bool = False
    mcp: list[ServerCall] = field(default_factory=list)
    is_at_server: bool = False
    joined_by: str | None = None

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.begun.name or "unnamed"

    @property
    def arguments(self) -> Payload:
        """The arguments of the call. They are empty if the record of the call is missing."""
        if isinstance(self.begun, ToolCallFact):
            return self.begun.arguments
        return {}

    @property
    def failed(self) -> bool:
        """Whether the tool ended with an exception."""
        return self.ended is not None and self.ended.success is False

    def call(self) -> ToolCall:
        """Return the model's tool call, or a made tool call with the tool's arguments if the model asked for none."""
        if self.requested_call is not None:
            return self.requested_call
        call_id = self.begun.call_id
        return ToolCall(call_id or self.identity, self.name, self.arguments, call_id is None)

    def result(self, answer: ToolResult | None) -> ToolResult | None:
        """Return the result of the tool. While the tool runs, return `answer`, the result that the model got."""
        ended = self.ended
        if ended is None:
            return answer
        sent: Payload = None
        if answer is not None:
            sent = answer.result
            if sent is None:
                sent = answer.error
        if sent == ended.result or self._is_seen_whole(sent):
            sent = None
        error = execution_id = None
        if ended.error:
            error = _error_text(ended.error)
        if self.has_sub_agent:
            execution_id = self.identity
        return ToolResult(
            self.call().call_id,
            name=self.name,
            success=ended.success,
            result=ended.result,
            error=error,
            duration_seconds=ended.duration_seconds,
            sent=sent,
            execution_id=execution_id,
            timestamp=self.time,
            replayed=ended.replayed is True,
            mcp=self._server_calls(),
        )

    def _is_seen_whole(self, seen: Payload) -> bool:
        """Return whether the model got all that an MCP server gave."""
        if not self.is_at_server or self.ended is None:
            return False
        [at_server] = self._server_calls()
        return says_the_same(self.ended.result, seen, at_server.structured_content)

    def _server_calls(self) -> tuple[MCPCall, ...]:
        """Return the calls of MCP servers as values."""
        if not self.mcp:
            return ()
        joined_by = self.joined_by if self.is_at_server else "execution"
        return tuple(call.value(joined_by) for call in self.mcp)


def _error_text(error: Mapping[str, Payload]) -> str:
    """Return an error of a tool as text. Leave out an empty type, which the error of an imported run may have."""
    kind, message = error.get("type"), error.get("message")
    if kind == "":
        return str(message)
    return f"{kind}: {message}"


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
        key = "", execution.identity
        if execution.requested_by:
            key = execution.requested_by, call.call_id
        requested, _ = calls.get(key, (call, None))
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
    response = error = None
    if interaction.answered:
        response = interaction.response
    if interaction.error is not None:
        error = f"{interaction.error.type}: {interaction.error.message}"
    return AgentStep(
        step_number=number,
        timestamp=interaction.timestamp,
        state=_state(interaction, answered=response is not None, calls_tools=bool(calls)),
        llm_response=response,
        tool_calls=calls,
        tool_results=results,
        error=error,
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
    if call.response.finish_reason or not is_in_progress(call.response):
        return "completed"
    return "thinking"


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
    def begin(cls, record: Record, fact: InStep) -> RecordedStep:
        """Make the step of a `with` block from the first fact that names it. Raises KeyError without a number."""
        if fact.step_number is None:
            raise KeyError("step_number")
        step = AgentStep(
            fact.step_number,
            record.time,
            "",
            agent=fact.agent,
            agent_id=fact.agent_id,
            parent_agent_id=fact.parent_agent_id,
        )
        return cls(step, record.seq, fact.step_id, closed=False)

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
        response = recorded.llm_response
        if response is None and last is not None and last.answered:
            response = last.response
        step = replace(
            recorded,
            llm_response=response,
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
        return next(reversed(own), None)

    def _state(self, step: AgentStep) -> str:
        if step.error is not None:
            return "error"
        if not self.closed:
            return "thinking"
        if step.tool_calls:
            return "calling_tool"
        return "completed"


def _is_stated(value: Payload) -> bool:
    return value is not None and (not isinstance(value, Sequence) or isinstance(value, str) or len(value) > 0)
