"""Finds the agent of each line, the line's position in the tree of messages, and the files beside a session.

Each line names the line before it (`parentUuid`). If the named line is not the agent's last line, the session has gone
back, and continues on a new branch of the conversation. Parts of an answer and results of its tools begin no branch of
the conversation, although parallel tool calls make branches of the tree. A line without a parent begins a new
conversation.

Older versions write the lines of sub-agents into the session's file (`isSidechain`). The first line of a sub-agent has
no parent, and repeats the prompt of the tool call that started it. Newer versions write a file for each sub-agent
(`agentId`). The SDK's lines name the tool call (`parent_tool_use_id`). Files beside a session:

    <session>/subagents/agent-<id>.jsonl, agent-<id>.meta.json
    <session>/subagents/workflows/<id>/agent-<id>.jsonl
    <session>/tool-results/<name>.txt           a result that was too large for the session
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.claude_code.lines import SessionEntry
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, Position
from trace_recorder.formats.foreign_runs.run import Event, ForeignAgent, Members, ToolRun, joined_id
from trace_recorder.formats.foreign_runs.source import Source, leads_out, open_file
from trace_recorder.formats.foreign_runs.stated_values import stated_flag, success_of
from trace_recorder.values.messages import Payload, ToolCall

_SUMMARIZER = "acompact"
"""The prefix of the ids of agents that write the summary of a compaction."""


@dataclass(slots=True)
class Task:
    """A tool call that may have started a sub-agent, and its result."""

    time: str
    call: ToolCall
    agent: ForeignAgent
    ended: str | None = None
    result: Payload = None
    failed: bool | None = None

    @property
    def execution_id(self) -> str:
        """The id of the call's execution, which the sub-agent's events name as their parent."""
        return joined_id("execution-of", self.call.call_id)

    def execution(self) -> ToolRun:
        """Return the execution of the tool call."""
        return ToolRun(
            time=self.time,
            name=self.call.name,
            arguments=self.call.arguments,
            call_id=self.call.call_id,
            execution_id=self.execution_id,
            ended=self.ended,
            success=success_of(self.failed),
            result=self.result,
            agent=self.agent,
        )


@dataclass(slots=True)
class Threads:
    """The histories of the agents of one session, and the position after each line."""

    main: AgentHistory
    positions: dict[str, tuple[AgentHistory, Position | None]] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)
    """The id of the tool call that started each sub-agent, by the id of the sub-agent."""
    _parents: dict[str, str | None] = field(default_factory=dict)
    _by_prompt: dict[str, deque[str]] = field(default_factory=dict)
    _sub_agents: dict[str, AgentHistory] = field(default_factory=dict)
    _has_parents: bool = False

    def history_of(self, entry: SessionEntry, events: list[Event]) -> AgentHistory:
        """Return the history of the agent to which a line belongs. A new history adds its events to `events`."""
        line = entry.line
        if task := as_text(line.get("parent_tool_use_id")):
            return self._history_of_sub_agent(task, self._started_by(task, task, None), events)
        if line.get("isSidechain") is not True:
            return self.main
        if identity := as_text(line.get("agentId")):
            return self._sub_agents.get(identity) or self._history_of_sub_agent(
                identity, self.agent(identity, entry), events
            )
        parent = self.positions.get(as_text(line.get("parentUuid")) or "")
        if parent is not None and parent[0] is not self.main:
            return parent[0]
        identity = f"sidechain-{len(self._sub_agents) + 1}"
        return self._history_of_sub_agent(
            identity, self._started_by(identity, self._task_with_prompt(entry), None), events
        )

    def _history_of_sub_agent(self, identity: str, agent: ForeignAgent, events: list[Event]) -> AgentHistory:
        if identity not in self._sub_agents:
            self._sub_agents[identity] = AgentHistory(events, agent)
        return self._sub_agents[identity]

    def add_meta(self, identity: str, meta: Members) -> None:
        """Remember which tool call started a sub-agent, and which agent made this call.

        The sub-agent's meta file states both.
        """
        if call_id := as_text(meta.get("toolUseId")):
            self.started[identity] = call_id
            self._parents[identity] = as_text(meta.get("parentAgentId"))

    def agent(self, identity: str, first_entry: SessionEntry) -> ForeignAgent:
        """Return the sub-agent with this id. `first_entry` is the sub-agent's first line."""
        task = self.started.get(identity) or self._task_with_prompt(first_entry)
        name = as_text(first_entry.line.get("attributionAgent"))
        if identity.startswith(_SUMMARIZER):
            name = "compaction"
        return self._started_by(identity, task, name)

    def _task_with_prompt(self, first_entry: SessionEntry) -> str | None:
        """Return the id of the tool call whose prompt is a sub-agent's first message.

        Each call is returned once, because it starts one agent.
        """
        waiting = self._by_prompt.get(as_text(first_entry.message.get("content")) or "")
        if not waiting:
            return None
        return waiting.popleft()

    def _started_by(self, identity: str, call_id: str | None, name: str | None) -> ForeignAgent:
        task = self.tasks.get(call_id or "")
        if task is None or call_id is None:
            return ForeignAgent(name=name, agent_id=identity, parent_agent_id=self._parents.get(identity))
        self.started[identity] = call_id
        kind = as_text(as_dict(task.call.arguments).get("subagent_type"))
        return ForeignAgent(
            name=name or kind,
            agent_id=identity,
            parent_agent_id=task.agent.agent_id,
            parent_execution_id=task.execution_id,
        )

    def add_task(self, call: ToolCall, time: str, agent: ForeignAgent) -> None:
        """Remember a tool call, which may start a sub-agent."""
        self.tasks.setdefault(call.call_id, Task(time, call, agent))
        prompt = as_text(as_dict(call.arguments).get("prompt"))
        if prompt:
            self._by_prompt.setdefault(prompt, deque()).append(call.call_id)

    def add_results(self, entry: SessionEntry, time: str) -> None:
        """Remember the results of tools, and the sub-agents that the values in `toolUseResult` name."""
        for block in map(as_dict, as_list(entry.message.get("content"))):
            task = self.tasks.get(as_text(block.get("tool_use_id")) or "")
            if block.get("type") == "tool_result" and task is not None:
                task.ended, task.result = time, block.get("content")
                task.failed = stated_flag(block.get("is_error"))
                if identity := as_text(as_dict(entry.line.get("toolUseResult")).get("agentId")):
                    self.started[identity] = task.call.call_id

    def note_progress(self, entry: SessionEntry) -> None:
        """Remember the agent that a line about a tool's progress names."""
        identity = as_text(as_dict(entry.line.get("data")).get("agentId"))
        call_id = as_text(entry.line.get("parentToolUseID"))
        if identity and call_id:
            self.started.setdefault(identity, call_id)

    def go_to(self, history: AgentHistory, entry: SessionEntry) -> None:
        """Move a history back to the message that the agent's new message names as its parent."""
        if "parentUuid" not in entry.line:
            return
        parent = as_text(entry.line["parentUuid"])
        if parent is None:
            if self._has_parents and len(history.conversation):
                history.restart()
            return
        self._has_parents = True
        parent_history, position = self.positions.get(parent, (None, history.position))
        if parent_history is None:
            return
        if position is not None:
            history.return_to(position)
        elif len(history.conversation):
            history.restart()

    def note_position(self, history: AgentHistory, entry: SessionEntry) -> None:
        """Remember an agent's position after a line.

        A line without a message has the position of the line that it names as its parent.
        """
        parent = as_text(entry.line.get("parentUuid"))
        position: Position | None = history.position
        if not entry.is_message and "parentUuid" in entry.line:
            if not parent:
                position = None
            elif parent in self.positions:
                _, position = self.positions[parent]
        for uuid in entry.uuids:
            self.positions[uuid] = history, position

    def finish(self) -> None:
        """Append to the events the results that no call saw."""
        for history in (self.main, *self._sub_agents.values()):
            history.finish()

    def answered_executions(self) -> list[ToolRun]:
        """Return the executions of all agents that have a result in the session."""
        return [execution for history in (self.main, *self._sub_agents.values()) for execution in history.executions()]

    def executions(self, events: Iterable[Event]) -> list[ToolRun]:
        """Return the executions that started sub-agents and that `events` lacks.

        An execution in `events` that started a sub-agent gets the id that the sub-agent's events name.
        """
        known = {event.call_id: event for event in events if isinstance(event, ToolRun)}
        executions: list[ToolRun] = []
        for task in filter(None, map(self.tasks.get, dict.fromkeys(self.started.values()))):
            if task.call.call_id in known:
                known[task.call.call_id].execution_id = task.execution_id
            else:
                executions.append(task.execution())
        return sorted(executions, key=lambda execution: execution.time)


_SAVED = re.compile(r"<persisted-output>[^<]{0,200}saved to: [^\n]{0,4096}[/\\]tool-results[/\\]([\w.-]+)")
_META = ".meta.json"
_SUB_AGENTS = ("agent-*.jsonl", "workflows/*/agent-*.jsonl")


@dataclass(slots=True)
class SubAgentFile:
    """The file of a sub-agent.

    `meta` is the content of the sub-agent's meta file: its type, and the tool call that started it. `leads_out` is true
    if the file is a link out of the session's directory. Such a file is not read.
    """

    source: Source
    meta: Members
    leads_out: bool

    @property
    def agent_id(self) -> str:
        """The id of the agent."""
        return self.source.path.stem.removeprefix("agent-")


def sub_agents(session: Source) -> list[SubAgentFile]:
    """Return the files of a session's sub-agents. An agent comes before the agents that it started."""
    files: list[SubAgentFile] = []
    directory = _directory_of(session)
    for path in sorted(chain.from_iterable(map((directory / "subagents").glob, _SUB_AGENTS))):
        meta = session.members_of_part(path.with_suffix(_META), directory)
        files.append(SubAgentFile(session.neighbour(path), meta, leads_out(path, directory)))
        session.part(path, directory)
    return sorted(files, key=lambda file: as_int(file.meta.get("spawnDepth")) or 0)


def _directory_of(session: Source) -> Path:
    """Return the directory with the other files of a session."""
    return session.path.parent / session.path.stem


def saved_results(session: Source, content: Payload) -> Iterator[tuple[str, str | None]]:
    """Yield the name and the text of each file that a tool's result refers to.

    The text is None if the file cannot be read. Only files in the directory of the session's results are read, even if
    the result names another directory.
    """
    texts = [content]
    if isinstance(content, list):
        texts = [as_dict(part).get("text") for part in content]
    for text in texts:
        if isinstance(text, str) and (match := _SAVED.match(text)):
            path = _directory_of(session) / "tool-results" / match[1]
            yield match[1], _text_of(session, path)


def _text_of(session: Source, path: Path) -> str | None:
    if leads_out(path, _directory_of(session)):
        return None
    try:
        with open_file(path) as file:
            data = file.read(session.max_line_bytes + 1)
    except (OSError, TrajectoryFormatError):
        return None
    session.read_too.add(path)
    if len(data) > session.max_line_bytes:
        return None
    return data.decode(errors="replace")
