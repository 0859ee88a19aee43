"""Makes messages, calls, failures and compactions from the lines of a session.

Newer versions keep the exact requests (`requests.py`). Otherwise the conversation has the messages of
the session's file, without the system prompt and the reminders that the program adds to a request. A
`compact_boundary`, or the summary of a compaction, begins a new conversation, and so does `/clear`. A prompt that was
typed while the model was busy (`queued_command`) is a message.

The program marks its own texts with tags, and states an interruption as a message of the user. Lines that are not
messages are kept unchanged in the journal, and so is the value that a tool returned to the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_recorder.dialects import anthropic_messages
from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.claude_code.lines import FORKED_FROM, SessionEntry, entries
from trace_recorder.formats.claude_code.requests import BLOB, REQUEST, SHAPE, SessionRequests
from trace_recorder.formats.claude_code.threads import SubAgentFile, Threads, saved_results, sub_agents
from trace_recorder.formats.foreign_runs.agent_history import (
    AgentHistory,
    given_by_another_session,
    in_time_order,
    last_answer,
)
from trace_recorder.formats.foreign_runs.run import Call, Event, ForeignRun, Members, TimedFact, ToolRun, joined_id
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_members, stated_seconds, stated_time
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.structs import replace

_OWN_TEXT = re.compile(
    r"\s*(?:Caveat: |<(?:local-command-\w+|command-(?:name|message|args|contents)|system-reminder|task-notification|"
    r"bash-(?:input|stdout|stderr)|user-memory-input)>)"
)
_CLEAR = "<command-name>/clear</command-name>"
_INTERRUPTED = "[Request interrupted by user"


def typed_text(content: Payload) -> str:
    """Return the text of a message, or "" if the program wrote the text.

    The program's texts for `/clear` and for interruptions are returned, too.
    """
    texts = [as_text(content)]
    if isinstance(content, list):
        texts = [as_text(part.get("text")) for part in map(as_dict, content) if part.get("type") == "text"]
    text = "\n".join(text for text in texts if text)
    if _OWN_TEXT.match(text) and not is_clear(text):
        return ""
    return text


def is_clear(text: str) -> bool:
    """Return whether a message is the command that begins a new conversation."""
    return text.lstrip().startswith(_CLEAR)


def is_interruption(text: str) -> bool:
    """Return whether a message says that the user interrupted the model."""
    return text.startswith(_INTERRUPTED)


_SYNTHETIC = "<synthetic>"
"""The `model` of messages that the program itself wrote."""
_MARKS = ("isMeta", "isCompactSummary", "origin", "promptSource")
"""Members of a user's line that say who wrote the text."""
_SOURCE_MEMBERS = ("version", "cwd", "gitBranch", "slug", "entrypoint")
"""The members of a line that state the program's version, its directory and the branch."""
_RESULT = ("total_cost_usd", "usage", "modelUsage", "num_turns", "duration_ms", "duration_api_ms")
"""The members of the SDK's last message that are about the run as a whole."""


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file, with its sub-agents' files."""
    run = ForeignRun(identity=source.path.stem, provider="anthropic")
    reader = _ClaudeReader(run, source)
    files = sub_agents(source)
    lines, lines_of_agents = entries(source), [_entries_of(file) for file in files]
    for file_entries in (lines, *lines_of_agents):
        reader.note_requests(file_entries)
    for file_entries in (lines, *lines_of_agents):
        reader.note_messages(file_entries)
    reader.read_lines(lines, run.events)
    sub_agent_events: list[list[Event]] = [[] for _ in files]
    for file, entries_of_agent, events in zip(files, lines_of_agents, sub_agent_events, strict=True):
        reader.read_lines(entries_of_agent, events, file)
    reader.threads.finish()
    lists = [run.events, *sub_agent_events]
    started = reader.threads.executions(event for events in lists for event in events)
    untimed = {execution.call_id: execution for execution in started if not execution.time}
    event_lists = [[*_with_executions(events, untimed)] for events in lists]
    timed: list[Event] = [execution for execution in started if execution.time]
    run.events = in_time_order(event_lists[0], timed, *event_lists[1:])
    run.executions = reader.executions()
    yield run


def _with_executions(events: list[Event], untimed: dict[str | None, ToolRun]) -> Iterator[Event]:
    """Yield the events. After each call, yield the executions without a time that the call's answer asked for."""
    for event in events:
        yield event
        if untimed and isinstance(event, Call):
            ids = [as_text(as_dict(call).get("call_id")) for call in as_list(as_dict(event.response).get("tool_calls"))]
            yield from (untimed.pop(call_id) for call_id in ids if call_id in untimed)


def _entries_of(file: SubAgentFile) -> list[SessionEntry]:
    if file.leads_out:
        return [SessionEntry(0, {}, "it is a link that leads out of the directory of its session")]
    try:
        return entries(file.source)
    except (OSError, TrajectoryFormatError) as error:
        return [SessionEntry(0, {}, str(error))]


class _ClaudeReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun, source: Source) -> None:
        super().__init__(run)
        self.threads = Threads(self.history)
        self._source = source
        self._result_bytes_left = source.max_run_bytes
        self._requests = SessionRequests()
        self._answered: set[str] = set()
        self._waiting: dict[int, Call] = {}
        self._session: str | None = None
        self._tools: tuple[Payload, ...] = ()
        self._returned: dict[str | None, Payload] = {}
        """The values that tools returned to the program, by the ids of their calls."""
        self._call_times: dict[str | None, str] = {}
        """The time of an answer's last line, by the ids of the answer's tool calls."""

    def note_requests(self, lines: list[SessionEntry]) -> None:
        """Remember the requests in the lines of a file, and which of them have an answer."""
        for entry in lines:
            self._requests.note(entry.line)
            if (identity := as_text(entry.line.get("requestRef"))) is not None:
                self._answered.add(identity)

    def note_messages(self, lines: list[SessionEntry]) -> None:
        """Find the messages of the requests of a file among its lines."""
        self._requests.note_messages(lines)

    def read_lines(self, lines: list[SessionEntry], events: list[Event], file: SubAgentFile | None = None) -> None:
        """Read the lines of the session's file, or of the `file` of a sub-agent."""
        if file is not None:
            self.threads.add_meta(file.agent_id, file.meta)
        for entry in lines:
            time = stated_time(entry.line.get("timestamp"))
            if entry.why is not None:
                name = f"line {entry.number}"
                if file is not None and entry.number == 0:
                    name = f"to read {file.source.path.name}"
                events.append(TimedFact.gap(what=name, why=entry.why, time=time))
                continue
            if file is not None:
                entry.line.setdefault("agentId", file.agent_id)
                entry.line.setdefault("attributionAgent", as_text(file.meta.get("agentType")))
                entry.line["isSidechain"] = True
            if entry.is_copy:
                self._read_copy(entry, events, time)
            else:
                self._read_line(entry, events, time)

    def executions(self) -> list[ToolRun]:
        """Return the executions that have a result in the session.

        If a tool returned a value to the program, the value is the result.
        """
        executions = self.threads.answered_executions()
        for execution in executions:
            execution.time = self._call_times.get(execution.call_id, execution.time)
            execution.result = self._returned.get(execution.call_id, execution.result)
        return executions

    def _read_copy(self, entry: SessionEntry, events: list[Event], time: str) -> None:
        """Read a line of another session, from which this session was forked."""
        with given_by_another_session(self.run, events):
            self._read_line(entry, events, time)
        self._waiting.clear()
        origin = as_text(as_dict(entry.line.get(FORKED_FROM)).get("sessionId"))
        self.run.parent = origin
        self.run.source |= without_none(forked_from=origin)

    def _read_line(self, entry: SessionEntry, events: list[Event], time: str) -> None:
        if not entry.is_copy:
            self._identify(entry.line)
        history = self.threads.history_of(entry, events)
        if not entry.is_message:
            self._read_other(entry, history, events, time)
        elif entry.kind == "assistant":
            self._read_answer(entry, history, events, time)
        else:
            self._read_user(entry, history, events, time)
        self.threads.note_position(history, entry)

    def _identify(self, line: Members) -> None:
        """Set the session's id, and the program's newest version and directory, from a line."""
        session = as_text(line.get("sessionId")) or as_text(line.get("session_id"))
        if self._session is None and session is not None and session != "default":
            self._session = self.run.identity = self.run.session = session
            if line.get("isSidechain") is True and (agent := as_text(line.get("agentId"))):
                self.run.identity = joined_id(session, "agent", agent)
        self.run.source |= stated_members(line, _SOURCE_MEMBERS)

    def _read_user(self, entry: SessionEntry, history: AgentHistory, events: list[Event], time: str) -> None:
        element, marks = entry.message, stated_members(entry.line, _MARKS)
        if queued := as_dict(entry.line.get("attachment")):
            element, marks = {"content": queued.get("prompt")}, {**marks, "attachment": "queued_command"}
        messages = anthropic_messages.read_message({**element, "role": "user"})
        text = typed_text(element.get("content"))
        if any(message.role != "tool" for message in messages):
            self.threads.go_to(history, entry)
        if is_clear(text) or (entry.line.get("isCompactSummary") is True and len(history.conversation)):
            history.restart()
        for message in messages:
            self._add_message(history, replace(message, extra=message.extra | marks), events, time)
        self.threads.add_results(entry, time)
        if history is self.threads.main or not len(self.threads.main.conversation):
            self.run.start_time = self.run.start_time or time
            self._note_prompt(text, entry.line)
        if (value := entry.line.get("toolUseResult", entry.line.get("tool_use_result"))) is not None:
            ids = [message.call_id for message in messages if message.role == "tool"]
            if len(ids) == 1:
                self._returned[ids[0]] = value
            events.append(TimedFact.unread(what="toolUseResult", value={"call_ids": ids, "value": value}, time=time))

    def _add_message(self, history: AgentHistory, message: Message, events: list[Event], time: str) -> None:
        """Add a message of the user.

        If a tool's result was too large for the session, read it from the result's own file.
        """
        name = text = None
        if message.role == "tool":
            name, text = next(saved_results(self._source, message.content), (None, None))
        self._result_bytes_left -= len(text or "")
        if self._result_bytes_left < 0:
            text = None
        history.add(message, time, has_event=text is not None)
        if name is None:
            return
        execution = history.execution_of(message.call_id or "")
        if text is None or execution is None:
            what = f"the whole result in tool-results/{name}"
            events.append(TimedFact.gap(what=what, why="it cannot be read", time=time))
        else:
            execution.result = text
            events.append(execution)

    def _note_prompt(self, text: str, line: Members) -> None:
        """Set the task from the first prompt.

        The status is "interrupted" if this message is an interruption, and otherwise "unknown".
        """
        if is_interruption(text):
            self.run.status = "interrupted"
            return
        self.run.status = "unknown"
        if self.run.task is None and text and not line.get("isMeta") and not line.get("isCompactSummary"):
            self.run.task = text

    def _read_answer(self, entry: SessionEntry, history: AgentHistory, events: list[Event], time: str) -> None:
        message, line = entry.message, entry.line
        self.threads.go_to(history, entry)
        if line.get("isApiErrorMessage") is True:
            text = typed_text(message.get("content"))
            self._fail(history, {"type": as_text(line.get("error")) or "api_error", "message": text}, time)
            events.append(TimedFact.unread(what="assistant", value=line, time=time))
            return
        answer = last_answer(anthropic_messages.read_message({**message, "role": "assistant"}))
        answer = replace(answer, extra={name: answer.extra[name] for name in ("content",) if name in answer.extra})
        if message.get("model") == _SYNTHETIC:
            history.add(answer, time)
        else:
            self._add_call(entry, history, answer, events, time)

    def _add_call(
        self, entry: SessionEntry, history: AgentHistory, answer: Message, events: list[Event], time: str
    ) -> None:
        message, line = entry.message, entry.line
        self.run.status = "unknown"
        response = anthropic_messages.read_response({"role": "assistant", **message}, history.made_up_ids)
        call = history.call(time, response, answer)
        self._waiting.pop(id(history), None)
        call.provider, call.tools = "anthropic", self._tools
        call.parameters = without_none(effort=as_text(line.get("effort")))
        call.model = as_text(line.get("requestedModel")) or call.model
        if (requested := as_text(line.get("requestRef"))) is not None:
            self._add_details(call, requested, events)
            call.duration_seconds = stated_seconds(call.time, stated_time(entry.last.get("timestamp")))
        if line.get("isAbortedMidStream") is True:
            call.complete, call.ended_by = False, "the stream was aborted"
        if (identity := as_text(line.get("requestId"))) and call.response is not None:
            call.response["extra"] = {**as_dict(call.response.get("extra")), "request_id": identity}
        self.note_model(call.model)
        if entry.is_copy:
            return
        for tool_call in response.tool_calls:
            self.threads.add_task(tool_call, time, history.agent)
            self._call_times[tool_call.call_id] = stated_time(entry.last.get("timestamp")) or time

    def _read_other(self, entry: SessionEntry, history: AgentHistory, events: list[Event], time: str) -> None:
        line = entry.line
        subtype = as_text(line.get("subtype"))
        if entry.kind in {SHAPE, BLOB}:
            return
        if entry.kind == REQUEST:
            self._read_request(as_text(line.get("id")) or "", history, events, time)
        elif entry.kind == "system" and subtype == "compact_boundary":
            history.restart()
        elif entry.kind == "system" and subtype == "api_error":
            self._fail(history, _api_error(line), time)
        elif entry.kind == "system" and subtype == "init":
            self._tools = tuple(tool for tool in as_list(line.get("tools")) if isinstance(tool, str))
            self.note_model(as_text(line.get("model")))
            self.run.source |= without_none(version=as_text(line.get("claude_code_version")))
        elif entry.kind == "result" and "is_error" in line:
            self._read_result(line, events, time)
        elif entry.kind == "progress":
            self.threads.note_progress(entry)
        events.append(
            TimedFact.unread(what=" ".join(filter(None, (entry.kind or "line", subtype))), value=line, time=time)
        )

    def _read_request(self, identity: str, history: AgentHistory, events: list[Event], time: str) -> None:
        """Add a request without an answer: the request failed, or the session ended before the answer."""
        if identity in self._answered:
            return
        if identity:
            self._answered.add(identity)  # the same line may be written twice
        call = history.failed_call(time, None)
        call.provider = "anthropic"
        self._waiting[id(history)] = call
        self._add_details(call, identity, events)

    def _add_details(self, call: Call, identity: str, events: list[Event]) -> None:
        why = self._requests.add_details(call, identity)
        if why is not None:
            events.append(TimedFact.gap(what=f"the exact messages of request {identity}", why=why, time=call.time))

    def _fail(self, history: AgentHistory, error: Members, time: str) -> None:
        """Set the error of the call that waits for its answer.

        If no call waits, add a failed call, because its request is not in the file.
        """
        call = self._waiting.pop(id(history), None) or history.failed_call(time, error)
        call.provider, call.error = "anthropic", error

    def _read_result(self, line: Members, events: list[Event], time: str) -> None:
        """Read how the run ended, and its cost, from the SDK's last message."""
        self.run.status = "completed"
        self.run.final_result = line.get("result")
        if line.get("is_error") is True:
            self.run.status = "failed"
            text = as_text(line.get("result")) or as_text(line.get("subtype")) or ""
            self.run.error = {"type": as_text(line.get("subtype")) or "error", "message": text}
        events += [TimedFact.annotation(key=name, value=line[name], time=time) for name in _RESULT if name in line]


def _api_error(line: Members) -> Members:
    error = as_dict(line.get("error"))
    text = as_text(error.get("message")) or as_text(error.get("formatted")) or ""
    status = as_number(error.get("status"))
    return {"type": as_text(error.get("type")) or "api_error", "message": text} | without_none(status=status)
