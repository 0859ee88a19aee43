"""Matches tool executions with the model's tool calls and the results that the model got, and puts them into steps.

A tool is attached to the interaction in which the model asked for it, or else to the last interaction of the tool's
agent before the tool. If that interaction is in no step, the tool is in a tool step (`steps.py`). The tool calls in an
open stream are not known yet. So tools and results that come while a stream is open are matched again when the stream
has ended.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.derive.interactions import asks_for_stream
from trace_recorder.derive.open_calls import OpenCalls
from trace_recorder.derive.steps import RecordedStep, ToolExecution, ToolSteps, agent_key
from trace_recorder.dialects.dialect import is_turn
from trace_recorder.dialects.json_access import as_text
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.checked_types import check_identity
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, ToolCall, ToolResult


@dataclass(slots=True)
class DuringStream:
    """The tools and results that came while a stream was open, and for which no call was found.

    An agent may run a tool before the end of the stream in which the model asked for it.
    """

    executions: dict[str, ToolExecution] = field(default_factory=dict)
    results: list[tuple[Hashable, ToolResult]] = field(default_factory=list)


@dataclass(slots=True)
class ToolExecutions:
    """Matches tools and results to tool calls. Call the methods in the order of the records.

    - `step_of_interaction`: the `step_id` of the `with` block in which an interaction was made, by the interaction's id
    - `has_recorded_steps`: whether the agent recorded any step itself
    - `executions`: the executions that are attached to an interaction, by the id of the interaction
    - `answers`: the results that the model got: for each interaction, the results of its calls, by call id
    - `steps`: the steps of the executions that are in no other step
    """

    step_of_interaction: dict[str, str] = field(default_factory=dict)
    has_recorded_steps: bool = False
    executions: dict[str, list[ToolExecution]] = field(default_factory=dict)
    answers: dict[str, dict[str, ToolResult]] = field(default_factory=dict)
    steps: ToolSteps = field(default_factory=ToolSteps)
    _open_calls: OpenCalls = field(default_factory=OpenCalls)
    _running: dict[str, ToolExecution] = field(default_factory=dict)
    _open_streams: dict[str, DuringStream] = field(default_factory=dict)

    def start(self, record: Record, step: RecordedStep | None) -> None:
        """Reserve a tool step for a tool that begins, before its record is read.

        `step` is the step of the `with` block in which the tool runs, or None. In a block, no tool step is reserved.

        Raises TypeError if the id of the execution is not a text.
        """
        identity = record.data["execution_id"]
        check_identity(identity, "execution_id")
        if step is None and identity not in self._running:
            self.steps.start(identity, record)

    def read_request(self, identity: str, data: Mapping[str, Payload], results: Sequence[ToolResult]) -> None:
        """Read the data of a request, and match the tool results in the request."""
        execution = self._running.get(data.get("parent_execution_id") or "")
        if execution is not None:
            execution.has_sub_agent = True
        agent = agent_key(data)
        unclaimed = self._assign_results(agent, results) if results else []
        for during in self._open_streams.values():
            during.results += ((agent, result) for result in unclaimed)
        if asks_for_stream(data, data.get("body")):
            self._open_streams[identity] = DuringStream()

    def read_response(
        self, identity: str, call: LLMInteraction | None, call_seq: int, first_seq: int, duplicates: Iterable[str]
    ) -> None:
        """Read the tool calls of a response, and match the tools and results that came while its stream was open.

        `call` is None if there is no response. `duplicates` are the ids of interactions that are not shown because they
        record the same response. Their tools and results may belong to `call`. `call_seq` is the number of the
        interaction's first record, and `first_seq` is the number of its first request.
        """
        during = self._open_streams.pop(identity, None) or DuringStream()
        if call is None:
            return
        for duplicate in duplicates:
            removed = self.detach(duplicate, call.agent_id or call.agent)
            during.executions |= {name: tool for name, tool in removed.executions.items() if tool.first_seq > call_seq}
            during.results += removed.results
        if is_turn(call.api):
            self._open_calls.add(call, first_seq, self.step_of_interaction.get(identity))
            for execution in during.executions.values():
                self._find_late(execution, identity)
            for agent, result in during.results:
                self._assign_results(agent, [result])  # every other open stream keeps it in its own `DuringStream`

    def read_record(self, record: Record, step: RecordedStep | None) -> None:
        """Read one record of a tool execution, and find the tool call that the execution runs for."""
        identity = record.data["execution_id"]
        execution = self._running.get(identity)
        if execution is None:
            began, call_id = as_text(record.data.get("began")), as_text(record.data.get("interaction_id"))
            tool_step = self.steps.pop_step(identity)
            execution = ToolExecution(
                identity, record.seq, began or record.time, record.data, None, call_id, tool_step=tool_step
            )
            self._running[identity] = execution
            if step is not None:
                step.executions.append(execution)
            if call_id is not None:
                self._attach(execution, None)
        if execution.requested_by is None:
            self._open_calls.match(execution)
            self._attach(execution, execution.attached_to or self._latest_before(execution))
            for during in () if execution.requested_by else self._open_streams.values():
                during.executions[identity] = execution
        if record.kind == "tool_result":
            execution.result_data = record.data
            del self._running[identity]
            if execution.failed:
                self._open_calls.reopen(execution)

    def claim(self, calls: Iterable[ToolCall]) -> None:
        """Take the tool calls of a step that the agent recorded without a `with` block."""
        self.steps.claim(calls)

    def detach(self, identity: str, agent: Hashable = None) -> DuringStream:
        """Remove the tools and results that are attached to an interaction, because the interaction is not shown.

        Return these tools and results, because they may belong to another interaction.
        """
        self._open_calls.close(identity)
        executions = {execution.identity: execution for execution in self.executions.pop(identity, ())}
        for execution in executions.values():
            execution.requested_by = execution.requested_call = execution.attached_to = None
            self._place_in_tool_step(execution)
        return DuringStream(executions, [(agent, result) for result in self.answers.pop(identity, {}).values()])

    def _assign_results(self, agent: Hashable, results: Iterable[ToolResult]) -> list[ToolResult]:
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
        if before is not None and before != execution.attached_to and before in self.executions:
            self.executions[before].remove(execution)
        if before != execution.attached_to and execution.attached_to is not None:
            self.executions.setdefault(execution.attached_to, []).append(execution)
        self._place_in_tool_step(execution)

    def _place_in_tool_step(self, execution: ToolExecution) -> None:
        """Put a tool into its tool step if it is in no other step."""
        has_block = execution.requested_by in self.step_of_interaction
        has_call = execution.attached_to is not None
        self.steps.place(execution, elsewhere=has_block if self.has_recorded_steps else has_call)

    def _latest_before(self, execution: ToolExecution) -> str | None:
        return None if "step_id" in execution.call_data else self._open_calls.latest(execution)
