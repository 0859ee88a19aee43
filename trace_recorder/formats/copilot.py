"""Copilot CLI's sessions: lines of `{"type", "data", "id", "timestamp", "parentId"}`.

Each `assistant.message` is a call. Executions of tools have events of their own, with the times of their start and end.
A result is also a message that the next call sees. Messages with a `parentToolCallId` belong to the sub-agent that the
tool call with this id started, and so do all events with the `agentId` of that sub-agent. A `session.usage_record` has
the tokens, the duration and the time to the first token of the answer that follows it. Older versions state only the
output tokens of an answer. A session that was resumed has a `session.shutdown` for each of its parts, with the totals
of the part. The run's totals are their sums.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import arguments_of, as_dict, as_int, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    Call,
    ForeignAgent,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
    joined_id,
)
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import (
    counts_at,
    stated_call,
    stated_flag,
    stated_time,
    success_of,
)
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage, without_none
from trace_recorder.values.token_counts import WHOLE

_START = "session.start"
_USAGE = "session.usage_record"
_EVENTS = {_START, "session.resume", "user.message", "assistant.message", "tool.execution_complete"}
_TOTALS = ("modelMetrics", "tokenDetails", "totalPremiumRequests", "totalApiDurationMs", "codeChanges")
_EXTRA = ("reasoningOpaque", "encryptedContent", "interactionId", "turnId", "requestId", "apiCallId")


_EVENT = Signs(values={"type": _EVENTS}, objects=("data",))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = _CopilotReader(ForeignRun(identity=source.path.stem))
    for line in reader.lines(source):
        reader.read_event(line, as_text(line.get("type")) or "line", stated_time(line.get("timestamp")))
    yield reader.finish()


class _CopilotReader(SessionReader):
    """Reads one session. `history` is that of the main agent."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._sub_agents: dict[str, AgentHistory] = {}
        self._running: dict[str, ToolRun] = {}
        self._tool_calls: dict[str, tuple[Members, ForeignAgent]] = {}
        self._names: dict[str, str | None] = {}
        self._agents: dict[str, str] = {}
        """The id of the tool call that started each sub-agent, by the id of the sub-agent."""
        self._usages: dict[str | None, Members] = {}
        """The usage records whose answers have not come yet, by the ids of the calls at the provider."""
        self._thought: str | None = None
        self._totals: dict[str, Payload] = {}
        self._places: dict[str, int] = {}
        """The positions of the totals among the events of the run."""

    def read_event(self, line: Members, kind: str, time: str) -> None:
        data = as_dict(line.get("data"))
        if kind == "subagent.started":
            call_id = as_text(data.get("toolCallId")) or ""
            self._names[call_id] = as_text(data.get("agentName"))
            if (identity := as_text(line.get("agentId"))) is not None:
                self._agents[identity] = call_id
        agent = self._agents.get(as_text(line.get("agentId")) or "")
        history = self._history(as_text(data.get("parentToolCallId")) or agent, time)
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
            self.keep(kind, line, time)

    def finish(self) -> ForeignRun:
        """Return the run, with the messages that no call of an agent saw."""
        super().finish()
        for history in self._sub_agents.values():
            history.finish()
        return self.run

    def _history(self, call_id: str | None, time: str) -> AgentHistory:
        """Return the history of the main agent, or of the sub-agent that the tool call with this id started."""
        if call_id is None:
            return self.history
        if call_id in self._sub_agents:
            return self._sub_agents[call_id]
        tool_call, parent = self._tool_calls.get(call_id, ({}, MAIN))
        execution_id: str | None = None
        if tool_call or call_id in self._running:
            execution_id = _execution_id(call_id)
        agent = ForeignAgent(
            name=self._names.get(call_id),
            agent_id=call_id,
            parent_agent_id=parent.agent_id,
            parent_execution_id=execution_id,
        )
        history = self._sub_agents[call_id] = AgentHistory(self.run.events, agent)
        prompt = as_text(as_dict(tool_call.get("arguments")).get("prompt"))
        if prompt and not self._agents:  # newer versions, which state the ids of agents, have the prompt as an event
            history.add(Message("user", prompt), time)
        return history

    def _read_message(self, history: AgentHistory, data: Members, role: str, time: str) -> None:
        content = as_text(data.get("transformedContent")) or as_text(data.get("content"))
        attachments = data.get("attachments") or None
        history.add(Message(role, content, extra=without_none(attachments=attachments)), time)
        if role == "user" and history is self.history:
            self.run.status = "unknown"
            self.note_task(as_text(data.get("content")))

    def _read_answer(self, history: AgentHistory, data: Members, time: str) -> None:
        calls = tuple(
            stated_call(request.get("toolCallId"), request.get("name"), arguments_of(request.get("arguments")))
            for request in map(as_dict, as_list(data.get("toolRequests")))
        )
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
        call = history.call(time, response)
        if (usage := self._usages.pop(as_text(data.get("apiCallId")), None)) is not None:
            _add_usage(call, usage)
        self.note_model(response.model)
        for tool_call in calls:
            members: Members = {"name": tool_call.name, "arguments": tool_call.arguments}
            self._tool_calls[tool_call.call_id] = members, history.agent

    def _read_result(self, history: AgentHistory, data: Members, time: str) -> None:
        call_id = as_text(data.get("toolCallId")) or ""
        result, error = as_dict(data.get("result")), as_dict(data.get("error"))
        success = stated_flag(data.get("success"))
        text = content = as_text(result.get("content"))
        if content is None:
            text = as_text(error.get("message"))
        execution = self._running.pop(call_id, None)
        extra = without_none(is_error=success_of(success))
        message = Message("tool", text, call_id=call_id or None, extra=extra)
        history.add(message, time, has_event=execution is not None)
        if execution is not None:
            execution.ended = time
            execution.success = success
            if success is False:
                execution.error = text or ""
            else:
                execution.result = content
        if telemetry := data.get("toolTelemetry"):
            self.keep("toolTelemetry", {"call_id": call_id, "toolTelemetry": telemetry}, time)

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
        elif kind == _USAGE:
            usage = as_dict(data.get("usage"))
            self._usages[as_text(usage.get("apiCallId"))] = usage
        elif kind == "assistant.reasoning":
            self._thought = as_text(data.get("content"))
        elif kind == "session.error":
            status = as_number(data.get("statusCode"))
            error = {"type": as_text(data.get("errorType")) or "error", "message": as_text(data.get("message")) or ""}
            self.history.failed_call(time, error | without_none(status=status))
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
        self.note_identity(data.get("sessionId"))
        self.note_model(as_text(data.get("selectedModel")) or as_text(data.get("newModel")))
        context = as_dict(data.get("context"))
        version, cwd, branch = data.get("copilotVersion"), context.get("cwd"), context.get("branch")
        self.run.source |= without_none(version=version, cwd=cwd, branch=branch)


def _add_usage(call: Call, record: Members) -> None:
    """Give a call the tokens, the durations and the finish reason of its usage record."""
    call.duration_seconds = _seconds(record.get("duration"))
    call.time_to_first_token_seconds = _seconds(record.get("timeToFirstTokenMs"))
    call.set_usage(counts_at(record, _COUNTS))
    if call.response is not None and (reason := as_text(record.get("finishReason"))):
        call.response["finish_reason"] = reason


def _seconds(milliseconds: Payload) -> float | None:
    number = as_number(milliseconds)
    return None if number is None else number / 1000


_COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadTokens",
    "cache_creation_input_tokens": "cacheWriteTokens",
    "reasoning_tokens": "reasoningTokens",
}


def _sum(total: Payload, more: Payload) -> Payload:
    """Return the sum of two totals: numbers are added, lists joined, and objects summed member by member."""
    if isinstance(total, dict) and isinstance(more, dict):
        return total | {name: _sum(total.get(name), value) for name, value in more.items()}
    if isinstance(total, list) and isinstance(more, list):
        return [*total, *(element for element in more if element not in total)]
    earlier, later = as_number(total), as_number(more)
    if earlier is None or later is None:
        return more
    return earlier + later


def _execution_id(call_id: str) -> str:
    return joined_id("execution-of", call_id)


FORMAT = Format(
    name="copilot",
    reader=FormatReader(recognizes=_EVENT.in_any_line, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="Copilot CLI",
            directory=".copilot",
            files=(
                "session-state/*/events.jsonl",
                "session-state/*.jsonl",
            ),
            variable="COPILOT_HOME",
            session="session-state/{session}/events.jsonl",
        ),
    ),
)
