"""Copilot CLI's sessions: lines of `{"type", "data", "id", "timestamp", "parentId"}`.

Each `assistant.message` is a call. Executions of tools have events of their own, with the times of their start and end.
A result is also a message that the next call sees. Messages with a `parentToolCallId` belong to the sub-agent that the
tool call with this id started. A call states only its output tokens. A session that was resumed has a
`session.shutdown` for each of its parts, with the totals of the part. The run's totals are their sums.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import arguments_of, as_dict, as_int, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    ForeignAgent,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
    joined_id,
)
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, Usage, without_none
from trace_recorder.values.token_counts import WHOLE

_START = "session.start"
_EVENTS = {_START, "session.resume", "user.message", "assistant.message", "tool.execution_complete"}
_TOTALS = ("modelMetrics", "tokenDetails", "totalPremiumRequests", "totalApiDurationMs", "codeChanges")
_EXTRA = ("reasoningOpaque", "encryptedContent", "interactionId", "turnId", "requestId", "apiCallId")


def recognizes(source: Source) -> bool:
    """Return whether one of the first lines is an event of Copilot CLI."""
    lines = [as_dict(line.value) for line in source.first_lines]
    return any(as_text(line.get("type")) in _EVENTS and isinstance(line.get("data"), dict) for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.stem)
    reader = _CopilotSessionReader(run)
    for line in session_lines(source.lines(), run.events.append):
        reader.read_event(line, as_text(line.get("type")) or "line", stated_time(line.get("timestamp")))
    reader.finish()
    yield run


class _CopilotSessionReader:
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self._main = AgentHistory(run.events)
        self._sub_agents: dict[str, AgentHistory] = {}
        self._running: dict[str, ToolRun] = {}
        self._tool_calls: dict[str, tuple[Members, ForeignAgent]] = {}
        self._names: dict[str, str | None] = {}
        self._thought: str | None = None
        self._totals: dict[str, Payload] = {}
        self._places: dict[str, int] = {}
        """The positions of the totals among the events of the run."""

    def read_event(self, line: Members, kind: str, time: str) -> None:
        data = as_dict(line.get("data"))
        history = self._history(as_text(data.get("parentToolCallId")), time)
        if kind == "assistant.message":
            self._read_answer(history, data, time)
        elif kind in {"user.message", "system.message"}:
            self._read_message(history, data, kind.partition(".")[0], time)
        elif kind == "tool.execution_start":
            self._start(history, data, time)
        elif kind == "tool.execution_complete":
            self._read_result(history, data, time)
        else:
            self._read_other(data, kind, time)
            self.run.events.append(TimedFact.unread(what=kind, value=line, time=time))

    def finish(self) -> None:
        """Append to the events the messages that no call saw."""
        for history in (self._main, *self._sub_agents.values()):
            history.finish()

    def _history(self, call_id: str | None, time: str) -> AgentHistory:
        """Return the history of the main agent, or of the sub-agent that the tool call with this id started."""
        if call_id is None:
            return self._main
        if call_id not in self._sub_agents:
            tool_call, parent = self._tool_calls.get(call_id, ({}, MAIN))
            agent = ForeignAgent(
                name=self._names.get(call_id),
                agent_id=call_id,
                parent_agent_id=parent.agent_id,
                parent_execution_id=_execution_id(call_id) if tool_call or call_id in self._running else None,
            )
            self._sub_agents[call_id] = AgentHistory(self.run.events, agent)
            if prompt := as_text(as_dict(tool_call.get("arguments")).get("prompt")):
                self._sub_agents[call_id].add(Message("user", prompt), time)
        return self._sub_agents[call_id]

    def _read_message(self, history: AgentHistory, data: Members, role: str, time: str) -> None:
        content = as_text(data.get("transformedContent")) or as_text(data.get("content"))
        attachments = data.get("attachments") or None
        history.add(Message(role, content, extra=without_none(attachments=attachments)), time)
        if role == "user":
            self.run.status = "unknown"
            self.run.task = self.run.task or as_text(data.get("content")) or None

    def _read_answer(self, history: AgentHistory, data: Members, time: str) -> None:
        calls = tuple(_tool_call(as_dict(request)) for request in as_list(data.get("toolRequests")))
        thought, self._thought = as_text(data.get("reasoningText")) or self._thought, None
        response = LLMResponse(
            as_text(data.get("content")),
            reasoning=thought,
            tool_calls=calls,
            usage=Usage(output_tokens=as_int(data.get("outputTokens"))),
            model=as_text(data.get("model")),
            id=as_text(data.get("messageId")),
            extra=without_none(**{name: data.get(name) for name in _EXTRA}),
        )
        history.call(time, response)
        self.run.model = self.run.model or response.model
        for call in calls:
            self._tool_calls[call.call_id] = {"name": call.name, "arguments": call.arguments}, history.agent

    def _read_result(self, history: AgentHistory, data: Members, time: str) -> None:
        call_id = as_text(data.get("toolCallId")) or ""
        result, error = as_dict(data.get("result")), as_dict(data.get("error"))
        success = data.get("success")
        content = as_text(result.get("content"))
        text = content if content is not None else as_text(error.get("message"))
        failed = {"is_error": not success} if isinstance(success, bool) else {}
        execution = self._running.pop(call_id, None)
        message = Message("tool", text, call_id=call_id or None, extra=failed)
        history.add(message, time, has_event=execution is not None)
        if execution is not None:
            execution.ended = time
            execution.success = success if isinstance(success, bool) else None
            execution.result = content if success is not False else None
            execution.error = (text or "") if success is False else None
        if telemetry := data.get("toolTelemetry"):
            value = {"call_id": call_id, "toolTelemetry": telemetry}
            self.run.events.append(TimedFact.unread(what="toolTelemetry", value=value, time=time))

    def _start(self, history: AgentHistory, data: Members, time: str) -> None:
        """Add an execution. A later event has the result."""
        call_id = as_text(data.get("toolCallId")) or ""
        self._running[call_id] = ToolRun(
            time=time,
            name=as_text(data.get("toolName")) or "",
            arguments=data.get("arguments"),
            call_id=call_id or None,
            execution_id=_execution_id(call_id),
            agent=history.agent,
        )
        self.run.events.append(self._running[call_id])

    def _read_other(self, data: Members, kind: str, time: str) -> None:
        if kind in {_START, "session.resume", "session.model_change"}:
            self._identify(data)
        elif kind == "assistant.reasoning":
            self._thought = as_text(data.get("content"))
        elif kind == "subagent.started":
            self._names[as_text(data.get("toolCallId")) or ""] = as_text(data.get("agentName"))
        elif kind == "session.error":
            status = as_number(data.get("statusCode"))
            error = {"type": as_text(data.get("errorType")) or "error", "message": as_text(data.get("message")) or ""}
            self._main.failed_call(time, error | without_none(status=status))
        elif kind == "abort":
            self.run.status = "interrupted"
        elif kind == "session.shutdown":
            self._add_totals(data, time)

    def _add_totals(self, data: Members, time: str) -> None:
        for name in _TOTALS:
            if name not in data:
                continue
            total = _sum(self._totals.get(name), data[name])
            event = TimedFact.annotation(key=name, value=total, time=time)
            if name in self._totals:
                self.run.events[self._places[name]] = event
            else:
                self._places[name] = len(self.run.events)
                self.run.events.append(event)
            self._totals[name] = total

    def _identify(self, data: Members) -> None:
        self.run.identity = as_text(data.get("sessionId")) or self.run.identity
        model = as_text(data.get("selectedModel")) or as_text(data.get("newModel"))
        self.run.model = self.run.model or model
        context = as_dict(data.get("context"))
        version, cwd, branch = data.get("copilotVersion"), context.get("cwd"), context.get("branch")
        self.run.source |= without_none(version=version, cwd=cwd, branch=branch)


def _sum(total: Payload, more: Payload) -> Payload:
    """Return the sum of two totals: numbers are added, lists joined, and objects summed member by member."""
    if isinstance(total, dict) and isinstance(more, dict):
        return total | {name: _sum(total.get(name), value) for name, value in more.items()}
    if isinstance(total, list) and isinstance(more, list):
        return [*total, *(element for element in more if element not in total)]
    earlier, later = as_number(total), as_number(more)
    return more if earlier is None or later is None else earlier + later


def _execution_id(call_id: str) -> str:
    return joined_id("execution-of", call_id)


def _tool_call(request: Members) -> ToolCall:
    call_id, name = as_text(request.get("toolCallId")), as_text(request.get("name"))
    return ToolCall(call_id or "", name or "", arguments_of(request.get("arguments")))


FORMAT = Format(name="copilot", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
