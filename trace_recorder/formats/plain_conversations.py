"""Files that have only conversations, in OpenAI's chat form or in Anthropic's form of blocks.

A file is one document, a list of rows, or lines. A conversation is a list of messages, or an object with `messages`,
`conversations` or `conversation`. Each message of the assistant is a call that saw the messages before it. The file
states nothing else about the call.

Benchmarks, training sets and dumps of prompts have the chat form. All other formats are tried before the chat form.
Anthropic's form has `tool_use` and `tool_result` blocks. Cline and Roo write it (`api_conversation_history.json`, with
a time `ts` for each message).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.call_ids import CallNumbering
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, add_answer, add_message, first_text
from trace_recorder.formats.foreign_runs.run import (
    Call,
    Event,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time, text_of
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import WHOLE

MEMBERS = ("messages", "conversations", "conversation")
"""The members of an object that may have the messages of a conversation."""


def messages_of(value: Payload) -> list[Payload]:
    """Return the messages of a conversation, or [] if the value is not a conversation."""
    if isinstance(value, list):
        return value
    members = as_dict(value)
    return next((messages for name in MEMBERS if isinstance(messages := members.get(name), list)), [])


def begins_with(source: Source, is_conversation: Callable[[Payload], bool]) -> bool:
    """Return whether the first line of a file, its document, or the document's first row is a conversation."""
    lines = source.first_lines
    if lines and is_conversation(lines[0].value):
        return True
    document = source.document
    return is_conversation(document) or (_has_rows(document) and is_conversation(as_list(document)[0]))


def conversations(source: Source) -> Iterator[tuple[str, Line]]:
    """Yield a name and a line for each conversation of a file. A document, or each of its rows, counts as a line."""
    name = source.path.name.removesuffix(".json").removesuffix(".jsonl")
    document = source.document
    if _has_rows(document):
        for number, row in enumerate(as_list(document), start=1):
            yield f"{name}-{number}", Line(number, row, None if isinstance(row, dict) else "it is not an object")
    elif document is not None:
        yield name, Line(1, document)
    else:
        for line in source.each_line():
            yield f"{name}-{line.number}", line


def _has_rows(document: Payload) -> bool:
    rows = as_list(document)
    return bool(rows) and bool(messages_of(as_dict(rows[0])))


_CHAT_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_OF_A_SESSION = {"session_id", "sessionId", "timestamp"}
"""Members that only messages in the sessions of agents have. Such sessions have formats of their own."""


def recognizes_chat(source: Source) -> bool:
    """Return whether the first line, or the document, is a conversation with a message of the assistant."""
    return begins_with(source, _is_chat)


def _is_chat(value: Payload) -> bool:
    messages = messages_of(value)
    roles = [as_text(as_dict(message).get("role")) for message in messages]
    members = [as_dict(message).keys() for message in messages]
    are_messages = all(
        keys & {"content", "tool_calls", "function_call"} and not keys & _OF_A_SESSION for keys in members
    )
    return are_messages and "assistant" in roles and all(role in _CHAT_ROLES for role in roles)


def read_chat(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each conversation of the file."""
    for name, line in conversations(source):
        yield _run_of_chat(name, line)


def _run_of_chat(name: str, line: Line) -> ForeignRun:
    members = as_dict(line.value)
    rest = {key: value for key, value in members.items() if key not in {*MEMBERS, "tools", "model", "id"}}
    events: list[Event] = [
        *events_of(messages_of(line.value), as_list(members.get("tools")), as_text(members.get("model")))
    ]
    if line.why is not None:
        events.append(TimedFact.gap(what=f"line {line.number}", why=line.why))
    return ForeignRun(
        identity=as_text(members.get("id")) or name,
        events=events,
        model=as_text(members.get("model")),
        metadata={"row": rest} if rest else {},
    )


def events_of(
    messages: Iterable[Payload], tools: Sequence[Payload] = (), model: str | None = None, *, prompt_length: int = 0
) -> Iterator[Event]:
    """Yield the calls of a conversation, and executions for the results of tools that no later call saw.

    Answers among the first `prompt_length` messages are examples in the prompt, so they are not calls.
    """
    conversation, numbering = ForeignConversation(), CallNumbering()
    unseen: list[Members] = []
    calls: dict[str, ToolCall] = {}
    positioned = (
        (position, message)
        for position, value in enumerate(messages)
        for message in openai_chat.read_message(as_dict(value))
    )
    for position, unnumbered in positioned:
        message = numbering.number(unnumbered)
        members = message.to_document()
        if message.role == "assistant" and position >= prompt_length:
            unseen.clear()
            calls |= {call.call_id: call for call in message.tool_calls}
            response = {name: value for name, value in members.items() if name != "role"} | {
                "content": text_of(message.content)
            }
            length = len(conversation)
            yield Call(time="", conversation=conversation, length=length, response=response, model=model, tools=tools)
        elif message.role == "tool" and position >= prompt_length:
            unseen.append(members)
        conversation.add(members)
    yield from _executions(unseen, calls)


def _executions(results: Iterable[Members], calls: Mapping[str, ToolCall]) -> Iterator[ToolRun]:
    """Yield an execution for each message with the result of a tool. `calls` has the tool calls by their ids."""
    for result in results:
        call_id, name = as_text(result.get("call_id")), as_text(result.get("name"))
        call = calls.get(call_id or "")
        yield ToolRun(
            time="",
            name=name or (call.name if call else ""),
            arguments=call.arguments if call else None,
            call_id=call_id,
            ended="",
            result=result.get("content"),
        )


CHAT_MESSAGES = Format(
    name="chat-messages", reader=FormatReader(recognizes=recognizes_chat, read=read_chat, counting=WHOLE)
)


_BLOCK_ROLES = {"system", "developer", "user", "assistant"}
_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}
"""The types of blocks that only Anthropic's form has."""
_OF_THE_RUN = {*MEMBERS, "tools", "model", "id", "sessionId", "system", "system_prompt"}


def recognizes_blocks(source: Source) -> bool:
    """Return whether the first line, or the document, is a conversation with blocks that only Anthropic's form has."""
    return begins_with(source, _is_block_conversation)


def _is_block_conversation(value: Payload) -> bool:
    messages = [as_dict(message) for message in messages_of(value)]
    if not all(
        as_text(message.get("role")) in _BLOCK_ROLES and not message.keys() & {*_OF_A_SESSION, "uuid"}
        for message in messages
    ):
        return False
    kinds = (as_dict(block).get("type") for message in messages for block in as_list(message.get("content")))
    return any(isinstance(kind, str) and kind in _BLOCKS for kind in kinds)


def read_blocks(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each conversation of the file."""
    for name, line in conversations(source):
        yield _run_of_blocks(name, line)


def _run_of_blocks(name: str, line: Line) -> ForeignRun:
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
        if as_text(as_dict(message).get("role")) in _BLOCK_ROLES:
            read_message(run, history, as_dict(message), as_list(members.get("tools")))
        else:
            run.events.append(TimedFact.gap(what=f"message {number}", why="it has no role"))
    history.finish()
    if line.why is not None:
        run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why))
    return run


def read_message(run: ForeignRun, history: AgentHistory, message: Members, tools: list[Payload]) -> None:
    """Add a message to a history. A message of the assistant becomes a call."""
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
    """Return Cline's counts. Cline's input tokens include cached tokens."""
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


ANTHROPIC_HISTORY = Format(
    name="anthropic-history", reader=FormatReader(recognizes=recognizes_blocks, read=read_blocks, counting=WHOLE)
)
