"""opencode's sessions: its database, a session's file in the older storage, or the output of `opencode export`.

Each session of the user is a run, and `stores.py` finds its messages. A sub-agent has a session of its own. The
metadata of the tool that started the sub-agent names this session. In the database, the sessions of sub-agents become
parts of the run.

An assistant's message is one call, or one call for each of its `step-finish` parts. A `retry` part is an earlier call
that failed. Later calls do not see a failed answer, unless the user aborted it after its first text or tool call. A
fork begins with copies of messages that are older than the fork. After a summary, a new conversation has the messages
from `tail_start_id` on, and then the summary. Input tokens leave out cached tokens.

Source: `packages/opencode/src/session/message-v2.ts`, above all `toModelMessages` and `filterCompacted`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, content_of, join_texts
from trace_recorder.formats.foreign_runs.agent_history import in_time_order
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    Call,
    Event,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sqlite_file import is_database, open_database
from trace_recorder.formats.foreign_runs.stated_values import counts_at, stated_time
from trace_recorder.formats.opencode.stores import (
    StoredMessage,
    StoredSession,
    exported_session,
    is_opencode_database,
    sessions_in_tables,
    stored_session,
)
from trace_recorder.values.messages import Payload, without_none

_ANSWER_PARTS = {"text", "file", "reasoning", "tool", "step-start", "retry"}
_SOURCE_MEMBERS = ("version", "directory", "title")
_SUCCEEDED = {"completed": True, "success": True, "error": False}


class StartedSession(NamedTuple):
    """The name of a sub-agent, and the id of the execution that started it."""

    name: str | None
    execution: str


@dataclass(slots=True)
class _AgentReader:
    """Reads the messages of one agent's session.

    `started` has the sub-agents that the session started, by their sessions' ids.
    """

    agent: ForeignAgent = MAIN
    task: str | None = None
    provider: str | None = None
    model: str | None = None
    started: dict[str, StartedSession] = field(default_factory=dict)
    executions: list[ToolRun] = field(default_factory=list)
    """Tool runs that ended with an exit code; their results have the code."""
    _system: list[Members] = field(default_factory=list)
    _conversation: ForeignConversation = field(default_factory=ForeignConversation)
    _positions: dict[str, int] = field(default_factory=dict)
    """The length of the conversation before each message, by the message's id."""
    is_fork: bool = False
    _summary_request: tuple[Members, Members] | None = None

    def events(self, messages: list[StoredMessage], created: float | None) -> Iterator[Event]:
        """Yield the events of a session that was `created` at this time, and set the facts of the whole session."""
        systems = (join_texts(map(as_text, as_list(message.message.get("system"))), "\n\n") for message in messages)
        if system := next(filter(None, systems), None):
            self._system.append({"role": "system", "content": system})
        self._begin(self._system)
        for message, parts in messages:
            sent = as_number(as_dict(message.get("time")).get("created"))
            events = self._events_of_message(message, parts, stated_time(sent))
            if created is None or sent is None or sent >= created:
                yield from events
            else:
                self.is_fork, provider, model = True, self.provider, self.model
                deque(events, maxlen=0)  # the other session has these calls
                self.provider, self.model = provider, model

    def _events_of_message(self, message: Members, parts: list[Members], time: str) -> Iterator[Event]:
        self._positions[as_text(message.get("id")) or ""] = len(self._conversation)
        for part in parts:
            if as_text(part.get("type")) not in _ANSWER_PARTS or _is_unseen(part):
                yield TimedFact.unread(what=f"part {part.get('type')}", value=part, time=time)
        if message.get("role") == "assistant":
            yield from self._answer(message, parts, time)
        elif message:
            self._add_prompt(message, parts)

    def _add_prompt(self, message: Members, parts: list[Members]) -> None:
        sent = [part for part in parts if part.get("type") in ("text", "file") and not _is_unseen(part)]
        content = content_of([_content_part(part) for part in sent])
        self.task = self.task or as_text(content)
        prompt: Members = {"role": "user", "content": content}
        if not content and message.get("summary") is not None:
            prompt["extra"] = {"summary": message["summary"]}
        self._summary_request = None
        if compaction := next((part for part in parts if part.get("type") == "compaction"), None):
            self._summary_request = prompt, compaction
        self._conversation.add(prompt)

    def _answer(self, message: Members, parts: list[Members], time: str) -> Iterator[Event]:
        model_members = as_dict(message.get("model"))
        provider = as_text(message.get("providerID")) or as_text(model_members.get("providerID"))
        model = as_text(message.get("modelID")) or as_text(model_members.get("modelID"))
        self.provider, self.model = self.provider or provider, self.model or model
        steps, failure = _steps(message, parts), as_dict(message.get("error"))
        for number, (step, finish) in enumerate(steps, start=1):
            error: Members = {}
            if number == len(steps):
                error = failure
            start = time
            if number > 1:
                times = (as_dict(part.get("time")).get("start") for part in step)
                start = stated_time(next((start for start in times if start), None)) or time
            calls = [*_retries(step), _call(step, finish, error, start)]
            for call in calls:
                call.provider, call.model, call.agent = provider, model, self.agent
                call.conversation, call.length = self._conversation, len(self._conversation)
            if len(steps) == len(calls) == 1:
                calls[-1].duration_seconds = _seconds(as_dict(message.get("time")), "created", "completed")
            yield from calls
            is_seen = not error or _is_seen_after_abort(error, step)
            if is_seen:
                self._conversation.answer(as_dict(calls[-1].response))
            for part in step:
                if part.get("type") == "tool":
                    yield self._tool(part, start, is_seen=is_seen)
        if message.get("summary") is True and not failure:
            self._compact()

    def _compact(self) -> None:
        """Begin a new conversation with the messages to keep, the request for a summary, and the summary."""
        messages, (request, compaction) = self._conversation.own, self._summary_request or ({}, {})
        first = self._positions.get(as_text(compaction.get("tail_start_id")) or "")
        kept: list[Members] = []
        if first is not None:
            kept = [message for message in messages[first:-1] if message is not request]
        self._begin([*self._system, *kept, *filter(None, [request]), messages[-1]])

    def _begin(self, messages: list[Members]) -> None:
        self._conversation = ForeignConversation()
        for message in messages:
            self._conversation.add(message)
        self._positions.clear()

    def _tool(self, part: Members, time: str, *, is_seen: bool) -> ToolRun:
        state = as_dict(part.get("state"))
        metadata, clock = as_dict(state.get("metadata")), as_dict(state.get("time"))
        success = _SUCCEEDED.get(as_text(state.get("status")) or "")
        error = as_text(state.get("error"))
        call_id, name = as_text(part.get("callID")) or "", as_text(part.get("tool")) or ""
        output = _output(state)
        if success is not None and is_seen:
            content = output
            if error is not None:
                content = error
                if metadata.get("interrupted") is True:
                    content = as_text(metadata.get("output")) or error
            result = {"role": "tool", "content": content, "call_id": call_id, "name": name}
            self._conversation.add(result | {"extra": {"is_error": not success}})
        execution = None
        if session := as_text(metadata.get("sessionId")):
            execution = as_text(part.get("id")) or call_id
            agent = as_text(as_dict(state.get("input")).get("subagent_type"))
            self.started.setdefault(session, StartedSession(agent, execution))
        ended: str | None = None
        if success is not None:
            ended = stated_time(clock.get("end"))
        run = ToolRun(
            time=stated_time(clock.get("start")) or time,
            name=name,
            arguments=state.get("input"),
            call_id=call_id or None,
            execution_id=execution,
            ended=ended,
            success=success,
            result=output,
            error=error,
            duration_seconds=_seconds(clock, "start", "end"),
            agent=self.agent,
        )
        if "exit" in metadata:
            self.executions.append(replace(run, result={"output": output, "exit_code": metadata["exit"]}))
        return run


def _is_seen_after_abort(error: Members, step: list[Members]) -> bool:
    """Return whether later calls see a failed answer. They see an aborted answer with more than reasoning."""
    is_abort = error.get("name") == "MessageAbortedError"
    return is_abort and any(part.get("type") not in ("step-start", "reasoning") for part in step)


def _is_unseen(part: Members) -> bool:
    """Return whether a part of a user's message is not sent.

    Such a part is marked as ignored, or is a text file or a directory, whose text is also in another part.
    """
    is_text_file = part.get("type") == "file" and part.get("mime") in ("text/plain", "application/x-directory")
    return is_text_file or part.get("ignored") is True


def _output(state: Members) -> Payload:
    """Return the result of a tool, with its images and other files."""
    output = state.get("output")
    attachments = [_content_part(as_dict(attachment)) for attachment in as_list(state.get("attachments"))]
    if not attachments:
        return output
    return [{"type": "text", "text": output}, *attachments]


def _retries(step: list[Members]) -> list[Call]:
    """Return the calls that failed before the call of this step."""
    retries = (part for part in step if part.get("type") == "retry")
    return [
        Call(
            time=stated_time(as_dict(part.get("time")).get("created")),
            conversation=None,
            error=_failure(as_dict(part.get("error"))),
            complete=False,
        )
        for part in retries
    ]


def _failure(error: Members) -> Members:
    data = as_dict(error.get("data"))
    failure = {"type": as_text(error.get("name")) or "error", "message": as_text(data.get("message")) or ""}
    return failure | without_none(status=as_int(data.get("statusCode")))


def _steps(message: Members, parts: list[Members]) -> list[tuple[list[Members], Members]]:
    """Return the parts of each call in a message, each with the object that has the call's tokens."""
    steps: list[tuple[list[Members], Members]] = []
    step: list[Members] = []
    for part in parts:
        step.append(part)
        if part.get("type") == "step-finish":
            steps.append((step, part))
            step = []
    has_content = any(as_text(part.get("type")) in {"text", "tool", "reasoning"} for part in step)
    if not steps:
        steps.append((step, message))
    elif has_content and (len(steps) > 1 or any(part.get("type") == "step-start" for part in step)):
        steps.append((step, {}))
    elif has_content:
        steps[0][0].extend(step)  # parts after the end of the only step belong to this step
    if len(steps) == 1:
        [(step, finish)] = steps
        return [(step, {**message, **finish, "finish": finish.get("reason", message.get("finish"))})]
    return steps


def _call(step: list[Members], finish: Members, error: Members, time: str) -> Call:
    texts = [as_text(part.get("text")) for part in step if part.get("type") == "text"]
    thoughts = [as_text(part.get("text")) for part in step if part.get("type") == "reasoning"]
    calls = [
        {
            "call_id": as_text(part.get("callID")) or "",
            "name": as_text(part.get("tool")) or "",
            "arguments": as_dict(part.get("state")).get("input"),
        }
        for part in step
        if part.get("type") == "tool"
    ]
    usage = _usage(as_dict(finish.get("tokens")))
    if (cost := as_number(as_dict(finish.get("cost")).get("usd", finish.get("cost")))) is not None:
        usage["cost"] = cost
    response = without_none(
        content=join_texts(texts, "\n\n"),
        reasoning=join_texts(thoughts, "\n\n"),
        tool_calls=calls or None,
        finish_reason=as_text(finish.get("reason")) or as_text(finish.get("finish")),
        usage=usage or None,
    )
    call = Call(time=time, conversation=None, response=response, complete=not error)
    if error and (texts or thoughts or calls):
        call.ended_by = as_text(error.get("name"))
    elif error:
        call.response, call.error = None, _failure(error)
    return call


def _usage(tokens: Members) -> Members:
    """Return the counts of an answer. The output tokens include thoughts.

    Newer versions state thoughts beside the output. There, the sum of all counts is the `total`. Older versions state
    no total, and their output includes the thoughts.
    """
    usage = counts_at(tokens, _COUNTS)
    counts = [as_int(count) or 0 for count in usage.values()]
    output, thoughts = as_int(usage.get("output_tokens")), as_int(usage.get("reasoning_tokens"))
    if output is not None and thoughts is not None and as_int(tokens.get("total")) == sum(counts):
        usage["output_tokens"] = output + thoughts
    return usage


_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
    "cache_read_input_tokens": "cache/read",
    "cache_creation_input_tokens": "cache/write",
}


def _content_part(part: Members) -> Members:
    """Convert a part of a user's message or a tool's result. An image becomes an image part in OpenAI's form."""
    url = as_text(part.get("url"))
    if part.get("type") == "file" and url is not None and (as_text(part.get("mime")) or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if part.get("type") == "text":
        return {"type": "text", "text": as_text(part.get("text")) or ""}
    return part


def _seconds(clock: Members, start: str, end: str) -> float | None:
    start_ms, end_ms = as_number(clock.get(start)), as_number(clock.get(end))
    if start_ms is None or end_ms is None:
        return None
    return (end_ms - start_ms) / 1000


_SESSION = Signs(members=("id", "directory", "version", "time/created"))


def recognizes(source: Source) -> bool:
    """Return whether the file is opencode's database, a session, or an exported session with its messages."""
    if is_database(source):
        with open_database(source) as database:
            return is_opencode_database(database)
    document = as_dict(source.document)
    return _is_session(document) or (_is_session(document.get("info")) and "messages" in document)


def _is_session(value: Payload) -> bool:
    return _SESSION.match(value) and ("projectID" in value or "title" in value)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each session of the user."""
    if is_database(source):
        with open_database(source) as database:
            for session in sessions_in_tables(database):
                yield _run(session, source)
    elif "messages" in as_dict(source.document):
        yield _run(exported_session(as_dict(source.document)), source)
    else:
        yield _run(stored_session(source), source)


def _run(session: StoredSession, source: Source) -> ForeignRun:
    members = session.members
    time = as_dict(members.get("time"))
    missing: list[TimedFact] = []
    executions: list[ToolRun] = []
    main = _AgentReader(executions=executions)
    events = in_time_order(*_events(session, main, missing))
    return ForeignRun(
        identity=as_text(members.get("id")) or source.path.name.removesuffix(".json"),
        events=[*events, *missing],
        executions=executions,
        is_fork=main.is_fork,
        task=main.task,
        provider=main.provider,
        model=main.model,
        start_time=stated_time(time.get("created")),
        end_time=stated_time(time.get("updated")),
        source=without_none(**{name: members.get(name) for name in _SOURCE_MEMBERS}, parent_id=members.get("parentID")),
    )


def _events(session: StoredSession, main: _AgentReader, missing: list[TimedFact]) -> Iterator[list[Event]]:
    """Yield the events of the session's own agent, and of the sub-agents that were started in it, at any depth."""
    known, unread = {as_text(session.members.get("id"))}, [(session, main)]
    while unread:
        current, reader = unread.pop()
        created = as_number(as_dict(current.members.get("time")).get("created"))
        yield [*reader.events(current.messages(missing), created)]
        for sub in current.sub_sessions():
            identity = as_text(sub.members["id"])
            if identity not in known:
                known.add(identity)
                unread.append((sub, _AgentReader(_agent(sub.members, reader), executions=main.executions)))


def _agent(session: Members, parent: _AgentReader) -> ForeignAgent:
    """Return the agent of a session.

    The agent's name is in the call of the tool that started the agent, or otherwise in the session.
    """
    identity = as_text(session["id"]) or ""
    name, execution = parent.started.get(identity, (None, None))
    return ForeignAgent(
        name=name or as_text(session.get("agent")),
        agent_id=identity,
        parent_agent_id=parent.agent.agent_id,
        parent_execution_id=execution,
    )
