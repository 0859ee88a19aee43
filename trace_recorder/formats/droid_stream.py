"""The output of `droid exec --output-format stream-json`.

Each line has a type: `system` with the model and the tools, `message`, `reasoning`, `tool_call`, `tool_result`, and at
the end `completion` with the tokens of all calls. The parts of an answer have the same id, and a part may be repeated.
The output has neither the system prompt nor the tokens of single answers.

Source: droid 0.215.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of
from trace_recorder.formats.foreign_runs.agent_history import AnswerParts
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_flag, stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.token_counts import CACHE_APART

_HEAD = Signs(values={"type": {"system"}, "subtype": {"init"}}, members=("session_id", "model"))
_MESSAGE = Signs(values={"type": {"message"}, "role": {"user", "assistant"}}, members=("text", "session_id"))


def recognizes(source: Source) -> bool:
    """Return whether the first line begins a session, and a message of Droid follows."""
    return _HEAD.in_first_line(source) and _MESSAGE.in_any_line(source)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = _StreamReader(ForeignRun(identity=source.path.stem))
    for line in reader.lines(source):
        reader.read_line(line, as_text(line.get("type")) or "line", stated_time(line.get("timestamp")))
    reader.close()
    yield reader.finish()


class _StreamReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._answer = AnswerParts(self.history)
        self._answer_id: str | None = None
        self._seen: set[tuple[str, str | None]] = set()
        """The types and the texts of the parts of the open answer."""
        self._tools: list[Payload] = []

    def read_line(self, line: Members, kind: str, time: str) -> None:
        """Read a line of this kind, with this time."""
        if kind == "reasoning" or (kind == "message" and line.get("role") == "assistant"):
            self._add_text(line, kind, time)
        elif kind == "tool_call":
            self._begin(as_text(line.get("messageId")))
            self._answer.add_call(stated_call(line.get("id"), line.get("toolName"), line.get("parameters")), time)
        elif kind == "tool_result":
            extra = without_none(is_error=stated_flag(line.get("isError")))
            call_id = as_text(line.get("id"))
            content = content_of(line.get("value", line.get("error")))
            self._answer.add_result(Message("tool", content, call_id=call_id, extra=extra), time)
        elif kind == "message":
            self.close()
            self.note_task(line.get("text"))
            self.history.add(Message("user", as_text(line.get("text"))), time)
        else:
            self._read_other(line, kind, time)

    def _add_text(self, line: Members, kind: str, time: str) -> None:
        self._begin(as_text(line.get("id")))
        text = as_text(line.get("text"))
        if (kind, text) in self._seen:
            return
        self._seen.add((kind, text))
        if kind == "reasoning":
            self._answer.add_reasoning(text, time)
        else:
            self._answer.add_text(text, time)

    def _begin(self, identity: str | None) -> None:
        """Begin the answer with this id, unless it is open."""
        if identity != self._answer_id:
            self.close()
            self._answer_id = identity

    def close(self) -> None:
        """Add the call that gave the open answer, and the results of its tools."""
        call = self._answer.close()
        self._answer_id = None
        self._seen.clear()
        if call is not None:
            call.model, call.tools = self.run.model, self._tools

    def _read_other(self, line: Members, kind: str, time: str) -> None:
        if kind == "system":
            self.note_identity(line.get("session_id"))
            self.note_model(as_text(line.get("model")))
            self.run.source |= without_none(cwd=line.get("cwd"))
            self._tools = [tool for tool in as_list(line.get("tools")) if isinstance(tool, str)]
        elif kind == "completion":
            self.close()
            self.run.status, self.run.final_result = "completed", line.get("finalText")
            if usage := as_dict(line.get("usage")):
                self.annotate("session_usage", usage, time)
        elif kind == "error":
            message = as_text(line.get("message")) or ""
            self.run.status, self.run.error = "failed", {"type": "error", "message": message}
        self.keep(kind, line, time)


FORMAT = Format(name="droid-stream", reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART))
