"""Lines that `gemini -o stream-json` prints: `init`, `message`, `tool_use`, `tool_result`, `error` and `result`.

Source: Gemini CLI 0.61.0. The texts of an answer come in pieces (`delta`), without thoughts. A text or a tool call
after a result begins the next answer. Tokens are stated for the run only.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, AnswerParts
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Message, ToolCall
from trace_recorder.values.token_counts import WHOLE

_PARTS = {"message", "tool_use", "tool_result"}


def recognizes(source: Source) -> bool:
    """Return whether the first line begins a stream of Gemini CLI, or a line is a tool call of such a stream."""
    lines = [as_dict(line.value) for line in source.first_lines]
    begins = bool(lines) and lines[0].get("type") == "init" and {"session_id", "model"} <= lines[0].keys()
    return begins or any(line.get("type") == "tool_use" and {"tool_id", "tool_name"} <= line.keys() for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a stream."""
    run = ForeignRun(identity=source.path.name.partition(".")[0], provider="google")
    reader = _GeminiStreamReader(run)
    for line in session_lines(source.lines(), run.events.append):
        reader.read_line(line, stated_time(line.get("timestamp")))
    reader.finish()
    yield run


class _GeminiStreamReader:
    """Reads one stream."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self._answer = AnswerParts(AgentHistory(run.events))

    def read_line(self, line: Members, time: str) -> None:
        kind = as_text(line.get("type"))
        is_prompt = kind == "message" and line.get("role") != "assistant"
        if kind not in _PARTS:
            self._read_other(kind or "line", line, time)
        elif kind == "tool_result":
            self._answer.add_result(_result(line), time)
        else:
            if is_prompt or self._answer.has_results:
                self._close()
            if is_prompt:
                text = as_text(line.get("content"))
                self.run.task = self.run.task or text or None
                self._answer.history.add(Message("user", text), time)
            elif kind == "message":
                self._answer.add_text(as_text(line.get("content")), time)
            else:
                self._answer.add_call(_tool_call(line), time)

    def finish(self) -> None:
        """Add the call that gave the last answer, and the messages that no call saw."""
        self._close()
        self._answer.history.finish()

    def _close(self) -> None:
        call = self._answer.close()
        if call is not None:
            call.provider, call.model = self.run.provider, self.run.model

    def _read_other(self, kind: str, line: Members, time: str) -> None:
        if kind == "init":
            self.run.identity = as_text(line.get("session_id")) or self.run.identity
            self.run.model = as_text(line.get("model"))
        elif kind == "result":
            self._close()
            self.run.status = "completed" if line.get("status") == "success" else "failed"
            if self.run.status == "completed":
                self.run.error = None  # after an earlier error, the agent continued
            self._fail(as_dict(line.get("error")))
            self.run.events.append(TimedFact.annotation(key="usage", value=line.get("stats"), time=time))
        elif kind == "error" and line.get("severity") != "warning":
            self._fail({"type": "error", "message": line.get("message")})
        self.run.events.append(TimedFact.unread(what=kind, value=line, time=time))

    def _fail(self, error: Members) -> None:
        if error and self.run.status != "completed":
            kind, text = as_text(error.get("type")), as_text(error.get("message"))
            self.run.error = {"type": kind or "error", "message": text or ""}


def _tool_call(line: Members) -> ToolCall:
    arguments = line.get("parameters")
    return ToolCall(
        as_text(line.get("tool_id")) or "",
        as_text(line.get("tool_name")) or "",
        {} if arguments is None else arguments,
    )


def _result(line: Members) -> Message:
    """Return the result of a tool.

    If the tool failed, the result is the error, which the model saw. `output` is a shorter text.
    """
    error = as_dict(line.get("error"))
    text = as_text(error.get("message")) or as_text(line.get("output"))
    status = as_text(line.get("status"))
    extra: Members = {} if status is None else {"status": status, "is_error": status == "error"}
    if error:
        extra["error"] = {**error, "output": line.get("output")}
    return Message("tool", text, call_id=as_text(line.get("tool_id")), extra=extra)


FORMAT = Format(name="gemini-stream", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
