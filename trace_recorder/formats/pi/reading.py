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
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, Position, given_by_another_session
from trace_recorder.formats.foreign_runs.run import ForeignAgent, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time, usage_at
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


def recognizes(source: Source) -> bool:
    """Return whether the file has the header of a session, results of tools in pi's form, or one answer of a model."""
    lines = [as_dict(line.value) for line in source.first_lines]
    if any(line.get("type") == "session" and {"id", "cwd", "timestamp"} <= line.keys() for line in lines):
        return True
    if any(
        line.get("type") == "message" and as_dict(line.get("message")).get("role") == "toolResult" for line in lines
    ):
        return True
    return _is_answer(source)


def _is_answer(source: Source) -> bool:
    """Return whether the file is one document with a single answer of a model."""
    if source.head.lstrip()[:1] != b"{" or len(source.first_lines) > 1:
        return False
    document = as_dict(source.document)
    return document.get("role") == "assistant" and {"content", "api", "stopReason"} <= {*document}


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.stem)
    reader = _PiSessionReader(run, source)
    if _is_answer(source):
        document = as_dict(source.document)
        reader.read_line({"type": "message", "message": document}, stated_time(document.get("timestamp")))
    else:
        for number, line in enumerate(source.lines()):
            members = as_dict(line.value)
            time = stated_time(members.get("timestamp"))
            if line.why is not None or not isinstance(line.value, dict):
                why = line.why or "it is not an object"
                run.events.append(TimedFact.gap(what=f"line {line.number}", why=why, time=time))
            elif reader.copies.has(members, time):
                with given_by_another_session(run, run.events):
                    reader.read_line(members, time, number)
            else:
                reader.read_line(members, time, number)
    reader.history.finish()
    yield run


class _PiSessionReader:
    """Reads one session."""

    def __init__(self, run: ForeignRun, source: Source) -> None:
        self.run = run
        self.copies = CopiedLines(source)
        self.history = AgentHistory(run.events)
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
        if kind in {"message", "custom_message", "branch_summary", "compaction"} and parent in self._positions:
            self.history.return_to(self._positions[parent])
        if identity is not None:
            self._numbers[identity] = number
        if kind == "message" and as_text(as_dict(line.get("message")).get("role")) in _ROLES:
            self._read_message(as_dict(line["message"]), time, number)
        elif kind in {"custom_message", "branch_summary"}:
            content = line.get("content") if kind == "custom_message" else line.get("summary")
            self._add(Message("user", content_of(content), extra={"type": kind}), time, number)
        else:
            if kind == "compaction":
                self._compact(line, time, number)
            if kind == "custom" and line.get("customType") == TOOLS_ENTRY:
                self._tools = as_list(as_dict(line.get("data")).get("tools"))
            self.run.events.append(TimedFact.unread(what=kind or "line", value=line, time=time))
        if identity is not None:
            position = self.history.position
            is_new = kind in {"message", "custom_message", "branch_summary", "compaction"}
            self._positions[identity] = position if is_new else self._positions.get(parent or "", position)

    def _identify(self, line: Members, time: str) -> None:
        self.run.identity = as_text(line.get("id")) or self.run.identity
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
        self.run.events.append(TimedFact.unread(what="session", value=line, time=time))

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
            failed = message.get("isError")
            converted = Message(
                "tool",
                content_of(message.get("content")),
                call_id=as_text(message.get("toolCallId")),
                name=as_text(message.get("toolName")),
                extra={"is_error": failed} if isinstance(failed, bool) else {},
            )
            if message.get("details") is not None:
                value = {"call_id": converted.call_id, "details": message["details"]}
                self.run.events.append(TimedFact.unread(what="details", value=value, time=time))
        elif role == "user":
            converted = Message("user", content_of(message.get("content")))
            self.run.task = self.run.task or _text(message.get("content")) or None
        elif role == "system":
            converted = Message("system", content_of(message.get("content")))
        elif role == "assistant":
            converted = _answer_of([_block(block) for block in as_list(message.get("content"))]) or Message("assistant")
        else:
            converted = Message("user", [message])
        self.run.status, self.run.error = "unknown", None
        self._add(converted, time, number)

    def _read_answer(self, message: Members, time: str, number: int) -> None:
        stop = as_text(message.get("stopReason"))
        failed = as_text(message.get("errorMessage")) or stop or ""
        origin = ReplayedFrom.of_document(message.get(ORIGIN))
        usage = _usage(as_dict(as_dict(message[ORIGIN] if origin else message).get("usage")))
        self.run.status = "unknown" if stop not in _BROKEN else "interrupted" if stop == "aborted" else "failed"
        self.run.error = {"type": "error", "message": failed} if stop == "error" else None
        blocks = [_block(block) for block in as_list(message.get("content"))]
        body = {"role": "assistant", "content": blocks, "stop_reason": stop, "model": message.get("model")}
        if stop in _BROKEN and not blocks:
            call = self.history.failed_call(time, {"type": stop, "message": failed})
            counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cost)
            call.response = {"content": None, "usage": usage.to_document()} if any(counts) else None
        else:
            response = anthropic_messages.read_response(body, self.history.made_up_ids)
            call = self.history.call(time, replace(response, usage=usage), _answer_of(blocks))
            call.complete = stop not in _BROKEN
            call.ended_by = failed if stop in _BROKEN else None
            self._note_source(number)
        call.provider, call.model = as_text(message.get("provider")), as_text(message.get("model"))
        call.parameters = without_none(api=as_text(message.get("api")))
        call.replayed_from, call.tools = origin, self._tools
        call.interaction_id = as_text(message.get(INTERACTION))
        self.run.model = self.run.model or call.model
        self.run.provider = self.run.provider or call.provider

    def _line_of(self, message: Members) -> int:
        return self._sources.get(id(message), (0,))[0]

    def _compact(self, line: Members, time: str, number: int) -> None:
        """Continue with the summary, and with the messages that the compaction kept."""
        first = self._numbers.get(as_text(line.get("firstKeptEntryId")) or "", as_int(line.get("firstKeptEntryIndex")))
        sent = self.history.conversation.messages()
        kept = [] if first is None else [message for message in sent if self._line_of(message) >= first]
        self._may_copy -= len(kept)
        if self._may_copy < 0 or (first is not None and first > number):
            self.run.events.append(
                TimedFact.gap(
                    what="the messages that a compaction kept", why="the file does not have them, or they are too many"
                )
            )
            kept = []
        self.history.restart()
        self._add(Message("user", as_text(line.get("summary")), extra={"type": "compaction"}), time, number)
        self.history.restart([*self.history.conversation.own, *kept])


def _answer_of(blocks: list[Payload]) -> Message | None:
    """Return blocks as a message of the assistant, or None if the blocks have no content."""
    messages = anthropic_messages.read_message({"role": "assistant", "content": blocks})
    return messages[-1] if messages else None


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
    return any(
        _OPENCLAW_DIRECTORY in (as_text(line.get("cwd")) or "")
        or (as_text(line.get("customType")) or "").startswith(_OPENCLAW_ENTRIES)
        for line in lines
    )


_NAMES = {"reasoningContent": "reasoning_content", "toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
_OF_A_LINE = {"timestamp", "model", INTERACTION, ORIGIN}


def recognizes_session_traces(source: Source) -> bool:
    """Return whether the first line is the header of a session trace, and no line is a line of pi.

    Lines of pi have a `parentId`, or content in parts.
    """
    lines = [as_dict(line.value) for line in source.first_lines]
    header, messages = lines[:1], [line for line in lines if line.get("type") == "message"]
    is_header = any(line.get("type") == "session" and {"harness", "id"} <= line.keys() for line in header)
    return is_header and all(
        "parentId" not in line and isinstance(as_dict(line.get("message")).get("content"), str | None)
        for line in messages
    )


def read_session_traces(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.name.partition(".")[0])
    history = AgentHistory(run.events)
    lines = [*source.lines()]
    names_calls = any(INTERACTION in as_dict(as_dict(line.value).get("message")) for line in lines)
    for line in session_lines(lines, run.events.append):
        if line.get("type") == "session":
            run.identity = as_text(line.get("id")) or run.identity
            run.source |= {name: value for name, value in line.items() if name not in ("type", "id")}
        elif line.get("type") == "message" and isinstance(line.get("message"), dict):
            _read_simple_message(run, history, line["message"], names_calls=names_calls)
        else:
            run.events.append(TimedFact.unread(what=as_text(line.get("type")) or "line", value=line))
    history.finish()
    yield run


def _read_simple_message(run: ForeignRun, history: AgentHistory, members: Members, *, names_calls: bool) -> None:
    is_agents = names_calls and run.source.get("harness") == HARNESS and INTERACTION not in members
    time, model = stated_time(members.get("timestamp")), as_text(members.get("model"))
    named = {_NAMES.get(name, name): value for name, value in members.items() if name not in _OF_A_LINE}
    for message in read_message(named):
        if message.role != "assistant" or is_agents:
            history.add(message, time)
            if message.role == "user":
                run.task = run.task or as_text(message.content)
            continue
        response = LLMResponse(
            as_text(message.content) or None, reasoning=message.reasoning, tool_calls=message.tool_calls, model=model
        )
        call = history.call(time, response)
        if call.response is not None:
            call.response |= without_none(extra=message.extra or None)
        call.interaction_id = as_text(members.get(INTERACTION))
        call.replayed_from = ReplayedFrom.of_document(members.get(ORIGIN))
        run.model = run.model or model
