"""Sessions of Cline's command line, version 3: a conversation in Anthropic's form, as one document.

    sessions/<session>/<session>.messages.json      the conversation, with the tokens and the model of each answer
    sessions/<session>/<session>.json               the prompt, the status, and the tokens of the whole session
    sessions/<session>/agent_<id>.messages.json     the conversation of a sub-agent: `origin.parentThreadId`

No file says which tool call started a sub-agent. A sub-agent belongs to the first call of `spawn_agent` with the task
that is the first message of the sub-agent.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, first_text, in_time_order
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_members, stated_time
from trace_recorder.formats.foreign_runs.sub_agents import StartedAgents
from trace_recorder.formats.plain_conversations import read_block_messages
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import Status

_SUFFIX = ".messages.json"
_SPAWN = "spawn_agent"
"""The tool that starts a sub-agent. Its argument `task` is the first message of the sub-agent."""
_READ = ("messages", "system_prompt", "sessionId")
_SOURCE_MEMBERS = ("cwd", "source", "exit_code")
_STATUSES: dict[str, Status] = {"completed": "completed", "failed": "failed", "cancelled": "interrupted"}
_SESSION = Signs(members=("sessionId", "agent", "updated_at"), lists=("messages",))


def recognizes(source: Source) -> bool:
    """Return whether the file is the conversation of a session or of a sub-agent."""
    return _SESSION.in_document(source)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file, with the sub-agents whose files are beside it."""
    document = as_dict(source.document)
    origin = as_dict(document.get("origin"))
    run = ForeignRun(identity=source.path.name.partition(".")[0], parent=as_text(origin.get("parentThreadId")))
    reader = SessionReader(run)
    facts = _read_facts(reader, source)
    reader.run.source |= without_none(version=origin.get("version"))
    _read_conversation(reader, document)
    started = StartedAgents(reader.history)
    agents = [*_histories_of_agents(source, reader, started)]
    run.events = in_time_order(run.events, *started.executions, *(history.events for history in agents))
    if usage := as_dict(as_dict(facts.get("metadata")).get("usage")):
        run.events.append(TimedFact.annotation("session_usage", usage, run.end_time))
    if facts:
        run.events.append(TimedFact.unread("session", facts, run.end_time))
    yield run


def _read_facts(reader: SessionReader, source: Source) -> Members:
    """Read the file with the facts of the session, which is beside its conversation. Return its members."""
    run, path = reader.run, source.path
    facts = source.members_of_part(path.with_name(path.name.removesuffix(_SUFFIX) + ".json"), path.parent)
    run.task = as_text(facts.get("prompt"))
    run.provider, run.model = as_text(facts.get("provider")), as_text(facts.get("model"))
    run.start_time, run.end_time = stated_time(facts.get("started_at")), stated_time(facts.get("ended_at"))
    run.status = _STATUSES.get(as_text(facts.get("status")) or "", "unknown")
    run.source |= stated_members(facts, _SOURCE_MEMBERS)
    return facts


def _read_conversation(reader: SessionReader, document: Members) -> None:
    reader.note_identity(document.get("sessionId"))
    read_block_messages(reader, document, as_list(document.get("messages")))
    reader.finish()
    reader.keep_rest("document", document, *_READ)


def _histories_of_agents(source: Source, parent: SessionReader, started: StartedAgents) -> Iterator[AgentHistory]:
    """Read the files of the session's sub-agents, the oldest first."""
    waiting = _spawning_calls(parent)
    for path in sorted(source.path.absolute().parent.glob("agent_*" + _SUFFIX)):
        if path == source.path.absolute():
            continue
        file = source.neighbour(path)
        document = as_dict(_document(file, parent))
        origin = as_dict(document.get("origin"))
        if origin.get("parentThreadId") != parent.run.identity or source.part(path, path.parent) is None:
            continue
        messages = as_list(document.get("messages"))
        task = first_text(as_dict(next(iter(messages), None)).get("content"))
        call_id = ""
        if waiting[task]:
            call_id = waiting[task].popleft()
        identity = as_text(origin.get("subagent")) or path.name.removesuffix(_SUFFIX)
        agent = started.agent(identity, call_id, as_text(document.get("agent")))
        run_of_agent = ForeignRun(identity=identity, executions=parent.run.executions)
        reader = SessionReader(run_of_agent, AgentHistory([], agent))
        _read_conversation(reader, document)
        yield reader.history


def _document(file: Source, parent: SessionReader) -> Payload:
    """Return the document in the file of a sub-agent. If it cannot be read, add a gap and return None."""
    why: str | None
    try:
        document, why = file.document, file.why_no_document
    except (OSError, TrajectoryFormatError) as error:
        document, why = None, str(error)
    if why is not None:
        parent.add_gap(f"to read {file.path.name}", why)
    return document


def _spawning_calls(reader: SessionReader) -> defaultdict[str, deque[str]]:
    """Return the ids of the tool calls that started sub-agents, by the task of the sub-agent."""
    waiting: defaultdict[str, deque[str]] = defaultdict(deque)
    answers = (as_dict(event.response) for event in reader.history.events if isinstance(event, Call))
    for answer in answers:
        for tool_call in map(as_dict, as_list(answer.get("tool_calls"))):
            task = as_text(as_dict(tool_call.get("arguments")).get("task"))
            if tool_call.get("name") == _SPAWN and task is not None:
                waiting[task].append(as_text(tool_call.get("call_id")) or "")
    return waiting
