"""Tool steps: tools that ran outside every other step, as steps of their own.

A retriever runs before the first call to a model, or a loop that marks its steps runs a tool between two of them. What
one agent runs so, from one of its calls or steps to the next, is one step. Where it stands depends on the records
alone, and not on which of these tools turn out to belong elsewhere: to a call for which a stream asked that was open
when they ran, or to a step that the agent tells of afterwards, naming the same calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from trace_recorder.derive.tool_matching import ToolStep, ToolUse, agent_key
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.messages import ToolCall

MOST_TOOLS = 64
"""After so many tools another step begins: no step grows without end where the calls to the model are not seen."""
TELLING = 256
"""So many calls that the agent told of wait for the tools that they name, and so many tools for being told of."""


class ToolSteps:
    """The tool steps of a run. It is told of everything in the order of the records.

    `steps` are those in which something stands, `changed` those of which there is more than when it was emptied last,
    `has_begun` whether any tool ran outside every step with a block.
    """

    def __init__(self) -> None:
        self.steps: dict[ToolStep, None] = {}
        self.changed: dict[ToolStep, None] = {}
        self.has_begun = False
        self._joined: dict[Hashable, ToolStep] = {}
        self._begun: dict[str, ToolStep] = {}
        self._told: deque[ToolCall] = deque(maxlen=TELLING)
        self._untold: deque[ToolUse] = deque(maxlen=TELLING)

    def end(self, agent: Hashable) -> None:
        """Hear that a call or a step of an agent begins: what it runs from now on is another step."""
        step = self._joined.pop(agent, None)
        if step is not None:
            step.closed = True

    def begin(self, identity: str, record: Record) -> None:
        """Hear of a record of a tool that runs outside every step with a block: its first one says where it stands."""
        if identity in self._begun:
            return
        agent = agent_key(record.data)
        step = self._joined.get(agent)
        if step is not None and step.placed == MOST_TOOLS:
            self.end(agent)
            step = None
        if step is None:
            step = self._joined[agent] = ToolStep(record.seq, record.data)
        step.placed += 1
        self.has_begun = True
        self._begun[identity] = step

    def of(self, identity: str) -> ToolStep | None:
        """The step in which a tool stands if it has no other place; None of one that ran in a step with a block."""
        return self._begun.pop(identity, None)

    def keep(self, use: ToolUse, *, elsewhere: bool) -> None:
        """Have a tool stand in the step where it ran, unless it has a place elsewhere, or was told of."""
        step = use.outside
        if step is None:
            return
        if not elsewhere and use.identity not in step.uses:
            elsewhere = self._is_told(use)
        if not elsewhere:
            step.uses[use.identity] = use
            step.since = step.since or use.since
            self.steps[step] = self.changed[step] = None
        elif use.identity in step.uses:
            del step.uses[use.identity]
            self.changed[step] = None
            if not step.uses:
                del self.steps[step]

    def shows(self, use: ToolUse) -> bool:
        """Whether a tool stands in a step of these."""
        return use.outside is not None and use.identity in use.outside.uses

    def touch(self, uses: Iterable[ToolUse]) -> None:
        """Hear that there is more of some tools, wherever they stand."""
        self.changed |= {use.outside: None for use in uses if use.outside is not None and self.shows(use)}

    def tell(self, calls: Iterable[ToolCall]) -> None:
        """Hear of the calls of a step that the agent tells as a whole: the tools that they name stand there."""
        for call in calls:
            use = next((use for use in self._untold if self.shows(use) and _names(call, use)), None)
            if use is None:
                self._told.append(call)
            else:
                self._untold.remove(use)
                self.keep(use, elsewhere=True)

    def _is_told(self, use: ToolUse) -> bool:
        call = next((call for call in self._told if _names(call, use)), None)
        if call is None:
            self._untold.append(use)
            return False
        self._told.remove(call)
        return True


def _names(call: ToolCall, use: ToolUse) -> bool:
    """Whether a call that the agent tells of is this tool's: by the id, or where either has none, by what was asked."""
    ran = use.call()
    if call.call_id and not ran.call_id_made_up:
        return call.call_id == ran.call_id
    return (call.name, call.arguments) == (ran.name, ran.arguments)
