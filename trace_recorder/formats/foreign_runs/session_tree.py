"""Sessions of a database in which each sub-agent has a session of its own: which of them are one run.

The events of a sub-agent follow the tool call that started it. They are not ordered by time, because goose and Crush
state times in whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory
from trace_recorder.formats.foreign_runs.run import Call, Event, ForeignRun, Members, ToolRun
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.sub_agents import StartedAgents


class SessionRow(NamedTuple):
    """A session: its row, and, if it is a sub-agent's, the session that started it and the agent's name."""

    identity: str
    row: Members
    parent: str | None = None
    name: str | None = None


class ReadSession(NamedTuple):
    """A session that was read. `started_by` has the tool calls that started sub-agents, by their sessions."""

    reader: SessionReader
    started_by: Mapping[str, str]


Read = Callable[[SessionRow, ForeignRun, AgentHistory | None], ReadSession]
"""Reads a session into a run. The history is that of a sub-agent, or None for a main agent."""


@dataclass(slots=True)
class SessionRows:
    """Reads each session once. A session whose parent is missing is a run, and so are sessions in a circle."""

    sessions: Iterable[SessionRow]
    read: Read
    _started: dict[str, list[SessionRow]] = field(default_factory=dict)
    _read_sessions: set[str] = field(default_factory=set)

    def runs(self) -> Iterator[ForeignRun]:
        """Yield the run of each session that no other session started."""
        sessions = {session.identity: session for session in self.sessions}
        main: list[SessionRow] = []
        for session in sessions.values():
            if session.parent in sessions:
                self._started.setdefault(session.parent or "", []).append(session)
            else:
                main.append(session)
        for session in (*main, *sessions.values()):
            if session.identity not in self._read_sessions:
                yield self._run_of(session)

    def _run_of(self, session: SessionRow) -> ForeignRun:
        main = self._read(session, ForeignRun(identity=session.identity, parent=session.parent), None)
        run = main.reader.run
        started: list[_SubAgent] = []
        for parent in chain([main], (sub_agent.session for sub_agent in started)):  # `started` grows meanwhile
            agents = StartedAgents(parent.reader.history)
            for sub_session in self._started.get(parent.reader.run.identity, ()):
                if sub_session.identity in self._read_sessions:
                    continue
                call_id = parent.started_by.get(sub_session.identity, "")
                agent = agents.agent(sub_session.identity, call_id, sub_session.name)
                run_of_agent = ForeignRun(identity=sub_session.identity, executions=run.executions)
                read_session = self._read(sub_session, run_of_agent, AgentHistory([], agent))
                started.append(_SubAgent(read_session, parent.reader.history, call_id))
            for execution in (event for events in agents.executions for event in events):
                _insert(parent.reader.history.events, _call_ids(execution)[0] or "", [execution])
        for sub_agent in reversed(started):
            _insert(sub_agent.parent.events, sub_agent.call_id, sub_agent.session.reader.history.events)
        return run

    def _read(self, session: SessionRow, run: ForeignRun, history: AgentHistory | None) -> ReadSession:
        self._read_sessions.add(session.identity)
        return self.read(session, run, history)


class _SubAgent(NamedTuple):
    session: ReadSession
    parent: AgentHistory
    call_id: str


def _insert(events: list[Event], call_id: str, inner: Sequence[Event]) -> None:
    """Insert events after the tool call that caused them, and after its execution. Otherwise append them."""
    position = len(events)
    for number, event in enumerate(events, start=1):
        if call_id in _call_ids(event):
            position = number
    events[position:position] = inner


def _call_ids(event: Event) -> list[str | None]:
    """Return the ids of the tool calls that an answer asks for, or the id of the one that ran."""
    if isinstance(event, Call):
        return [as_text(as_dict(call).get("call_id")) for call in as_list(as_dict(event.response).get("tool_calls"))]
    if isinstance(event, ToolRun):
        return [event.call_id]
    return []
