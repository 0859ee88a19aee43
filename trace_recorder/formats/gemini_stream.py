"""Lines that `gemini -o stream-json` prints: `init`, `message`, `tool_use`, `tool_result`, `error` and `result`.

Source: Gemini CLI 0.61.0. The texts of an answer come in pieces (`delta`), without thoughts. A text or a tool call
after a result begins the next answer. Tokens are stated for the run only.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.agent_history import AnswerParts
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Message
from trace_recorder.values.token_counts import WHOLE

_PARTS = {"message", "tool_use", "tool_result"}
_HEAD = Signs(values={"type": {"init"}}, members=("session_id", "model"))
_TOOL_CALL = Signs(values={"type": {"tool_use"}}, members=("tool_id", "tool_name"))


def recognizes(source: Source) -> bool:
    """Return whether the first line begins a stream of Gemini CLI, or a line is a tool call of such a stream."""
    return _HEAD.in_first_line(source) or _TOOL_CALL.in_any_line(source)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a stream."""
    reader = _GeminiStreamReader(ForeignRun(identity=source.path.name.partition(".")[0], provider="google"))
    for line in reader.lines(source):
        reader.read_line(line, stated_time(line.get("timestamp")))
    reader.close()
    yield reader.finish()


class _GeminiStreamReader(SessionReader):
    """Reads one stream."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._answer = AnswerParts(self.history)

    def read_line(self, line: Members, time: str) -> None:
        kind = as_text(line.get("type"))
        is_prompt = kind == "message" and line.get("role") != "assistant"
        if kind not in _PARTS:
            self._read_other(kind or "line", line, time)
        elif kind == "tool_result":
            self._answer.add_result(_result(line), time)
        else:
            if is_prompt or self._answer.has_results:
                self.close()
            if is_prompt:
                text = as_text(line.get("content"))
                self.note_task(text)
                self.history.add(Message("user", text), time)
            elif kind == "message":
                self._answer.add_text(as_text(line.get("content")), time)
            else:
                call = stated_call(line.get("tool_id"), line.get("tool_name"), line.get("parameters"))
                self._answer.add_call(call, time)

    def close(self) -> None:
        """Add the call that gave the open answer, if an answer is open."""
        call = self._answer.close()
        if call is not None:
            call.provider, call.model = self.run.provider, self.run.model

    def _read_other(self, kind: str, line: Members, time: str) -> None:
        if kind == "init":
            self.note_identity(line.get("session_id"))
            self.run.model = as_text(line.get("model"))
        elif kind == "result":
            self.close()
            self.run.status = "completed" if line.get("status") == "success" else "failed"
            if self.run.status == "completed":
                self.run.error = None  # after an earlier error, the agent continued
            self._fail(as_dict(line.get("error")))
            self.annotate("usage", line.get("stats"), time)
        elif kind == "error" and line.get("severity") != "warning":
            self._fail({"type": "error", "message": line.get("message")})
        self.keep(kind, line, time)

    def _fail(self, error: Members) -> None:
        if error and self.run.status != "completed":
            kind, text = as_text(error.get("type")), as_text(error.get("message"))
            self.run.error = {"type": kind or "error", "message": text or ""}


def _result(line: Members) -> Message:
    """Return the result of a tool.

    If the tool failed, the result is the error, which the model saw. `output` is a shorter text.
    """
    error = as_dict(line.get("error"))
    text = as_text(error.get("message")) or as_text(line.get("output"))
    extra: Members = {}
    if (status := as_text(line.get("status"))) is not None:
        extra = {"status": status, "is_error": status == "error"}
    if error:
        extra["error"] = {**error, "output": line.get("output")}
    return Message("tool", text, call_id=as_text(line.get("tool_id")), extra=extra)


FORMAT = Format(name="gemini-stream", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
