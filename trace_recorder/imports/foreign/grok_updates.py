"""Grok CLI's `updates.jsonl`: the updates of a session in the Agent Client Protocol, one a line.

Source: grok 0.2.111, and https://agentclientprotocol.com (`session/update`). Texts and thoughts come in pieces. An
answer ends when `streamStartMs` changes, or when a part follows a result. Updates while a tool is running repeat what
it has printed so far, and are left out. Tokens are stated for each turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, join_texts
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.answer_parts import AnswerParts
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import Annotation, ForeignRun, Kept, Members
from trace_recorder.imports.foreign.session_lines import session_lines
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import Message, Payload, ToolCall
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_ENDED = {"completed": False, "failed": True}
"""The statuses of a tool's call that has ended: whether it failed."""
_STATUSES: dict[str, Status] = {"end_turn": "completed", "cancelled": "interrupted"}
_PARTS = {"agent_message_chunk", "agent_thought_chunk", "tool_call"}


def recognizes(source: Source) -> bool:
    """Whether the first line is an update of a session."""
    first = as_dict(source.first_lines[0].value) if source.first_lines else {}
    return "sessionUpdate" in as_dict(as_dict(first.get("params")).get("update"))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one session of a file."""
    run = ForeignRun(identity=source.path.parent.name or source.path.stem)
    reader = _UpdateReader(run)
    for line in session_lines(source.lines(), run.events.append):
        reader.read_line(line)
    reader.finish()
    yield run


class _UpdateReader:
    """One session while it is read."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self._answer = AnswerParts(AgentHistory(run.events))
        self._stream: Payload = None
        self._prompt: list[tuple[str | None, str]] = []
        self._turns = 0

    def read_line(self, line: Members) -> None:
        """Read one update."""
        params = as_dict(line.get("params"))
        update, meta = as_dict(params.get("update")), as_dict(params.get("_meta"))
        time = stated_time(meta.get("agentTimestampMs")) or stated_time(line.get("timestamp"))
        self.run.identity = as_text(params.get("sessionId")) or self.run.identity
        kind = as_text(update.get("sessionUpdate"))
        if kind == "user_message_chunk":
            self._close()
            self.run.model = as_text(as_dict(update.get("_meta")).get("modelId")) or self.run.model
            self._prompt.append((_text(update), time))
        elif kind in _PARTS:
            self._add_part(kind, update, meta.get("streamStartMs"), time)
        elif kind == "tool_call_update":
            self._add_result(update, time)
        else:
            self._read_other(kind or "line", update or line, time)

    def _add_part(self, kind: str, update: Members, stream: Payload, time: str) -> None:
        if self._answer.has_results or (stream is not None and self._stream not in (None, stream)):
            self._close()
        self._close_prompt()
        self._stream = stream
        if kind == "agent_message_chunk":
            self._answer.add_text(_text(update), time)
        elif kind == "agent_thought_chunk":
            self._answer.add_reasoning(_text(update), time)
        else:
            self._answer.add_call(_tool_call(update), time)

    def _add_result(self, update: Members, time: str) -> None:
        failed = _ENDED.get(as_text(update.get("status")) or "")
        if failed is None:
            return
        raw = as_dict(update.get("rawOutput"))
        texts = [_text(as_dict(part)) for part in as_list(update.get("content"))]
        seen = as_text(raw.get("output_for_prompt")) or join_texts(texts, "\n")
        call_id = as_text(update.get("toolCallId"))
        self._answer.add_result(Message("tool", seen, call_id=call_id, extra={"is_error": failed}), time)
        self.run.events.append(Kept(what="tool_call_update", value=update, time=time))

    def _read_other(self, kind: str, update: Members, time: str) -> None:
        if kind == "turn_completed":
            self._turns += 1
            self._close()
            self.run.status = _STATUSES.get(as_text(update.get("stop_reason")) or "", "unknown")
            self.run.events.append(Annotation(key=f"usage_of_turn_{self._turns}", value=update.get("usage"), time=time))
        self.run.events.append(Kept(what=kind, value=update, time=time))

    def finish(self) -> None:
        """Make a call of the last answer."""
        self._close()
        self._close_prompt()
        self._answer.history.finish()

    def _close(self) -> None:
        call = self._answer.close()
        self._stream = None
        if call is not None:
            call.model = self.run.model

    def _close_prompt(self) -> None:
        """Add the prompt that has come in pieces."""
        if self._prompt:
            text = join_texts([text for text, _ in self._prompt])
            self.run.task = self.run.task or text
            self._answer.history.add(Message("user", text), self._prompt[0][1])
            self._prompt = []


def _text(part: Members) -> str | None:
    return as_text(as_dict(part.get("content")).get("text"))


def _tool_call(update: Members) -> ToolCall:
    tool = as_dict(as_dict(update.get("_meta")).get("x.ai/tool"))
    arguments = update.get("rawInput")
    name = as_text(tool.get("name")) or as_text(update.get("title")) or ""
    return ToolCall(as_text(update.get("toolCallId")) or "", name, {} if arguments is None else arguments)


FORMAT = ImportFormat(name="grok-updates", recognizes=recognizes, read=read, counting=WHOLE)
