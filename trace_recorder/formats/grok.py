"""Grok CLI's sessions. Each has two files: the messages, and the updates of the Agent Client Protocol.

`chat_history.jsonl` has messages, each with a type and without a time. The reasoning of an answer is a separate line
before the answer, and so is a search that the server ran (`backend_tool_call`).

`updates.jsonl` has an update of the same session in each line. An import of a directory ignores this file if
`chat_history.jsonl` is beside it. A text or a thought may come in several updates. An answer ends when `streamStartMs`
changes, or when a text, a thought or a tool call follows a tool's result. While a tool runs, updates repeat the tool's
output so far. These updates are left out. Tokens are stated for each turn.

Source: grok 0.2.111, and https://agentclientprotocol.com (`session/update`).
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of, join_texts
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, AnswerParts, first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_KINDS = {"system", "user", "assistant", "tool_result", "reasoning", "backend_tool_call"}
_BEFORE_ANSWERS = {"reasoning", "backend_tool_call"}


def recognizes(source: Source) -> bool:
    """Return whether all lines have types of this format, and at least one line is an answer or reasoning of Grok."""
    lines = [as_dict(line.value) for line in source.first_lines]
    kinds = [as_text(line.get("type")) for line in lines]
    known = bool(kinds) and set(kinds) <= _KINDS and not any("message" in line for line in lines)
    return known and any("model_fingerprint" in line or "encrypted_content" in line for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.parent.name or source.path.stem, provider="xai")
    if (updates := source.path.with_name("updates.jsonl")).is_file():
        source.read_too.add(updates)
    history = AgentHistory(run.events)
    lines_before: list[Members] = []
    for line in source.lines():
        members = as_dict(line.value)
        kind = as_text(members.get("type"))
        if line.why is not None or kind not in _KINDS:
            if isinstance(line.value, dict):
                run.events.append(TimedFact.unread(what=kind or "line", value=members))
            else:
                run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why or "it is not an object"))
        elif kind in _BEFORE_ANSWERS:
            lines_before.append(members)
        else:
            if kind == "assistant" or lines_before:
                _answer(run, history, members if kind == "assistant" else {}, lines_before)
                lines_before = []
            _add(run, history, kind or "", members)
    if lines_before:
        _answer(run, history, {}, lines_before)
    history.finish()
    yield run


def _add(run: ForeignRun, history: AgentHistory, kind: str, members: Members) -> None:
    content = content_of(members.get("content"))
    extra = {name: value for name, value in members.items() if name not in ("type", "content", "tool_call_id")}
    if kind == "tool_result":
        history.add(Message("tool", content, call_id=as_text(members.get("tool_call_id")), extra=extra), "")
    elif kind != "assistant":
        history.add(Message(kind, content, extra=extra), "")
        if kind == "user" and "synthetic_reason" not in members:
            run.task = run.task or first_text(content) or None


def _answer(run: ForeignRun, history: AgentHistory, members: Members, lines_before: list[Members]) -> None:
    """Add the call that gave an answer.

    `lines_before` has the lines before the answer. If `members` is empty, no answer follows these lines.
    """
    thoughts = [join_texts(_texts(line), "\n") for line in lines_before if line.get("type") == "reasoning"]
    calls = tuple(map(_call, as_list(members.get("tool_calls"))))
    model = as_text(members.get("model_id"))
    extra = without_none(model_fingerprint=members.get("model_fingerprint"), before=lines_before or None)
    text = as_text(members.get("content"))
    call = history.call(
        "", LLMResponse(text, reasoning=join_texts(thoughts, "\n\n"), tool_calls=calls, model=model, extra=extra)
    )
    call.provider = run.provider
    call.parameters = without_none(reasoning_effort=members.get("reasoning_effort"))
    run.model = run.model or model
    if not members:
        call.complete, call.ended_by = False, "no answer follows the reasoning"


def _texts(reasoning: Members) -> list[str | None]:
    return [as_text(as_dict(part).get("text")) for part in as_list(reasoning.get("summary"))]


def _call(value: Payload) -> ToolCall:
    call = manual.read_tool_call(value)
    return ToolCall(call.call_id, call.name, call.arguments)


FORMAT = Format(name="grok", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))


_ENDED = {"completed": False, "failed": True}
"""The statuses of a tool call that has ended. The value is true if the call failed."""
_STATUSES: dict[str, Status] = {"end_turn": "completed", "cancelled": "interrupted"}
_PARTS = {"agent_message_chunk", "agent_thought_chunk", "tool_call"}


def recognizes_updates(source: Source) -> bool:
    """Return whether the first line is an update of a session."""
    first = as_dict(source.first_lines[0].value) if source.first_lines else {}
    return "sessionUpdate" in as_dict(as_dict(first.get("params")).get("update"))


def read_updates(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.parent.name or source.path.stem)
    reader = _UpdateReader(run)
    for line in session_lines(source.lines(), run.events.append):
        reader.read_line(line)
    reader.finish()
    yield run


class _UpdateReader:
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        self.run = run
        self._answer = AnswerParts(AgentHistory(run.events))
        self._stream: Payload = None
        self._prompt: list[tuple[str | None, str]] = []
        self._turns = 0

    def read_line(self, line: Members) -> None:
        params = as_dict(line.get("params"))
        update, meta = as_dict(params.get("update")), as_dict(params.get("_meta"))
        time = stated_time(meta.get("agentTimestampMs")) or stated_time(line.get("timestamp"))
        self.run.identity = as_text(params.get("sessionId")) or self.run.identity
        kind = as_text(update.get("sessionUpdate"))
        if kind == "user_message_chunk":
            self._close()
            self.run.model = as_text(as_dict(update.get("_meta")).get("modelId")) or self.run.model
            self._prompt.append((_text_of_part(update), time))
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
            self._answer.add_text(_text_of_part(update), time)
        elif kind == "agent_thought_chunk":
            self._answer.add_reasoning(_text_of_part(update), time)
        else:
            self._answer.add_call(_tool_call_of_update(update), time)

    def _add_result(self, update: Members, time: str) -> None:
        failed = _ENDED.get(as_text(update.get("status")) or "")
        if failed is None:
            return
        raw = as_dict(update.get("rawOutput"))
        texts = [_text_of_part(as_dict(part)) for part in as_list(update.get("content"))]
        text = as_text(raw.get("output_for_prompt")) or join_texts(texts, "\n")
        call_id = as_text(update.get("toolCallId"))
        self._answer.add_result(Message("tool", text, call_id=call_id, extra={"is_error": failed}), time)
        self.run.events.append(TimedFact.unread(what="tool_call_update", value=update, time=time))

    def _read_other(self, kind: str, update: Members, time: str) -> None:
        if kind == "turn_completed":
            self._turns += 1
            self._close()
            self.run.status = _STATUSES.get(as_text(update.get("stop_reason")) or "", "unknown")
            self.run.events.append(
                TimedFact.annotation(key=f"usage_of_turn_{self._turns}", value=update.get("usage"), time=time)
            )
        self.run.events.append(TimedFact.unread(what=kind, value=update, time=time))

    def finish(self) -> None:
        """Add the call that gave the last answer, and the messages that no call saw."""
        self._close()
        self._close_prompt()
        self._answer.history.finish()

    def _close(self) -> None:
        call = self._answer.close()
        self._stream = None
        if call is not None:
            call.model = self.run.model

    def _close_prompt(self) -> None:
        """Add the prompt whose text came in several updates."""
        if self._prompt:
            text = join_texts([text for text, _ in self._prompt])
            self.run.task = self.run.task or text
            self._answer.history.add(Message("user", text), self._prompt[0][1])
            self._prompt = []


def _text_of_part(part: Members) -> str | None:
    return as_text(as_dict(part.get("content")).get("text"))


def _tool_call_of_update(update: Members) -> ToolCall:
    tool = as_dict(as_dict(update.get("_meta")).get("x.ai/tool"))
    arguments = update.get("rawInput")
    name = as_text(tool.get("name")) or as_text(update.get("title")) or ""
    return ToolCall(as_text(update.get("toolCallId")) or "", name, {} if arguments is None else arguments)


UPDATES = Format(
    name="grok-updates", reader=FormatReader(recognizes=recognizes_updates, read=read_updates, counting=WHOLE)
)
