"""Tool steps: tools that ran outside every other step, as steps of their own.

A retriever runs before the first call to a model, or a loop that marks its steps runs a tool between two of them. What
one agent runs so, from one of its calls or steps to the next, is one step. Where it stands depends on the records
alone, and not on which of these tools turn out to belong elsewhere: to a call for which a stream asked that was open
when they ran, or to a step that the agent tells of afterwards, naming the same calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from trace_recorder.derive.tool_matching import ToolExecution, ToolStep, agent_key
from trace_recorder.storage.journal import Record
from trace_recorder.values.messages import ToolCall

MAX_TOOLS_PER_STEP = 64
"""After so many tools another step begins: no step grows without end where the calls to the model are not seen."""
MAX_WAITING_CLAIMS = 256
"""So many calls that the agent told of wait for the tools that they name, and so many tools for being told of."""


class ToolSteps:
    """The tool steps of a run. It is told of everything in the order of the records.

    `steps` are those in which something stands, `changed` those of which there is more than when it was emptied last,
    `has_started` whether any tool ran outside every step with a block.
    """

    def __init__(self) -> None:
        self.steps: dict[ToolStep, None] = {}
        self.changed: dict[ToolStep, None] = {}
        self.has_started = False
        self._open: dict[Hashable, ToolStep] = {}
        self._step_of: dict[str, ToolStep] = {}
        self._claims: deque[ToolCall] = deque(maxlen=MAX_WAITING_CLAIMS)
        self._unclaimed: deque[ToolExecution] = deque(maxlen=MAX_WAITING_CLAIMS)

    def close(self, agent: Hashable) -> None:
        """Hear that a call or a step of an agent begins: what it runs from now on is another step."""
        step = self._open.pop(agent, None)
        if step is not None:
            step.closed = True

    def start(self, identity: str, record: Record) -> None:
        """Hear of a record of a tool that runs outside every step with a block: its first one says where it stands."""
        if identity in self._step_of:
            return
        agent = agent_key(record.data)
        step = self._open.get(agent)
        if step is not None and step.placed == MAX_TOOLS_PER_STEP:
            self.close(agent)
            step = None
        if step is None:
            step = self._open[agent] = ToolStep(record.seq, record.data)
        step.placed += 1
        self.has_started = True
        self._step_of[identity] = step

    def pop_step(self, identity: str) -> ToolStep | None:
        """The step in which a tool stands if it has no other place; None of one that ran in a step with a block."""
        return self._step_of.pop(identity, None)

    def place(self, execution: ToolExecution, *, elsewhere: bool) -> None:
        """Have a tool stand in the step where it ran, unless it has a place elsewhere, or was told of."""
        step = execution.tool_step
        if step is None:
            return
        if not elsewhere and execution.identity not in step.executions:
            elsewhere = self._is_claimed(execution)
        if not elsewhere:
            step.executions[execution.identity] = execution
            step.first_seq = step.first_seq or execution.first_seq
            self.steps[step] = self.changed[step] = None
        elif execution.identity in step.executions:
            del step.executions[execution.identity]
            self.changed[step] = None
            if not step.executions:
                del self.steps[step]

    def contains(self, execution: ToolExecution) -> bool:
        """Whether a tool stands in a step of these."""
        return execution.tool_step is not None and execution.identity in execution.tool_step.executions

    def mark_changed(self, executions: Iterable[ToolExecution]) -> None:
        """Hear that there is more of some tools, wherever they stand."""
        self.changed |= {
            execution.tool_step: None
            for execution in executions
            if execution.tool_step is not None and self.contains(execution)
        }

    def claim(self, calls: Iterable[ToolCall]) -> None:
        """Hear of the calls of a step that the agent tells as a whole: the tools that they name stand there."""
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
    """Whether a call that the agent tells of is this tool's: by the id, or where either has none, by what was asked."""
    ran = execution.call()
    if call.call_id and not ran.call_id_made_up:
        return call.call_id == ran.call_id
    return (call.name, call.arguments) == (ran.name, ran.arguments)
