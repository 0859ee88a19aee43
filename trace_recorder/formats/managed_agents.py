"""Sessions of Anthropic's managed agents: the events of `client.beta.sessions`, one in each line.

Source: https://platform.claude.com/docs/en/managed-agents/reference. A line is an event, or a list with a method of the
client and the method's result, as LangSmith's SDK logs calls. The result of `sessions.create` has the agent. Events
from `span.model_request_start` to `span.model_request_end` are a call, with its tokens. The stream repeats the events
that `events.send` sent, so these events are read only from the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.clocks import parse_time
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import add_answer, add_message, first_text
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.token_counts import CACHE_APART

_METHODS = "client.beta.sessions."
_CREATED = f"{_METHODS}create"
_SENT = f"{_METHODS}events.send"
_STARTED, _ENDED = "span.model_request_start", "span.model_request_end"
_TOOLS = {"agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"}
_RESULTS = {
    "agent.tool_result": "tool_use_id",
    "agent.mcp_tool_result": "mcp_tool_use_id",
    "user.custom_tool_result": "custom_tool_use_id",
}
"""The types of events with results of tools, each with the member that names the tool call."""
_OF_A_STREAM = {"user.message", "agent.message", _STARTED, _ENDED, *_TOOLS, *_RESULTS}
_COMPACTED = "agent.thread_context_compacted"
_FAILED: Members = {"type": "model_request", "message": "the session states that the request failed"}


def recognizes(source: Source) -> bool:
    """Return whether one of the first lines is an event of a session of managed agents."""
    return any(_is_event(line.value) for line in source.first_lines)


def _is_event(value: Payload) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and isinstance(value[0], str) and value[0].startswith(_METHODS)
    members = as_dict(value)
    return members.get("type") in _OF_A_STREAM and "processed_at" in members


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = _ManagedReader(ForeignRun(identity=source.path.stem, provider="anthropic"))
    for line in source.lines():
        reader.read_line(line)
    yield reader.finish()


@dataclass(slots=True)
class _OpenRequest:
    """A request whose events are still being read. `began` is "" if the start of the request is not in the file."""

    began: str
    time: str
    blocks: list[Payload] = field(default_factory=list)


class _ManagedReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._request: _OpenRequest | None = None
        self._tools: list[Payload] = []
        self._is_interrupted = False

    def read_line(self, line: Line) -> None:
        """Read one line: an event, or a method of the client with its result."""
        method, event = None, line.value
        if isinstance(event, list) and _is_event(event):
            method, event = event
        if method == _CREATED and isinstance(event, dict):
            self._create(event)
        elif method == _SENT and line.why is None:
            self.keep("sent events", event)
        elif line.why is None and isinstance(event, dict):
            kind = as_text(event.get("type")) or "line"
            self._read_event(event, kind, stated_time(event.get("processed_at")))
        else:
            self.add_gap(f"line {line.number}", line.why or "it is not an event")

    def _create(self, session: Members) -> None:
        agent, time = as_dict(session.get("agent")), stated_time(session.get("created_at"))
        self.note_identity(session.get("id"))
        self.run.start_time = time
        self.run.model = as_text(as_dict(agent.get("model")).get("id")) or as_text(agent.get("model"))
        self.run.source |= without_none(agent=as_text(agent.get("name")), environment=session.get("environment_id"))
        self.run.metadata |= without_none(title=session.get("title"), metadata=session.get("metadata") or None)
        self._tools = as_list(agent.get("tools"))
        prompt = as_text(agent.get("system"))
        if prompt:
            self.history.add(Message("system", prompt), time)
        self.keep("session", session, time)

    def _read_event(self, event: Members, kind: str, time: str) -> None:
        if kind == _STARTED:
            self._close(time)
            self._request = _OpenRequest(time, time)
        elif kind in {"agent.message", "agent.thinking"} or kind in _TOOLS:
            self._add_part(event, kind, time)
        elif kind == _ENDED:
            self._end(event, time)
        elif kind == "user.message":
            self._close(time)
            self._is_interrupted = False
            self.add_prompt(event.get("content"), time)
        elif kind in _RESULTS:
            self._close(time)
            call_id = as_text(event.get(_RESULTS[kind]))
            result = {"type": "tool_result", "tool_use_id": call_id, "content": event.get("content")}
            add_message(self.history, [result | without_none(is_error=event.get("is_error"))], time)
        else:
            self._read_other(event, kind, time)
        if kind not in _OF_A_STREAM:
            self.keep(kind, event, time)

    def _add_part(self, event: Members, kind: str, time: str) -> None:
        """Add a part of the answer to the open request.

        If no request is open, open one, because the file begins inside a request.
        """
        if self._request is None:
            self._request = _OpenRequest("", time)
        if kind == "agent.message":
            content = event.get("content")
            if not isinstance(content, list):
                content = [{"type": "text", "text": content}]
            self._request.blocks += content
        elif kind in _TOOLS:
            call = {"type": "tool_use", "id": event.get("id"), "name": event.get("name"), "input": event.get("input")}
            more = {name: event.get(name) for name in ("mcp_server_name", "evaluated_permission")}
            self._request.blocks.append(call | without_none(**more))
        elif first_text(event.get("content")):
            self._request.blocks.append({"type": "thinking", "thinking": first_text(event.get("content"))})

    def _end(self, event: Members, time: str) -> None:
        """Add the call of the open request, with its tokens and its duration."""
        request = self._request or _OpenRequest("", time)
        self._request = request
        failed = event.get("is_error") is True
        call = self._close(time, usage=as_dict(event.get("model_usage")), failed=failed)
        start, end = parse_time(request.began), parse_time(time)
        if call is not None and start is not None and end is not None and end >= start:
            call.duration_seconds = (end - start).total_seconds()

    def _close(self, time: str, *, usage: Members | None = None, failed: bool = False) -> Call | None:
        """Add the call of the open request, if there is one.

        The call is incomplete if its request failed or has no end.
        """
        request, self._request = self._request, None
        if request is None:
            return None
        if failed and not request.blocks:
            call = self.history.failed_call(request.time, dict(_FAILED))
        else:
            message = {"type": "message", "content": request.blocks, "model": self.run.model}
            call = add_answer(self.history, message | without_none(usage=usage or None), request.time or time)
            call.complete = usage is not None and not failed
        call.provider, call.model, call.tools = "anthropic", self.run.model, self._tools
        return call

    def _read_other(self, event: Members, kind: str, time: str) -> None:
        stop = as_text(as_dict(event.get("stop_reason")).get("type"))
        if kind == "user.interrupt":
            self._is_interrupted = True
        elif kind == "session.error":
            error = as_dict(event.get("error"))
            error_type, text = as_text(error.get("type")), as_text(error.get("message"))
            self.run.error = {"type": error_type or "error", "message": text or ""}
        elif kind == "session.status_running":
            self.run.status = "unknown"
        elif kind == "session.status_idle" and stop == "end_turn":
            self.run.status = "interrupted" if self._is_interrupted else "completed"
        elif kind == "session.status_terminated" or (kind == "session.status_idle" and stop == "retries_exhausted"):
            self.run.status = "failed"
        elif kind == _COMPACTED:
            self._close(time)
            self.history.restart()

    def finish(self) -> ForeignRun:
        """Return the run, with the messages that no call saw.

        An error after which the session continued is not an error of the run.
        """
        self._close("")
        if self.run.status != "failed":
            self.run.error = None
        return super().finish()


FORMAT = Format(name="managed-agents", reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART))
