"""Qwen Code's sessions: lines that form a tree by `uuid` and `parentUuid`.

The content of a line is in Google's dialect.

An answer may be several lines with the same `uuid`. A `chat_compression` line begins a new conversation. A session
that was forked begins with copies of another session's lines (`forkedFrom`).

Newer versions write a file for each sub-agent. Its lines are those of a session with an `agentId`, and a line with tool
calls follows the line with the text and the tokens of the same answer:

    chats/<session>.jsonl
    subagents/<session>/agent-<id>.jsonl, agent-<id>.meta.json      `toolUseId` is the call that started the sub-agent
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from trace_recorder.dialects import google_generate
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.agent_history import (
    AgentHistory,
    Position,
    given_by_another_session,
    in_time_order,
    last_answer,
)
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, joined_id
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_members, stated_time
from trace_recorder.formats.foreign_runs.sub_agents import StartedAgents
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_CHATS = "chats"
_AGENT = "agentId"
"""A member that only lines of sub-agents have."""
_SPEAKERS = {"user", "assistant", "tool_result"}
_COMPRESSION = "chat_compression"
_FORKED_FROM = "forkedFrom"
_SOURCE_MEMBERS = ("version", "cwd", "gitBranch", _FORKED_FROM)
_MESSAGE = Signs(values={"type": _SPEAKERS}, members=("uuid", "message/parts"))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file, with its sub-agents' files."""
    reader = _QwenReader(ForeignRun(identity=source.path.stem))
    reader.read_file(source)
    started: dict[str | None, StartedAgents] = {None: StartedAgents(reader.history)}
    events = [reader.run.events]
    for file, meta in sorted(_sub_agents(source), key=lambda found: as_int(found[1].get("depth")) or 0):
        parent = started.get(as_text(meta.get("parentAgentId")), started[None])
        history = _history_of_agent(file, meta, parent, reader.run)
        started[history.agent.agent_id] = StartedAgents(history)
        events.append(history.events)
    executions = chain.from_iterable(agents.executions for agents in started.values())
    reader.run.events = in_time_order(*events, *executions)
    yield reader.run


def _sub_agents(session: Source) -> Iterator[tuple[Source, Members]]:
    """Yield the files of a session's sub-agents, each with its meta file."""
    if session.path.parent.name != _CHATS:
        return
    directory = session.path.absolute().parent.parent / "subagents" / session.path.stem
    for path in sorted(directory.glob("agent-*.jsonl")):
        file = session.part(path, directory)
        if file is not None:
            yield file, session.members_of_part(path.with_suffix(".meta.json"), directory)


def _history_of_agent(file: Source, meta: Members, parent: StartedAgents, session: ForeignRun) -> AgentHistory:
    """Read the file of a sub-agent, whose executions are the session's. Its lines do not state the session's model."""
    identity = as_text(meta.get("agentId")) or file.path.stem.removeprefix("agent-")
    name = as_text(meta.get("agentType")) or as_text(meta.get("subagentName"))
    agent = parent.agent(identity, as_text(meta.get("toolUseId")) or "", name)
    run_of_agent = ForeignRun(identity=identity, model=session.model, executions=session.executions)
    reader = _QwenReader(run_of_agent, AgentHistory([], agent))
    try:
        reader.read_file(file)
    except (OSError, TrajectoryFormatError) as error:
        reader.add_gap(f"to read {file.path.name}", str(error))
    return reader.history


class _QwenReader(SessionReader):
    """Reads one session, or the file of a sub-agent."""

    def __init__(self, run: ForeignRun, history: AgentHistory | None = None) -> None:
        super().__init__(run, history)
        self._positions: dict[str, Position] = {}
        self._answer: Members | None = None
        self._parts: list[Payload] = []
        self._model_of_parent = run.model

    def read_file(self, source: Source) -> None:
        """Read the lines of a file."""
        for line in self.lines(source):
            self.read_line(line)
        self.close()
        self.finish()

    def read_line(self, line: Members) -> None:
        time = stated_time(line.get("timestamp"))
        kind = as_text(line.get("type"))
        if kind == "assistant" and self._answer is not None and _continues(line, self._answer):
            self._answer |= {name: value for name, value in line.items() if value is not None}
            self._parts += as_list(as_dict(line.get("message")).get("parts"))
            return
        self.close()
        if isinstance(line.get(_FORKED_FROM), dict):
            self.run.parent = as_text(line[_FORKED_FROM].get("sessionId"))
            with given_by_another_session(self.run, self.history.events):
                self._read_new_line(line, time)
        else:
            self._read_new_line(line, time)

    def _read_new_line(self, line: Members, time: str) -> None:
        kind, uuid, parent = (as_text(line.get(name)) for name in ("type", "uuid", "parentUuid"))
        parts = as_list(as_dict(line.get("message")).get("parts"))
        session, agent = as_text(line.get("sessionId")), as_text(line.get(_AGENT))
        if session is not None:
            self.run.session = session
            self.run.identity = session if agent is None else joined_id(session, "agent", agent)
        self.run.source |= stated_members(line, _SOURCE_MEMBERS)
        if kind in _SPEAKERS and parent in self._positions:
            self.history.return_to(self._positions[parent])
        if kind == "assistant":
            self._answer, self._parts = dict(line), [*parts]
            return
        if kind in _SPEAKERS:
            messages = google_generate.read_message({"role": "user", "parts": parts})
            if kind == "user":
                for message in messages:
                    self.note_task(message.content)
            self.history.add_all(messages, time)
        else:
            self._read_other(line, time)
        if uuid is not None:
            position = self.history.position
            if kind not in _SPEAKERS and line.get("subtype") != _COMPRESSION:
                position = self._positions.get(parent or "", position)
            self._positions[uuid] = position

    def _read_other(self, line: Members, time: str) -> None:
        subtype = as_text(line.get("subtype"))
        if subtype == _COMPRESSION:
            self.history.restart()
            for content in as_list(as_dict(line.get("systemPayload")).get("compressedHistory")):
                self.history.add_all(google_generate.read_message(content), time)
        kinds = (as_text(line.get("type")) or "line", subtype)
        self.keep(" ".join(filter(None, kinds)), line, time)

    def close(self) -> None:
        """Add the call that gave the open answer, if an answer is open."""
        line, self._answer = self._answer, None
        if line is None:
            return
        if isinstance(line.get(_FORKED_FROM), dict):
            with given_by_another_session(self.run, self.history.events):
                self._add_call(line)
        else:
            self._add_call(line)
        if uuid := as_text(line.get("uuid")):
            self._positions[uuid] = self.history.position

    def _add_call(self, line: Members) -> None:
        content = {"role": "model", "parts": self._parts}
        body = {"candidates": [{"content": content}], "usageMetadata": line.get("usageMetadata")}
        response = google_generate.read_response({**body, "modelVersion": line.get("model")}, self.history.made_up_ids)
        answer = last_answer(google_generate.read_message(content))
        call = self.history.call(stated_time(line.get("timestamp")), response, answer)
        call.model = call.model or self._model_of_parent
        self.note_model(call.model)


def _continues(line: Members, answer: Members) -> bool:
    """Return whether a line of the assistant has more parts of the answer of the line before it."""
    if line.get("uuid") == answer.get("uuid"):
        return True
    is_next = line.get("parentUuid") == answer.get("uuid")
    return is_next and _AGENT in line and "usageMetadata" not in line


FORMAT = Format(
    name="qwen",
    reader=FormatReader(recognizes=_MESSAGE.in_any_line, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="Qwen Code",
            directory=".qwen",
            files=(
                "projects/*/chats/*.jsonl",
                "tmp/*/chats/*.jsonl",
            ),
            variable="QWEN_HOME",
            session="projects/*/chats/{session}.jsonl",
        ),
    ),
)
