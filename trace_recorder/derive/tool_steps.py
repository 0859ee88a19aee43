"""Tool steps: tools that ran outside of every other step, shown as steps of their own.

Examples are a retriever before the first call to a model, and a tool between two steps of a loop that records its
steps. What one agent runs in this way from one of its calls or steps to the next is one step. Its place depends only
on the records, not on which of these tools turn out to belong elsewhere: to a call of a stream that was open when they
ran, or to a step that the agent records afterwards and that names the same calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from trace_recorder.derive.tool_matching import ToolExecution, ToolStep, agent_key
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.messages import ToolCall

MAX_TOOLS_PER_STEP = 64
"""A new step begins after this many tools, so that no step grows without end where the model's calls are not seen."""
MAX_WAITING_CLAIMS = 256
"""This many calls of recorded steps wait for the tools that they name, and this many tools wait for such a step."""


class ToolSteps:
    """The tool steps of a run. Methods are called in the order of the records.

    `steps` are those that hold at least one tool. `has_started` says whether any tool ran outside of every step with a
    block.
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
        """Close the current tool step of an agent: a call or a step of it begins."""
        step = self._open.pop(agent, None)
        if step is not None:
            step.closed = True

    def start(self, identity: str, record: Record) -> None:
        """Reserve a place for a tool that runs outside of every step with a block, at its first record."""
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
        """Return the step that was reserved for a tool; None for one that ran in a step with a block."""
        return self._step_of.pop(identity, None)

    def place(self, execution: ToolExecution, *, elsewhere: bool) -> None:
        """Show a tool in its tool step, or remove it there if it is shown elsewhere or a recorded step names it."""
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
        """Whether a tool is shown in a tool step."""
        return execution.tool_step is not None and execution.identity in execution.tool_step.executions

    def claim(self, calls: Iterable[ToolCall]) -> None:
        """Take the calls that a recorded step without a block names; the tools that ran for them are shown there."""
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
    """Whether a call that a recorded step names is this tool's: by id, or, if one has no id, by name and arguments."""
    ran = execution.call()
    if call.call_id and not ran.call_id_made_up:
        return call.call_id == ran.call_id
    return (call.name, call.arguments) == (ran.name, ran.arguments)
