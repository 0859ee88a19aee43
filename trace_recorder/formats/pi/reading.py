"""Sessions of pi and of OpenClaw, which runs pi; and session traces of the Hugging Face Hub.

pi's lines are `{"type", "id", "parentId", "timestamp", ...}`. The first line is the session's header. From version 2
on, lines are a tree by `id` and `parentId`. In version 1, each line follows the line before it. After a compaction, the
history is the summary and the messages from `firstKeptEntryId` (or `firstKeptEntryIndex`) on. `usage.input` leaves out
cached tokens. Source: pi-mono's `session-manager.ts`.

A session trace has a header with `harness` and `id`. Each other line is `{"type": "message", "message": …}`, with
`role`, `content`, `reasoningContent`, `toolCalls`, `toolCallId`, `timestamp` and `model`. Source: "Session Traces
Format" of the Hub's documentation.

Our own sessions (`writing.py`, `session_traces.py`) also have system messages, a line with the tools, and the task. The
answers in our own sessions name an interaction. An assistant's message without an interaction is a message that the
agent itself put into the history. If no message of a session trace names an interaction, each answer is a call.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import anthropic_messages
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, content_of
from trace_recorder.dialects.openai_chat import read_message
from trace_recorder.formats.foreign_runs.agent_history import Position, given_by_another_session, last_answer
from trace_recorder.formats.foreign_runs.run import ForeignAgent, ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_flag, stated_time, usage_at
from trace_recorder.formats.pi.forks import CopiedLines
from trace_recorder.formats.pi.own_members import (
    AGENT,
    AGENT_ID,
    HARNESS,
    INTERACTION,
    ORIGIN,
    PARENT_AGENT_ID,
    TASK,
    TOOLS_ENTRY,
)
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage, without_none
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import replace

_ENTRIES = {
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "custom",
    "session_info",
    "branch_summary",
}
_ROLES = {"user", "assistant", "toolResult", "bashExecution", "custom", "system"}
_MAX_COPIES = 8
"""Compactions may together copy at most this many messages for each line that was read.

After that, the messages that a compaction kept are a gap.
"""
_BROKEN = {"aborted", "error"}
_SOURCE_MEMBERS = ("version", "cwd", "branchedFrom", "parentSession")


_HEADER = Signs(values={"type": {"session"}}, members=("id", "cwd", "timestamp"))
_RESULT = Signs(values={"type": {"message"}, "message/role": {"toolResult"}})
_ANSWER = Signs(values={"role": {"assistant"}}, members=("content", "api", "stopReason"))


def recognizes(source: Source) -> bool:
    """Return whether the file has the header of a session, results of tools in pi's form, or one answer of a model."""
    return _HEADER.in_any_line(source) or _RESULT.in_any_line(source) or _is_answer(source)


def _is_answer(source: Source) -> bool:
    """Return whether the file is one document with a single answer of a model."""
    return len(source.first_lines) < 2 and _ANSWER.in_document(source)  # noqa: PLR2004 - more lines are no document


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = _PiReader(ForeignRun(identity=source.path.stem), source)
    if _is_answer(source):
        document = as_dict(source.document)
        reader.read_line({"type": "message", "message": document}, stated_time(document.get("timestamp")))
        yield reader.finish()
        return
    for number, line in enumerate(source.lines()):
        members = as_dict(line.value)
        time = stated_time(members.get("timestamp"))
        if line.why is not None or not isinstance(line.value, dict):
            reader.add_gap(f"line {line.number}", line.why or "it is not an object", time)
        elif reader.copies.has(members, time):
            with given_by_another_session(reader.run, reader.run.events):
                reader.read_line(members, time, number)
        else:
            reader.read_line(members, time, number)
    yield reader.finish()


class _PiReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun, source: Source) -> None:
        super().__init__(run)
        self.copies = CopiedLines(source)
        self._positions: dict[str, Position] = {}
        self._numbers: dict[str, int] = {}
        self._sources: dict[int, tuple[int, Members]] = {}
        """The messages by their `id()`, each with the number of its line."""
        self._may_copy = 0
        self._is_ours = False
        self._tools: list[Payload] = []

    def read_line(self, line: Members, time: str, number: int = 0) -> None:
        kind, identity, parent = (as_text(line.get(name)) for name in ("type", "id", "parentId"))
        self._may_copy += _MAX_COPIES
        if kind == "session":
            self._identify(line, time)
            return
        is_new = kind in {"message", "custom_message", "branch_summary", "compaction"}
        if is_new and parent in self._positions:
            self.history.return_to(self._positions[parent])
        if identity is not None:
            self._numbers[identity] = number
        self._read_entry(line, kind, time, number)
        if identity is not None:
            position = self.history.position
            if not is_new:
                position = self._positions.get(parent or "", position)
            self._positions[identity] = position

    def _read_entry(self, line: Members, kind: str | None, time: str, number: int) -> None:
        if kind == "message" and as_text(as_dict(line.get("message")).get("role")) in _ROLES:
            self._read_message(as_dict(line["message"]), time, number)
        elif kind == "custom_message":
            self._add(Message("user", content_of(line.get("content")), extra={"type": kind}), time, number)
        elif kind == "branch_summary":
            self._add(Message("user", content_of(line.get("summary")), extra={"type": kind}), time, number)
        else:
            if kind == "compaction":
                self._compact(line, time, number)
            if kind == "custom" and line.get("customType") == TOOLS_ENTRY:
                self._tools = as_list(as_dict(line.get("data")).get("tools"))
            self.keep(kind or "line", line, time)

    def _identify(self, line: Members, time: str) -> None:
        self.note_identity(line.get("id"))
        self.run.provider = as_text(line.get("provider")) or self.run.provider
        self.run.model = as_text(line.get("modelId")) or self.run.model
        self.run.source |= {name: line[name] for name in _SOURCE_MEMBERS if name in line}
        self.copies.note_header(line, time)
        self._is_ours = line.get("harness") == HARNESS
        if self._is_ours:
            self.run.task = as_text(line.get(TASK))
            self.history.agent = ForeignAgent(
                name=as_text(line.get(AGENT)),
                agent_id=as_text(line.get(AGENT_ID)),
                parent_agent_id=as_text(line.get(PARENT_AGENT_ID)),
            )
        self.keep("session", line, time)

    def _add(self, message: Message, time: str, number: int) -> None:
        self.history.add(message, time)
        self._note_source(number)

    def _note_source(self, number: int) -> None:
        message = self.history.conversation.own[-1]
        self._sources[id(message)] = number, message

    def _read_message(self, message: Members, time: str, number: int) -> None:
        role = message["role"]
        if role == "assistant" and not (self._is_ours and INTERACTION not in message):
            self._read_answer(message, time, number)
            return
        if role == "toolResult":
            converted = Message(
                "tool",
                content_of(message.get("content")),
                call_id=as_text(message.get("toolCallId")),
                name=as_text(message.get("toolName")),
                extra=without_none(is_error=stated_flag(message.get("isError"))),
            )
            if message.get("details") is not None:
                self.keep("details", {"call_id": converted.call_id, "details": message["details"]}, time)
        elif role == "user":
            converted = Message("user", content_of(message.get("content")))
            self.note_task(_text(message.get("content")))
        elif role == "system":
            converted = Message("system", content_of(message.get("content")))
        elif role == "assistant":
            converted = last_answer(_messages_of([_block(block) for block in as_list(message.get("content"))]))
        else:
            converted = Message("user", [message])
        self.run.status, self.run.error = "unknown", None
        self._add(converted, time, number)

    def _read_answer(self, message: Members, time: str, number: int) -> None:
        stop = as_text(message.get("stopReason"))
        failed = as_text(message.get("errorMessage")) or stop or ""
        origin = ReplayedFrom.of_document(message.get(ORIGIN))
        usage = _usage(as_dict(as_dict(message[ORIGIN] if origin else message).get("usage")))
        self.run.status, self.run.error = "unknown", None
        if stop == "aborted":
            self.run.status = "interrupted"
        elif stop == "error":
            self.run.status, self.run.error = "failed", {"type": "error", "message": failed}
        blocks = [_block(block) for block in as_list(message.get("content"))]
        body = {"role": "assistant", "content": blocks, "stop_reason": stop, "model": message.get("model")}
        if stop in _BROKEN and not blocks:
            call = self.history.failed_call(time, {"type": stop, "message": failed})
            if any((usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cost)):
                call.response = {"content": None, "usage": usage.to_document()}
        else:
            response = anthropic_messages.read_response(body, self.history.made_up_ids)
            answer = next(reversed(_messages_of(blocks)), None)
            call = self.history.call(time, replace(response, usage=usage), answer)
            if stop in _BROKEN:
                call.complete, call.ended_by = False, failed
            self._note_source(number)
        call.provider, call.model = as_text(message.get("provider")), as_text(message.get("model"))
        call.parameters = without_none(api=as_text(message.get("api")))
        call.replayed_from, call.tools = origin, self._tools
        call.interaction_id = as_text(message.get(INTERACTION))
        self.note_model(call.model)
        self.run.provider = self.run.provider or call.provider

    def _line_of(self, message: Members) -> int:
        return self._sources.get(id(message), (0,))[0]

    def _compact(self, line: Members, time: str, number: int) -> None:
        """Continue with the summary, and with the messages that the compaction kept."""
        first = self._numbers.get(as_text(line.get("firstKeptEntryId")) or "", as_int(line.get("firstKeptEntryIndex")))
        kept: list[Members] = []
        if first is not None:
            sent = self.history.conversation.messages()
            kept = [message for message in sent if self._line_of(message) >= first]
        self._may_copy -= len(kept)
        if self._may_copy < 0 or (first is not None and first > number):
            why = "the file does not have them, or they are too many"
            self.add_gap("the messages that a compaction kept", why)
            kept = []
        self.history.restart()
        self._add(Message("user", as_text(line.get("summary")), extra={"type": "compaction"}), time, number)
        self.history.restart([*self.history.conversation.own, *kept])


def _messages_of(blocks: list[Payload]) -> list[Message]:
    """Return the messages as which an answer's blocks are read. The last has the answer's content."""
    return anthropic_messages.read_message({"role": "assistant", "content": blocks})


def _block(block: Payload) -> Payload:
    """Return a block in Anthropic's form. Only pi's tool calls and thoughts are changed."""
    rest = Remaining(block)
    kind = rest.get("type")
    if kind == "toolCall":
        rest.take("type")
        call: Members = {"id": rest.text("id"), "name": rest.text("name"), "input": rest.take("arguments")}
        return {"type": "tool_use", **call, **rest.rest()}
    if kind == "thinking":
        return without_none(type=kind, thinking=rest.take("thinking"), signature=rest.take("thinkingSignature")) | {
            name: value for name, value in rest.rest().items() if name != "type"
        }
    return block


def _text(content: Payload) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text for part in as_list(content) if (text := as_text(as_dict(part).get("text"))))


_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_creation_input_tokens": "cacheWrite",
    "cache_read_input_tokens": "cacheRead",
    "reasoning_tokens": "reasoning",
}


def _usage(members: Members) -> Usage:
    """Return the counts of an answer, and its total cost. The parts of the cost stay in `extra`."""
    remaining, cost = Remaining(members), as_dict(members.get("cost"))
    total = as_number(cost.get("total"))
    if total is None:
        return usage_at(remaining, _COUNTS)
    remaining.take("cost")
    return usage_at(remaining, _COUNTS, {"cost": cost}, cost=total)


_OPENCLAW_DIRECTORY = ".openclaw"
_OPENCLAW_ENTRIES = ("model-snapshot", "openclaw")


def recognizes_openclaw(source: Source) -> bool:
    """Return whether the file is a session of pi in OpenClaw's directory, or with OpenClaw's entries."""
    if not recognizes(source):
        return False
    lines = [as_dict(line.value) for line in source.first_lines]
    directories = (as_text(line.get("cwd")) or "" for line in lines)
    entries = (as_text(line.get("customType")) or "" for line in lines)
    return any(_OPENCLAW_DIRECTORY in directory for directory in directories) or any(
        entry.startswith(_OPENCLAW_ENTRIES) for entry in entries
    )


_NAMES = {"reasoningContent": "reasoning_content", "toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
_TRACE_HEADER = Signs(values={"type": {"session"}}, members=("harness", "id"))
_OF_A_LINE = {"timestamp", "model", INTERACTION, ORIGIN}


def recognizes_session_traces(source: Source) -> bool:
    """Return whether the first line is the header of a session trace, and no line is a line of pi.

    Lines of pi have a `parentId`, or content in parts.
    """
    if not _TRACE_HEADER.in_first_line(source):
        return False
    lines = [as_dict(line.value) for line in source.first_lines]
    messages = [line for line in lines if line.get("type") == "message"]
    contents = [as_dict(message.get("message")).get("content") for message in messages]
    return all(isinstance(content, str | None) for content in contents) and not any(
        "parentId" in message for message in messages
    )


def read_session_traces(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = SessionReader(ForeignRun(identity=source.path.name.partition(".")[0]))
    lines = [*source.lines()]
    names_calls = any(INTERACTION in as_dict(as_dict(line.value).get("message")) for line in lines)
    for line in session_lines(lines, reader.run.events.append):
        if line.get("type") == "session":
            reader.note_identity(line.get("id"))
            reader.run.source |= {name: value for name, value in line.items() if name not in ("type", "id")}
        elif line.get("type") == "message" and isinstance(line.get("message"), dict):
            _read_simple_message(reader, line["message"], names_calls=names_calls)
        else:
            reader.keep(as_text(line.get("type")) or "line", line)
    yield reader.finish()


def _read_simple_message(reader: SessionReader, members: Members, *, names_calls: bool) -> None:
    run = reader.run
    is_agents = names_calls and run.source.get("harness") == HARNESS and INTERACTION not in members
    time, model = stated_time(members.get("timestamp")), as_text(members.get("model"))
    named = {_NAMES.get(name, name): value for name, value in members.items() if name not in _OF_A_LINE}
    for message in read_message(named):
        if message.role != "assistant" or is_agents:
            reader.history.add(message, time)
            if message.role == "user":
                run.task = run.task or as_text(message.content)
            continue
        response = LLMResponse(
            as_text(message.content) or None, reasoning=message.reasoning, tool_calls=message.tool_calls, model=model
        )
        call = reader.history.call(time, response)
        if call.response is not None:
            call.response |= without_none(extra=message.extra or None)
        call.interaction_id = as_text(members.get(INTERACTION))
        call.replayed_from = ReplayedFrom.of_document(members.get(ORIGIN))
        reader.note_model(model)
