"""Conversations in Anthropic's form: messages of blocks, in which `tool_use` asks and `tool_result` answers.

A file is a list of messages, an object with `messages`, or lines of such objects. Cline's sessions and the histories
of Cline and Roo (`api_conversation_history.json`, with a time `ts` of each message) have this form, and so have
requests that somebody kept. Each message of the assistant is one call, which saw the messages before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.block_messages import add_answer, add_message, first_text
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.conversations import MEMBERS, begins_with, conversations, messages_of
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun, Members, Missing
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_ROLES = {"system", "developer", "user", "assistant"}
_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}
"""The types of blocks that only this form has."""
_OF_OTHERS = {"session_id", "sessionId", "timestamp", "uuid"}
"""Members of the messages of a tool's session, which has a format of its own."""
_OF_THE_RUN = {*MEMBERS, "tools", "model", "id", "sessionId", "system", "system_prompt"}


def recognizes(source: Source) -> bool:
    """Whether the first line, or the document, is such a conversation."""
    return begins_with(source, _is_conversation)


def _is_conversation(value: Payload) -> bool:
    each = [as_dict(message) for message in messages_of(value)]
    if not all(as_text(message.get("role")) in _ROLES and not message.keys() & _OF_OTHERS for message in each):
        return False
    blocks = (as_dict(block).get("type") for message in each for block in as_list(message.get("content")))
    return any(isinstance(kind, str) and kind in _BLOCKS for kind in blocks)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a document, or of each line."""
    for name, line in conversations(source):
        yield _run(name, line)


def _run(name: str, line: Line) -> ForeignRun:
    members = as_dict(line.value)
    rest = {key: value for key, value in members.items() if key not in _OF_THE_RUN}
    run = ForeignRun(
        identity=as_text(members.get("id")) or as_text(members.get("sessionId")) or name,
        model=as_text(members.get("model")),
        metadata={"row": rest} if rest else {},
    )
    history = AgentHistory(run.events)
    system = content_of(members.get("system_prompt") or members.get("system"))
    if system is not None:
        history.add(Message("system", system), "")
    for number, message in enumerate(messages_of(line.value), start=1):
        if as_text(as_dict(message).get("role")) in _ROLES:
            read_message(run, history, as_dict(message), as_list(members.get("tools")))
        else:
            run.events.append(Missing(what=f"message {number}", why="it has no role"))
    history.finish()
    if line.why is not None:
        run.events.append(Missing(what=f"line {line.number}", why=line.why))
    return run


def read_message(run: ForeignRun, history: AgentHistory, message: Members, tools: list[Payload]) -> None:
    """Add a message to a history; one of the assistant is a call."""
    time, content = stated_time(message.get("ts")), message.get("content")
    role = as_text(message.get("role"))
    if role == "assistant":
        _add_call(run, history, message, tools, time)
    elif role == "user":
        add_message(history, content, time)
        run.task = run.task or first_text(content) or None
    else:
        history.add(Message("system", content_of(content)), time)


def _add_call(run: ForeignRun, history: AgentHistory, message: Members, tools: list[Payload], time: str) -> None:
    model = as_dict(message.get("modelInfo"))
    answer = {name: message.get(name) for name in ("content", "id", "model", "stop_reason", "usage")}
    call = add_answer(history, without_none(**answer), time)
    call.tools = tools
    call.api = "anthropic-messages" if "usage" in message else ""
    call.provider = as_text(model.get("provider")) or as_text(model.get("providerId"))
    call.model = as_text(model.get("id")) or as_text(model.get("modelId")) or call.model or run.model
    run.model = run.model or call.model
    metrics = as_dict(message.get("metrics"))
    if call.response is not None and "usage" not in message and (usage := _usage(metrics)):
        call.response["usage"] = usage


def _usage(metrics: Members) -> Members:
    """Return the counts of Cline. Its input tokens include the cached tokens."""
    remaining = Remaining(metrics)
    tokens = remaining.nested("tokens")
    return without_none(
        input_tokens=_first(remaining.integer("inputTokens"), tokens.integer("prompt")),
        output_tokens=_first(remaining.integer("outputTokens"), tokens.integer("completion")),
        cache_read_input_tokens=_first(remaining.integer("cacheReadTokens"), tokens.integer("cached")),
        cache_creation_input_tokens=remaining.integer("cacheWriteTokens"),
        cost=remaining.number("cost"),
        extra=remaining.rest() or None,
    )


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


FORMAT = ImportFormat(name="anthropic-history", recognizes=recognizes, read=read, counting=WHOLE)
