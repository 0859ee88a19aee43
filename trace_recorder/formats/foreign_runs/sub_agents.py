"""Joins sub-agents that have files of their own to the agent that started them.

The session of the parent has the tool call that started a sub-agent. The call becomes an execution of the parent, and
all events of the sub-agent name this execution.
"""

from __future__ import annotations

from trace_recorder.formats.foreign_runs.agent_history import AgentHistory
from trace_recorder.formats.foreign_runs.run import Event, ForeignAgent, ToolRun, joined_id


class StartedAgents:
    """The sub-agents that one agent started.

    `executions` has an execution for each tool call that started a sub-agent, unless the execution is among the events
    of the agent.
    """

    def __init__(self, history: AgentHistory) -> None:
        self._history = history
        self._known = {event.call_id: event for event in history.events if isinstance(event, ToolRun)}
        self.executions: list[list[Event]] = []

    def agent(self, agent_id: str, call_id: str, name: str | None) -> ForeignAgent:
        """Return the sub-agent with this id. `call_id` is the id of the tool call that started the sub-agent."""
        execution = self._known.get(call_id) or self._history.execution_of(call_id)
        execution_id: str | None = None
        if execution is not None:
            execution_id = execution.execution_id = joined_id("execution-of", call_id)
            if call_id not in self._known:
                self._known[call_id] = execution
                self.executions.append([execution])
        return ForeignAgent(
            name=name,
            agent_id=agent_id,
            parent_agent_id=self._history.agent.agent_id,
            parent_execution_id=execution_id,
        )
