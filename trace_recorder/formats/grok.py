"""Sessions of Grok CLI and Grok Build. Each has two files: the messages, and updates of the Agent Client Protocol.

`chat_history.jsonl` has messages, each with a type and without a time. The reasoning of an answer is a separate line
before the answer, and so is a search that the server ran (`backend_tool_call`).

Beside it, `usage.json` has the tokens of the session, `summary.json` its times, and `tool_definitions.json` its tools.

`updates.jsonl` has an update of the same session in each line. An import of a directory ignores this file if
`chat_history.jsonl` is beside it. A text or a thought may come in several updates. An answer ends when `streamStartMs`
changes, or when a text, a thought or a tool call follows a tool's result. While a tool runs, updates repeat the tool's
output so far. These updates are left out. Tokens are stated for each turn.

Source: grok 0.2.111, and https://agentclientprotocol.com (`session/update`).
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of, join_texts
from trace_recorder.formats.foreign_runs.agent_history import AnswerParts, first_text
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import bare_call, stated_call, stated_time, text_in_tag
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, Payload, without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_KINDS = {"system", "user", "assistant", "tool_result", "reasoning", "backend_tool_call"}
_BEFORE_ANSWERS = {"reasoning", "backend_tool_call"}
_OF_GROK = {"model_fingerprint", "encrypted_content", "model_id", "prompt_index"}
"""Members that only messages of Grok have. With models of other providers, Grok Build writes no fingerprints."""
_TYPED = "user_query"
"""The tag around the words that the user typed."""


def recognizes(source: Source) -> bool:
    """Return whether all lines have types of this format, and at least one line is an answer or reasoning of Grok."""
    lines = [as_dict(line.value) for line in source.first_lines]
    kinds = [as_text(line.get("type")) for line in lines]
    known = bool(kinds) and set(kinds) <= _KINDS and not any("message" in line for line in lines)
    return known and any(line.keys() & _OF_GROK for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = SessionReader(ForeignRun(identity=source.path.parent.name or source.path.stem))
    if (updates := source.path.with_name("updates.jsonl")).is_file():
        source.read_too.add(updates)
    tools = _read_facts(reader, source)
    lines_before: list[Members] = []
    for line in reader.lines(source):
        kind = as_text(line.get("type"))
        if kind not in _KINDS:
            reader.keep(kind or "line", line)
        elif kind in _BEFORE_ANSWERS:
            lines_before.append(line)
        elif kind == "assistant":
            _add_answer(reader, line, lines_before)
            lines_before = []
        else:
            if lines_before:
                _add_answer(reader, {}, lines_before)
                lines_before = []
            _add_message(reader, kind or "", line)
    if lines_before:
        _add_answer(reader, {}, lines_before)
    for event in reader.run.events:
        if isinstance(event, Call):
            event.tools = tools
    yield reader.finish()


def _read_facts(reader: SessionReader, source: Source) -> list[Payload]:
    """Set the facts of the session from the files beside its messages. Return the tools."""
    directory = source.path.absolute().parent
    summary = source.members_of_part(directory / "summary.json", directory)
    usage = as_dict(source.members_of_part(directory / "usage.json", directory).get("session"))
    run = reader.run
    run.start_time, run.end_time = stated_time(summary.get("created_at")), stated_time(summary.get("updated_at"))
    run.source |= without_none(cwd=as_dict(summary.get("info")).get("cwd"), title=summary.get("generated_title"))
    if usage:
        reader.annotate("session_usage", usage)
    tools = source.part(directory / "tool_definitions.json", directory)
    return [] if tools is None else as_list(tools.document)


def _add_message(reader: SessionReader, kind: str, members: Members) -> None:
    content = content_of(members.get("content"))
    extra = {name: value for name, value in members.items() if name not in ("type", "content", "tool_call_id")}
    if kind == "tool_result":
        call_id = as_text(members.get("tool_call_id"))
        reader.history.add(Message("tool", content, call_id=call_id, extra=extra), "")
        return
    reader.history.add(Message(kind, content, extra=extra), "")
    typed = text_in_tag(first_text(content), _TYPED)
    if kind == "user" and typed:
        reader.note_task(typed)
    elif kind == "user" and "synthetic_reason" not in members and "<user_info>" not in first_text(content):
        reader.note_task(content)


def _add_answer(reader: SessionReader, members: Members, lines_before: list[Members]) -> None:
    """Add the call that gave an answer.

    `lines_before` has the lines before the answer. If `members` is empty, no answer follows these lines.
    """
    thoughts: list[str | None] = []
    for line in lines_before:
        if line.get("type") == "reasoning":
            parts = map(as_dict, as_list(line.get("summary")))
            thoughts.append(join_texts((as_text(part.get("text")) for part in parts), "\n"))
    response = LLMResponse(
        as_text(members.get("content")),
        reasoning=join_texts(thoughts, "\n\n"),
        tool_calls=tuple(map(bare_call, as_list(members.get("tool_calls")))),
        model=as_text(members.get("model_id")),
        extra=without_none(model_fingerprint=members.get("model_fingerprint"), before=lines_before or None),
    )
    call = reader.history.call("", response)
    if "model_fingerprint" in members:
        call.provider = reader.run.provider = "xai"
    call.parameters = without_none(reasoning_effort=members.get("reasoning_effort"))
    reader.note_model(response.model)
    if not members:
        call.complete, call.ended_by = False, "no answer follows the reasoning"


FORMAT = Format(
    name="grok",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(HomePlace(program="Grok CLI", directory=".grok", files=("sessions/**/chat_history.jsonl",)),),
)


_ENDED = {"completed": False, "failed": True}
"""The statuses of a tool call that has ended. The value is true if the call failed."""
_STATUSES: dict[str, Status] = {"end_turn": "completed", "cancelled": "interrupted"}
_PARTS = {"agent_message_chunk", "agent_thought_chunk", "tool_call"}


_UPDATE = Signs(members=("params/update/sessionUpdate",))


def read_updates(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = _UpdateReader(ForeignRun(identity=source.path.parent.name or source.path.stem))
    for line in reader.lines(source):
        reader.read_line(line)
    reader.close()
    reader.close_prompt()
    yield reader.finish()


class _UpdateReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._answer = AnswerParts(self.history)
        self._stream: Payload = None
        self._prompt: list[tuple[str | None, str]] = []
        self._turns = 0

    def read_line(self, line: Members) -> None:
        params = as_dict(line.get("params"))
        update, meta = as_dict(params.get("update")), as_dict(params.get("_meta"))
        time = stated_time(meta.get("agentTimestampMs")) or stated_time(line.get("timestamp"))
        self.note_identity(params.get("sessionId"))
        kind = as_text(update.get("sessionUpdate"))
        if kind == "user_message_chunk":
            self.close()
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
            self.close()
        self.close_prompt()
        self._stream = stream
        if kind == "agent_message_chunk":
            self._answer.add_text(_text_of_part(update), time)
        elif kind == "agent_thought_chunk":
            self._answer.add_reasoning(_text_of_part(update), time)
        else:
            tool = as_dict(as_dict(update.get("_meta")).get("x.ai/tool"))
            name = as_text(tool.get("name")) or update.get("title")
            self._answer.add_call(stated_call(update.get("toolCallId"), name, update.get("rawInput")), time)

    def _add_result(self, update: Members, time: str) -> None:
        failed = _ENDED.get(as_text(update.get("status")) or "")
        if failed is None:
            return
        raw = as_dict(update.get("rawOutput"))
        texts = [_text_of_part(as_dict(part)) for part in as_list(update.get("content"))]
        text = as_text(raw.get("output_for_prompt")) or join_texts(texts, "\n")
        call_id = as_text(update.get("toolCallId"))
        self._answer.add_result(Message("tool", text, call_id=call_id, extra={"is_error": failed}), time)
        self.keep("tool_call_update", update, time)

    def _read_other(self, kind: str, update: Members, time: str) -> None:
        if kind == "turn_completed":
            self._turns += 1
            self.close()
            self.run.status = _STATUSES.get(as_text(update.get("stop_reason")) or "", "unknown")
            self.annotate(f"usage_of_turn_{self._turns}", update.get("usage"), time)
        self.keep(kind, update, time)

    def close(self) -> None:
        """Add the call that gave the open answer, if an answer is open."""
        call = self._answer.close()
        self._stream = None
        if call is not None:
            call.model = self.run.model

    def close_prompt(self) -> None:
        """Add the prompt whose text came in several updates."""
        if self._prompt:
            text = join_texts([text for text, _ in self._prompt])
            self.run.task = self.run.task or text
            self.history.add(Message("user", text), self._prompt[0][1])
            self._prompt = []


def _text_of_part(part: Members) -> str | None:
    return as_text(as_dict(part.get("content")).get("text"))


UPDATES = Format(
    name="grok-updates", reader=FormatReader(recognizes=_UPDATE.in_first_line, read=read_updates, counting=WHOLE)
)
