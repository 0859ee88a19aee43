"""opencode's sessions: its database, a session's file in its older storage, or what `opencode export` prints.

Each session of the user is a run; `stores.py` finds its messages, `messages.py` says what they mean. Sub-agents have
sessions of their own, which the metadata of the tool that started them name. In the database these are part of the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.imports.foreign.agent_history import in_time_order
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.opencode.messages import SessionReader
from trace_recorder.imports.foreign.opencode.stores import Session, exported, has_tables, in_tables, stored
from trace_recorder.imports.foreign.run import Agent, Event, ForeignRun, Members, Missing, ToolRun
from trace_recorder.imports.foreign.source import Source
from trace_recorder.imports.foreign.sqlite_file import MAGIC, opened
from trace_recorder.values.messages import without_none
from trace_recorder.values.token_counts import CACHE_APART


def recognizes(source: Source) -> bool:
    """Whether it is a database with these tables, a session, or an exported one with its messages."""
    if source.head.startswith(MAGIC):
        with opened(source.path) as database:
            return has_tables(database)
    document = as_dict(source.document)
    return _is_session(document) or (_is_session(as_dict(document.get("info"))) and "messages" in document)


def _is_session(members: Members) -> bool:
    named = {"id", "directory", "version", "time"} <= members.keys() and ("projectID" in members or "title" in members)
    return named and "created" in as_dict(members["time"])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each session of the user."""
    if source.head.startswith(MAGIC):
        with opened(source.path) as database:
            for session in in_tables(database):
                yield _run(session, source)
    elif "messages" in as_dict(source.document):
        yield _run(exported(as_dict(source.document)), source)
    else:
        yield _run(stored(source), source)


def _run(session: Session, source: Source) -> ForeignRun:
    members = session.members
    time = as_dict(members.get("time"))
    missing: list[Missing] = []
    executions: list[ToolRun] = []
    main = SessionReader(executions=executions)
    events = in_time_order(*_events(session, main, missing))
    return ForeignRun(
        identity=as_text(members.get("id")) or source.path.name.removesuffix(".json"),
        events=[*events, *missing],
        executions=executions,
        task=main.task,
        provider=main.provider,
        model=main.model,
        start_time=stated_time(time.get("created")),
        end_time=stated_time(time.get("updated")),
        source=without_none(
            version=members.get("version"),
            directory=members.get("directory"),
            title=members.get("title"),
            parent_id=members.get("parentID"),
        ),
    )


def _events(session: Session, main: SessionReader, missing: list[Missing]) -> Iterator[list[Event]]:
    """Yield the events of each agent: that of the session, and those that it started."""
    known, unread = {as_text(session.members.get("id"))}, [(session, main)]
    while unread:
        one, reader = unread.pop()
        yield [*reader.events(one.messages(missing))]
        for started in one.sub_sessions():
            identity = as_text(started.members["id"])
            if identity not in known:
                known.add(identity)
                unread.append((started, SessionReader(_agent(started.members, reader), executions=main.executions)))


def _agent(session: Members, parent: SessionReader) -> Agent:
    """Return the agent of a session, by what the tool that started it says, or else the session itself."""
    identity = as_text(session["id"]) or ""
    name, execution = parent.started.get(identity, (None, None))
    return Agent(
        name=name or as_text(session.get("agent")),
        agent_id=identity,
        parent_agent_id=parent.agent.agent_id,
        parent_execution_id=execution,
    )


FORMAT = ImportFormat(name="opencode", recognizes=recognizes, read=read, counting=CACHE_APART)
