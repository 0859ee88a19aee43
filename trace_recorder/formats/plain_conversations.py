"""Files that have only conversations, in OpenAI's chat form or in Anthropic's form of blocks.

A file is one document, a list of rows, or lines. A conversation is a list of messages, or an object with `messages`,
`conversations` or `conversation`. Each message of the assistant is a call that saw the messages before it. The file
states nothing else about the call.

Benchmarks, training sets and dumps of prompts have the chat form. All other formats are tried before the chat form.
Anthropic's form has `tool_use` and `tool_result` blocks. Cline and Roo use it, with a time `ts` for each message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.call_ids import CallNumbering
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, content_of
from trace_recorder.formats.foreign_runs.agent_history import add_answer
from trace_recorder.formats.foreign_runs.run import (
    Call,
    Event,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import first_known, joined_text, stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Message, Payload, ToolCall, without_none
from trace_recorder.values.token_counts import WHOLE

MEMBERS = ("messages", "conversations", "conversation")
"""The members of an object that may have the messages of a conversation."""


def messages_in(value: Payload) -> list[Payload]:
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


def named_conversations(source: Source) -> Iterator[tuple[str, Line]]:
    """Yield a name and a line for each conversation of a file. A document, or each of its rows, counts as a line."""
    name = source.path.name.removesuffix(".json").removesuffix(".jsonl")
    document = source.document
    if _has_rows(document):
        for number, row in enumerate(as_list(document), start=1):
            why = None if isinstance(row, dict) else "it is not an object"
            yield f"{name}-{number}", Line(number, row, why)
    elif document is not None:
        yield name, Line(1, document)
    else:
        for line in source.each_line():
            yield f"{name}-{line.number}", line


def _has_rows(document: Payload) -> bool:
    rows = as_list(document)
    return bool(rows) and bool(messages_in(as_dict(rows[0])))


_CHAT_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_NO_CALL = ToolCall("", "", None)
_OF_A_SESSION = {"session_id", "sessionId", "timestamp"}
"""Members that only messages in the sessions of agents have. Such sessions have formats of their own."""


def recognizes_chat(source: Source) -> bool:
    """Return whether the first line, or the document, is a conversation with a message of the assistant."""
    return begins_with(source, _is_chat)


def _is_chat(value: Payload) -> bool:
    messages = messages_in(value)
    roles = [as_text(as_dict(message).get("role")) for message in messages]
    members = [as_dict(message).keys() for message in messages]
    are_messages = all(
        keys & {"content", "tool_calls", "function_call"} and not keys & _OF_A_SESSION for keys in members
    )
    return are_messages and "assistant" in roles and all(role in _CHAT_ROLES for role in roles)


def read_chat(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each conversation of the file."""
    for name, line in named_conversations(source):
        yield _run_of_chat(name, line)


def _run_of_chat(name: str, line: Line) -> ForeignRun:
    members = as_dict(line.value)
    model = as_text(members.get("model"))
    run = ForeignRun(identity=as_text(members.get("id")) or name, model=model)
    run.events += events_of(messages_in(line.value), as_list(members.get("tools")), model)
    add_row(run, line, {*MEMBERS, "tools", "model", "id"})
    return run


def add_row(run: ForeignRun, line: Line, read: Collection[str]) -> None:
    """Add the members of a row that were not `read` to the metadata. A line that cannot be read becomes a gap."""
    rest = {name: value for name, value in as_dict(line.value).items() if name not in read}
    if rest:
        run.metadata["row"] = rest
    if line.why is not None:
        run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why))


def events_of(
    messages: Iterable[Payload], tools: Sequence[Payload] = (), model: str | None = None, *, prompt_length: int = 0
) -> Iterator[Event]:
    """Yield the calls of a conversation, and executions for the results of tools that no later call saw.

    Answers among the first `prompt_length` messages are examples in the prompt, so they are not calls.
    """
    conversation, numbering = ForeignConversation(), CallNumbering()
    unseen: list[Members] = []
    """The results that no call has seen yet."""
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
            response = members | {"content": joined_text(message.content)}
            del response["role"]
            length = len(conversation)
            yield Call(time="", conversation=conversation, length=length, response=response, model=model, tools=tools)
        elif message.role == "tool" and position >= prompt_length:
            unseen.append(members)
        conversation.add(members)
    for result in unseen:
        call_id, name = as_text(result.get("call_id")), as_text(result.get("name"))
        call = calls.get(call_id or "", _NO_CALL)
        yield ToolRun(
            time="",
            name=name or call.name,
            arguments=call.arguments,
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


def recognizes_block_conversations(source: Source) -> bool:
    """Return whether the first line, or the document, is a conversation with blocks that only Anthropic's form has."""
    return begins_with(source, _is_block_conversation)


def _is_block_conversation(value: Payload) -> bool:
    messages = [as_dict(message) for message in messages_in(value)]
    if not all(
        as_text(message.get("role")) in _BLOCK_ROLES and not message.keys() & {*_OF_A_SESSION, "uuid"}
        for message in messages
    ):
        return False
    kinds = (as_dict(block).get("type") for message in messages for block in as_list(message.get("content")))
    return any(isinstance(kind, str) and kind in _BLOCKS for kind in kinds)


def read_block_conversations(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each conversation of the file."""
    for name, line in named_conversations(source):
        yield _run_of_blocks(name, line)


def _run_of_blocks(name: str, line: Line) -> ForeignRun:
    members = as_dict(line.value)
    identity = as_text(members.get("id")) or as_text(members.get("sessionId")) or name
    reader = SessionReader(ForeignRun(identity=identity, model=as_text(members.get("model"))))
    read_block_messages(reader, members, messages_in(line.value))
    run = reader.finish()
    add_row(run, line, _OF_THE_RUN)
    return run


def read_block_messages(reader: SessionReader, members: Members, messages: list[Payload]) -> None:
    """Add the system prompt and the messages of a conversation. `members` are those of the object around the list."""
    system = content_of(members.get("system_prompt") or members.get("system"))
    if system is not None:
        reader.history.add(Message("system", system), "")
    for number, message in enumerate(map(as_dict, messages), start=1):
        role = as_text(message.get("role"))
        if role == "assistant":
            read_answer(reader, message, as_list(members.get("tools")))
        elif role == "user":
            read_prompt(reader, message)
        elif role in _BLOCK_ROLES:
            content = content_of(message.get("content"))
            reader.history.add(Message("system", content), stated_time(message.get("ts")))
        else:
            reader.add_gap(f"message {number}", "it has no role")


def read_prompt(reader: SessionReader, message: Members) -> None:
    """Add a user's message with blocks, which may have a time `ts`."""
    reader.add_prompt(message.get("content"), stated_time(message.get("ts")))


def read_answer(reader: SessionReader, message: Members, tools: list[Payload]) -> Call:
    """Add a message of the assistant with blocks as a call, and return the call."""
    model = as_dict(message.get("modelInfo"))
    answer = {name: message.get(name) for name in ("content", "id", "model", "stop_reason", "usage")}
    call = add_answer(reader.history, without_none(**answer), stated_time(message.get("ts")))
    call.tools = tools
    call.provider = as_text(model.get("provider")) or as_text(model.get("providerId"))
    call.model = as_text(model.get("id")) or as_text(model.get("modelId")) or call.model or reader.run.model
    reader.note_model(call.model)
    if "usage" in message:
        call.api = "anthropic-messages"
    else:
        call.set_usage(_usage(as_dict(message.get("metrics"))))
    return call


def _usage(metrics: Members) -> Members:
    """Return Cline's counts. Cline's input tokens include cached tokens."""
    remaining = Remaining(metrics)
    tokens = remaining.nested("tokens")
    return without_none(
        input_tokens=first_known(remaining.integer("inputTokens"), tokens.integer("prompt")),
        output_tokens=first_known(remaining.integer("outputTokens"), tokens.integer("completion")),
        cache_read_input_tokens=first_known(remaining.integer("cacheReadTokens"), tokens.integer("cached")),
        cache_creation_input_tokens=remaining.integer("cacheWriteTokens"),
        cost=remaining.number("cost"),
        extra=remaining.rest() or None,
    )


ANTHROPIC_HISTORY = Format(
    name="anthropic-history",
    reader=FormatReader(recognizes=recognizes_block_conversations, read=read_block_conversations, counting=WHOLE),
)
