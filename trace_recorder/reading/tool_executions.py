"""Matches tool executions with the model's tool calls and the results that the model got.

A tool is attached to the interaction in which the model asked for it, or else to the last interaction of the tool's
agent before the tool. If that interaction is in no step, the tool is in a tool step (`tool_steps.py`). The tool calls
in an open stream are not known yet. So tools and results that come while a stream is open are matched again when the
stream has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.facts import ToolCallFact, ToolResultFact
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.exchange_facts import Request
from trace_recorder.reading.mcp_calls import ServerCall
from trace_recorder.reading.open_calls import AskedTools, OpenCalls
from trace_recorder.reading.steps import RecordedStep, ToolExecution, agent_key
from trace_recorder.reading.tool_steps import ToolStep, ToolSteps
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.messages import ToolCall, ToolResult


@dataclass(slots=True)
class DuringStream:
    """The tools and results that came while a stream was open, and for which no call was found.

    An agent may run a tool before the end of the stream in which the model asked for it.
    """

    executions: dict[str, ToolExecution] = field(default_factory=dict)
    results: list[tuple[str | None, ToolResult]] = field(default_factory=list)


@dataclass(slots=True)
class ToolExecutions:
    """Matches tools and results to tool calls. Call the methods in the order of the records.

    - `step_of_interaction`: the `step_id` of the `with` block in which an interaction was made, by the interaction's id
    - `executions`: the executions that are attached to an interaction, by the id of the interaction
    - `steps`: the places of the executions that may be in no other step
    - `answers`: the results that the model got: for each interaction, the results of its calls, by call id
    """

    step_of_interaction: dict[str, str] = field(default_factory=dict)
    executions: dict[str, list[ToolExecution]] = field(default_factory=dict)
    answers: dict[str, dict[str, ToolResult]] = field(default_factory=dict)
    steps: ToolSteps = field(default_factory=ToolSteps)
    _open_calls: OpenCalls = field(default_factory=OpenCalls)
    _running: dict[str, ToolExecution] = field(default_factory=dict)
    _open_streams: dict[str, DuringStream] = field(default_factory=dict)

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_request(self, call: CallFacts, sent: Request, results: Sequence[ToolResult]) -> None:
        """Match the tool results in the request of a call, and note if its response will be a stream."""
        if sent.parent_execution_id is not None:
            self.note_agent_in(sent.parent_execution_id)
        if results:
            agent = agent_key(sent)
            unclaimed = self._assign_results(agent, results)
            for during in self._open_streams.values():
                during.results += ((agent, result) for result in unclaimed)
        if call.newest.asks_for_stream:
            self._open_streams[call.interaction_id] = DuringStream()

    def note_agent_in(self, execution_id: str) -> None:
        """Note that an agent, or a server, calls a model in a tool."""
        execution = self._running.get(execution_id)
        if execution is not None:
            execution.has_sub_agent = True

    def end_without_tools(self, identity: str) -> None:
        """Note that an interaction ended without a response that may ask for tools."""
        self._open_streams.pop(identity, None)

    def read_response(self, asked: AskedTools, duplicates: Iterable[str]) -> None:
        """Read the tool calls of a response, and match the tools and results that came while its stream was open.

        `duplicates` are the ids of interactions that are not shown because they record the same response. Their tools
        and results may belong to this interaction.
        """
        identity = asked.interaction_id
        during = self._open_streams.pop(identity, None) or DuringStream()
        for duplicate in duplicates:
            removed = self.detach(duplicate, asked.agent)
            for name, tool in removed.executions.items():
                if tool.first_seq > asked.first_seq:
                    during.executions[name] = tool
            during.results += removed.results
        self._open_calls.add(asked, self.step_of_interaction.get(identity))
        for execution in during.executions.values():
            self._find_late(execution, identity)
        for agent, result in during.results:
            self._assign_results(agent, [result])  # every other open stream keeps it in its own `DuringStream`

    def detach(self, identity: str, agent: str | None = None) -> DuringStream:
        """Remove the tools and results that are attached to an interaction, because the interaction is not shown.

        Return these tools and results, because they may belong to another interaction.
        """
        self._open_calls.close(identity)
        executions = {execution.identity: execution for execution in self.executions.pop(identity, ())}
        for execution in executions.values():
            execution.requested_by = execution.requested_call = execution.attached_to = None
        return DuringStream(executions, [(agent, result) for result in self.answers.pop(identity, {}).values()])

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_server_call(
        self, record: Record, fact: ToolCallFact | ToolResultFact, step: RecordedStep | None, call: ServerCall
    ) -> None:
        """Read one fact of a call of an MCP server.

        A call that was made in a running tool of the agent belongs to that tool. Any other call is an execution itself.
        """
        if isinstance(fact, ToolCallFact):
            outer = self._running.get(call.made_in or "")
            call.is_inside = outer is not None
            if outer is not None:
                outer.mcp.append(call)
        if not call.is_inside:
            self.read_tool(record, fact, step, call)

    def read_tool(
        self,
        record: Record,
        fact: ToolCallFact | ToolResultFact,
        step: RecordedStep | None,
        at_server: ServerCall | None = None,
    ) -> None:
        """Read one fact of a tool execution, and find the tool call that the execution runs for.

        `step` is the step of the `with` block in which the tool runs, or None. `at_server` is the call of an MCP server
        that the execution is.
        """
        execution = self._running.get(fact.execution_id)
        if execution is None:
            execution = self._running[fact.execution_id] = self._started(record, fact, step)
            if at_server is not None:
                execution.is_at_server = True
                execution.mcp.append(at_server)
        if execution.requested_by is None:
            self._open_calls.match(execution)
            self._attach(execution, execution.attached_to or self._latest_before(execution))
            for during in () if execution.requested_by else self._open_streams.values():
                during.executions[execution.identity] = execution
        if isinstance(fact, ToolResultFact):
            execution.ended = fact
            del self._running[fact.execution_id]
            if execution.failed:
                self._open_calls.reopen(execution)

    def _started(self, record: Record, fact: ToolCallFact | ToolResultFact, step: RecordedStep | None) -> ToolExecution:
        time, requested_by = record.time, None
        if isinstance(fact, ToolCallFact):
            time, requested_by = fact.began or record.time, fact.interaction_id
        execution = ToolExecution(fact.execution_id, record.seq, time, fact, requested_by=requested_by)
        if step is None:
            self.steps.reserve(execution)
        else:
            step.executions.append(execution)
        if requested_by is not None:
            self._attach(execution, None)
        return execution

    def claim(self, seq: int, calls: Sequence[ToolCall]) -> None:
        """Take the tool calls of a step that the agent recorded without a `with` block, in the record `seq`."""
        self.steps.claim(seq, calls)

    def tool_steps(self, *, has_recorded_steps: bool) -> Iterator[ToolStep]:
        """Yield the steps of the tools that are in no other step.

        If the agent recorded steps, only these have the tools of their interactions. Otherwise each interaction has a
        step.
        """

        def is_elsewhere(execution: ToolExecution) -> bool:
            if has_recorded_steps:
                return execution.requested_by in self.step_of_interaction
            return execution.attached_to is not None

        return self.steps.steps(is_elsewhere)

    # ── matching ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _assign_results(self, agent: str | None, results: Iterable[ToolResult]) -> list[ToolResult]:
        """Assign tool results to the interactions that asked for them. Return the results that match no known call."""
        unclaimed = []
        for requested_by, result in self._open_calls.match_results(agent, results):
            if requested_by is None:
                unclaimed.append(result)
                continue
            answers = self.answers.setdefault(requested_by, {})
            if result.call_id not in answers:
                answers[result.call_id] = result
                self._open_calls.close(requested_by, result.call_id)
        return unclaimed

    def _find_late(self, execution: ToolExecution, identity: str) -> None:
        """Find the tool call of a tool that ran while a stream was open.

        `identity` is the id of the interaction whose stream has now ended.
        """
        if execution.requested_by is None:
            self._open_calls.match(execution)
            self._attach(execution, identity if self._latest_before(execution) == identity else execution.attached_to)

    def _attach(self, execution: ToolExecution, last: str | None) -> None:
        """Attach a tool to the interaction that asked for it, or else to `last`, the last interaction of its agent."""
        before, execution.attached_to = execution.attached_to, execution.requested_by or last
        if before == execution.attached_to:
            return
        if before is not None and before in self.executions:
            self.executions[before].remove(execution)
        if execution.attached_to is not None:
            self.executions.setdefault(execution.attached_to, []).append(execution)

    def _latest_before(self, execution: ToolExecution) -> str | None:
        return None if execution.begun.step_id is not None else self._open_calls.latest(execution)
