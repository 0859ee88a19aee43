"""The executions of tools, as they are read: for which call each ran, what the model was told of it, where it stands.

A tool stands with the interaction that asked for it, or else with its agent's last one before it; where neither is
shown by a step, it stands in a step of its own (`tool_steps.py`). While a stream is open nobody knows for what it asks:
what ran, and what was brought back meanwhile, is looked at again at its end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from trace_recorder.derive.steps import OpenCalls, is_step
from trace_recorder.derive.tool_matching import PendingCalls, RecordedStep, ToolExecution
from trace_recorder.derive.tool_steps import ToolSteps
from trace_recorder.storage.journal import Record
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.trajectory import LLMInteraction


@dataclass(slots=True)
class DuringStream:
    """What came while a stream was open, for calls that nobody knows yet: a caller may go on before it has its end."""

    executions: dict[str, ToolExecution] = field(default_factory=dict)
    results: list[tuple[Hashable, ToolResult]] = field(default_factory=list)


@dataclass(slots=True)
class ToolExecutions:
    """Is told of requests, responses and tools in the order of their records.

    `executions` are the executions that stand with each interaction, `answers` what the model was told of its calls, `steps`
    those that stand with none. `step_of_interaction` is the step with a block of an interaction, `has_recorded_steps` whether the agent
    recorded any step itself. `changed` are the interactions of which there is more than when it was emptied last,
    `changed_steps` the steps with a block.
    """

    step_of_interaction: dict[str, str] = field(default_factory=dict)
    has_recorded_steps: bool = False
    executions: dict[str, list[ToolExecution]] = field(default_factory=dict)
    answers: dict[str, dict[str, ToolResult]] = field(default_factory=dict)
    steps: ToolSteps = field(default_factory=ToolSteps)
    changed: dict[str, None] = field(default_factory=dict)
    changed_steps: dict[str, None] = field(default_factory=dict)
    _open_calls: OpenCalls = field(default_factory=OpenCalls)
    _pending_calls: PendingCalls = field(default_factory=PendingCalls)
    _running: dict[str, ToolExecution] = field(default_factory=dict)
    _open_streams: dict[str, DuringStream] = field(default_factory=dict)

    def start(self, record: Record, step: RecordedStep | None) -> None:
        """Hear of a record of a tool, before it is read; `step` is the step with a block that it names."""
        identity = record.data["execution_id"]
        if step is None and identity not in self._running:
            self.steps.start(identity, record)

    def add_sub_agent(self, execution_id: str | None) -> None:
        """Take it that an agent was started in a tool that still runs."""
        execution = self._running.get(execution_id or "")
        if execution is not None:
            execution.has_sub_agent = True

    def read_request(self, identity: str, agent: Hashable, results: Iterable[ToolResult], *, streams: bool) -> None:
        """Take what a request brings back from tools; `streams` is whether its answer is awaited piece by piece."""
        unclaimed = self._assign_results(agent, results)
        for during in self._open_streams.values():
            during.results += ((agent, result) for result in unclaimed)
        if streams:
            self._open_streams[identity] = DuringStream()

    def end_stream(self, identity: str) -> DuringStream:
        """Hear that a response has ended; give what came while it was open."""
        return self._open_streams.pop(identity, DuringStream())

    def read_response(self, one: LLMInteraction, first_seq: int, late: DuringStream) -> None:
        """Take the calls of a response; what is `late` may have been asked for by it."""
        self._open_calls.add(one.interaction_id, one.agent_id or one.agent, one.response.tool_calls)
        if is_step(one):
            self._pending_calls.add(one, first_seq, self.step_of_interaction.get(one.interaction_id))
            for execution in late.executions.values():
                self._find_late(execution, one.interaction_id)
            for agent, result in late.results:
                self._assign_results(agent, [result])  # what nobody asked for waits with the other streams already

    def read_record(self, record: Record, step: RecordedStep | None) -> None:
        """Read one record of a tool's execution, and find out for which call it was run."""
        identity = record.data["execution_id"]
        execution = self._running.get(identity)
        if execution is None:
            execution = ToolExecution(
                identity, record.seq, record.time, record.data, tool_step=self.steps.pop_step(identity)
            )
            self._running[identity] = execution
            if step is not None:
                step.executions.append(execution)
        if execution.requested_by is None:
            self._pending_calls.match(execution)
            self._attach(execution, execution.attached_to or self._latest_before(execution))
            for during in () if execution.requested_by else self._open_streams.values():
                during.executions[identity] = execution
        if record.kind == "tool_result":
            execution.result_data = record.data
            del self._running[identity]
            if execution.failed:
                self._pending_calls.reopen(execution)
        self._mark_changed(execution)

    def claim(self, calls: Iterable[ToolCall]) -> None:
        """Take the calls of a step that the agent tells as a whole."""
        self.steps.claim(calls)

    def detach(self, identity: str, agent: Hashable = None) -> DuringStream:
        """Take from an interaction that is not shown what stands with it; give it, for another that may have asked."""
        self._pending_calls.close(identity)
        executions = {execution.identity: execution for execution in self.executions.pop(identity, ())}
        for execution in executions.values():
            self._mark_changed(execution)
            execution.requested_by = execution.requested_call = execution.attached_to = None
            self._place_in_tool_step(execution)
        return DuringStream(executions, [(agent, result) for result in self.answers.pop(identity, {}).values()])

    def forget(self, identity: str, one: LLMInteraction | None) -> None:
        """Let go of an interaction: nothing more is to come of it."""
        for held in (self.answers, self.executions, self.step_of_interaction, self._open_streams):
            held.pop(identity, None)
        self._pending_calls.close(identity)
        if one is not None:
            self._open_calls.forget(identity, one.agent_id or one.agent, one.response.tool_calls)

    def other_steps_showing(self, identity: str) -> Mapping[object, None]:
        """The steps, other than its own, that show something of an interaction: those in which its tools ran."""
        asked = [execution for execution in self.executions.get(identity, ()) if execution.requested_by]
        return {execution.call_data.get("step_id") or execution.tool_step: None for execution in asked}

    def may_be_reassigned(self, execution: ToolExecution) -> bool:
        """Whether a stream is open that may turn out to have asked for a tool."""
        return any(execution.identity in during.executions for during in self._open_streams.values())

    def _assign_results(self, agent: Hashable, results: Iterable[ToolResult]) -> list[ToolResult]:
        """Give what a request brings back from tools to those who asked; return what nobody has asked for yet."""
        unclaimed = []
        for requested_by, result in self._open_calls.match_results(agent, results):
            if requested_by is None:
                unclaimed.append(result)
                continue
            answers = self.answers.setdefault(requested_by, {})
            if result.call_id not in answers:
                answers[result.call_id] = result
                self._pending_calls.close(requested_by, result.call_id)
                self.steps.mark_changed(self.executions.get(requested_by, ()))
                self.changed[requested_by] = None
        return unclaimed

    def _find_late(self, execution: ToolExecution, identity: str) -> None:
        """Find the call for which a tool ran before the end of the stream that may have asked for it."""
        if execution.requested_by is None:
            self._pending_calls.match(execution)
            self._attach(execution, identity if self._latest_before(execution) == identity else execution.attached_to)
            self._mark_changed(execution)

    def _mark_changed(self, execution: ToolExecution) -> None:
        """Hear that there is more of a tool: what shows it has changed."""
        self.steps.mark_changed([execution])
        for shown in filter(None, (execution.requested_by, execution.attached_to)):
            self.changed[shown] = None
        if "step_id" in execution.call_data:
            self.changed_steps[execution.call_data["step_id"]] = None

    def _attach(self, execution: ToolExecution, last: str | None) -> None:
        """Have it stand with the interaction that asked, or else with the last one of its agent."""
        before, execution.attached_to = execution.attached_to, execution.requested_by or last
        if before is not None and before != execution.attached_to:
            self.changed[before] = None  # also where it was forgotten: there it is shown with the tool
            if before in self.executions:
                self.executions[before].remove(execution)
        if before != execution.attached_to and execution.attached_to is not None:
            self.executions.setdefault(execution.attached_to, []).append(execution)
        self._place_in_tool_step(execution)

    def _place_in_tool_step(self, execution: ToolExecution) -> None:
        """Have a tool stand in a step of its own kind where no other step shows it."""
        elsewhere = (
            execution.requested_by in self.step_of_interaction
            if self.has_recorded_steps
            else execution.attached_to is not None
        )
        self.steps.place(execution, elsewhere=elsewhere)

    def _latest_before(self, execution: ToolExecution) -> str | None:
        return None if "step_id" in execution.call_data else self._pending_calls.latest(execution)
